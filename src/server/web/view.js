// One message of a conversation on the page.  A view follows its message: change the message,
// call `show`.  What the reader does comes back through `actions`: edit(message, text),
// retry(message), results(message, texts by call id).
import { el } from "./dom.js";
import { Markdown } from "./markdown.js";

const BLANK = {
  reasoning: "The limit of tokens came before the reasoning ended.",
  eos: "The model ended its answer at once.",
  stop: "A stop string was the first thing that the model said.",
  unparsed: "The model wrote tool calls that cannot be read.",
};
const FINISH = { length: "cut at the limit of tokens" };

function button(text, onClick, attributes = {}) {
  const node = el("button", { type: "button", class: "quiet", ...attributes }, text);
  node.addEventListener("click", onClick);
  return node;
}

const seconds = (s) => (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export async function copy(text, node) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard without TLS: the old way
    const area = el("textarea", { class: "hidden" });
    area.value = text;
    (node.closest("dialog") ?? document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = node.textContent;
  node.textContent = "Copied";
  setTimeout(() => { node.textContent = before; }, 1500);
}

// Arguments of a call as they are best read: indented if they are JSON.
function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function statistics(message) {
  const { stats, finish, is_stopped } = message;
  const parts = [];
  if (stats?.tokens !== undefined) {
    parts.push(count(stats.tokens, "token"));
    if (stats.tokens > 1 && stats.new_s > 0) parts.push(`${((stats.tokens - 1) / stats.new_s).toFixed(1)} tokens/s`);
    if (stats.reasoning) parts.push(`${stats.reasoning.toLocaleString("en")} of them reasoning`);
    parts.push(`prompt ${stats.prompt.toLocaleString("en")}${stats.cached ? ` (${stats.cached.toLocaleString("en")} kept)` : ""}`);
  }
  if (stats?.first_s !== undefined) parts.push(`first after ${seconds(stats.first_s)}`);
  if (is_stopped) parts.push("stopped");
  if (FINISH[finish]) parts.push(FINISH[finish]);
  return parts.join(" · ");
}

// ---- what was asked ----

class Question {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.text = el("div", { class: "text", dir: "auto" });
    this.edit = button("Edit", () => this.startEdit());
    this.tools = el("footer", {}, el("span", { class: "buttons" }, this.edit));
    this.node = el("article", { class: "turn user" }, el("h2", { class: "hidden" }, "You"), this.text, this.tools);
  }
  show() {
    this.text.textContent = this.message.content;
  }
  startEdit() {
    const area = el("textarea", { "aria-label": "Edit the message", rows: "3" });
    area.value = this.message.content;
    const form = el("form", { class: "edit" }, area, el("p", { class: "end" },
      button("Cancel", () => this.endEdit(form)), el("button", { type: "submit", class: "main" }, "Send")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (area.value.trim()) this.actions.edit(this.message, area.value);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.endEdit(form);
      else if (event.target === area && isSend(event)) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.text.replaceWith(form);
    this.tools.hidden = true;
    area.focus();
  }
  endEdit(form) {
    form.replaceWith(this.text);
    this.tools.hidden = false;
    this.edit.focus();
  }
}

// Enter, but not with Shift, nor while an input method is composing.
export function isSend(event) {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}

// ---- what a tool gave ----

class Result {
  constructor(message, actions, callName) {
    this.message = message;
    this.text = el("pre", { tabindex: "0", "aria-label": "Result" });
    this.node = el("article", { class: "turn tool" }, el("h2", { class: "hidden" }, "Result of a tool"),
      el("figure", { class: "call" }, el("figcaption", {}, el("span", {}, `Result of ${callName || "a call"}`)), this.text));
  }
  show() {
    this.text.textContent = this.message.content;
  }
}

// ---- what was answered ----

class Answer {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.summary = el("summary", {});
    this.thought = el("div", { class: "thought", dir: "auto" });
    this.reasoning = el("details", { class: "reasoning" }, this.summary, this.thought);
    this.text = el("div", { class: "text" });
    this.markdown = new Markdown(this.text);
    this.wait = el("p", { class: "wait", "aria-hidden": "true" }, el("i"), el("i"), el("i"));
    this.calls = el("div", { class: "calls" });
    this.note = el("p", { class: "note" });
    this.error = el("p", { class: "error", role: "alert" });
    this.numbers = el("span", { class: "numbers" });
    this.footer = el("footer", {}, el("span", { class: "buttons" },
      button("Copy", (e) => copy(this.message.content, e.currentTarget)),
      button("Retry", () => this.actions.retry(this.message))), this.numbers);
    this.node = el("article", { class: "turn assistant" }, el("h2", { class: "hidden" }, "Answer"),
      this.reasoning, this.text, this.wait, this.calls, this.note, this.error, this.footer);
  }
  // isRunning: more is to come.  isLast: results of its calls may still be given.
  show({ isRunning = false, isLast = false } = {}) {
    const { message } = this;
    const isThinking = isRunning && !message.content && !message.tool_calls?.length;
    this.reasoning.hidden = !message.reasoning_content;
    this.reasoning.classList.toggle("running", isThinking);
    this.summary.textContent = isThinking ? "Thinking" :
      message.stats?.thought_s > 0 ? `Thought for ${seconds(message.stats.thought_s)}` : "Thoughts";
    if (this.thought.textContent !== (message.reasoning_content ?? ""))
      this.thought.textContent = message.reasoning_content ?? "";
    this.markdown.show(message.content);
    this.wait.hidden = !isThinking || Boolean(message.reasoning_content);
    this.showCalls(isRunning, isLast);
    this.note.textContent = isRunning ? "" : message.note ?? BLANK[message.blank] ?? "";
    this.note.hidden = !this.note.textContent;
    this.error.textContent = message.error ?? "";
    this.error.hidden = !message.error;
    this.numbers.textContent = statistics(message);
    this.footer.hidden = isRunning;
  }
  showCalls(isRunning, isLast) {
    const calls = this.message.tool_calls ?? [];
    const wanted = JSON.stringify([calls, isRunning, isLast]);
    if (this.shown === wanted) return;
    this.shown = wanted;
    this.calls.replaceChildren(...calls.map((call) => el("figure", { class: "call" },
      el("figcaption", {}, el("span", {}, "Calls "), el("strong", {}, call.function.name)),
      el("pre", { tabindex: "0", "aria-label": `Arguments of ${call.function.name}` }, el("code", {}, pretty(call.function.arguments))))));
    if (calls.length && isLast && !isRunning && !this.message.error) this.calls.append(this.resultsForm(calls));
  }
  resultsForm(calls) {
    const areas = calls.map((call) => {
      const area = el("textarea", { rows: "1", spellcheck: "false", class: "code", required: "" });
      return { id: call.id, area, label: el("label", {}, `Result of ${call.function.name}`, area) };
    });
    const form = el("form", { class: "results" }, ...areas.map((a) => a.label),
      el("p", { class: "end" }, el("button", { type: "submit", class: "main" }, areas.length > 1 ? "Send results" : "Send result")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.actions.results(this.message, areas.map(({ id, area }) => ({ id, text: area.value })));
    });
    form.addEventListener("keydown", (event) => {
      if (!isSend(event) || event.target.tagName !== "TEXTAREA") return;
      event.preventDefault();
      form.requestSubmit();
    });
    return form;
  }
}

// The view of message i of a conversation.
export function viewOf(messages, i, actions) {
  const message = messages[i];
  if (message.role === "user") return new Question(message, actions);
  if (message.role !== "tool") return new Answer(message, actions);
  const calls = messages.slice(0, i).flatMap((m) => m.tool_calls ?? []);
  return new Result(message, actions, calls.find((c) => c.id === message.tool_call_id)?.function.name);
}
