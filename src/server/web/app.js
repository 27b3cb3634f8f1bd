// The page: one conversation at a time, its list, its options, and the answer that is running.
import { answer, emptyAnswer } from "./answer.js";
import { get } from "./api.js";
import { el } from "./dom.js";
import { fillFacts, modelFacts, showFacts } from "./facts.js";
import { openOptions } from "./options.js";
import * as store from "./store.js";
import { copy, isSend, viewOf } from "./view.js";

const $ = (id) => document.getElementById(id);
const [log, prompt, scroll] = [$("log"), $("prompt"), $("scroll")];

let conversations = store.loadAll();
let current = store.create();
let views = [];
let running = null; // { controller, view } while an answer comes
let model = "";

function say(text) {
  $("status").textContent = text;
}

function applyTheme() {
  document.documentElement.dataset.theme = store.theme.get();
}

// ---- the model ----

async function loadModel() {
  try {
    const models = await get("v1/models", store.key.get());
    model = models.data?.[0]?.id ?? "";
    fillFacts(await modelFacts(model, store.key.get()), model);
    document.body.dataset.server = "ready";
  } catch (error) {
    document.body.dataset.server = "away";
    $("model-name").textContent = error.status === 401 ? "needs a key" : "not reached";
    if (error.status === 401) options(error.message);
  }
}

// ---- the list of conversations ----

function showList() {
  $("conversations").replaceChildren(...conversations.map((conversation) => {
    const item = el("button", { type: "button", class: "item", dir: "auto" }, store.title(conversation));
    if (conversation.id === current.id) item.setAttribute("aria-current", "true");
    item.addEventListener("click", () => open(conversation));
    return el("li", {}, item);
  }));
  const isEmpty = current.messages.length === 0;
  $("export-button").disabled = $("delete-button").disabled = isEmpty;
}

function toggleList(isOpen) {
  document.body.classList.toggle("list-open", isOpen);
  $("list-button").setAttribute("aria-expanded", String(isOpen));
  $("shade").hidden = !isOpen;
  if (isOpen) $("new-button").focus();
}

function keep() {
  current.updated = Date.now();
  conversations = [current, ...conversations.filter((c) => c.id !== current.id)];
  if (!store.save(current)) say("This browser has no room to keep the conversation.");
  showList();
}

function open(conversation) {
  stop();
  current = conversation;
  toggleList(false);
  showAll();
  showList();
  scrollDown();
  prompt.focus();
}

function ask(text) {
  $("confirm-text").textContent = text;
  $("confirm").returnValue = "no";
  $("confirm").showModal();
  return new Promise((resolve) => {
    $("confirm").addEventListener("close", () => resolve($("confirm").returnValue === "yes"), { once: true });
  });
}

async function deleteCurrent() {
  if (!await ask(`Delete “${store.title(current)}” from this browser?`)) return;
  stop();
  store.remove(current);
  conversations = conversations.filter((c) => c.id !== current.id);
  open(conversations[0] ?? store.create());
}

// ---- the messages ----

const actions = {
  edit(message, text) {
    cutAt(message);
    submit(text);
  },
  retry(message) {
    cutAt(message);
    showAll();
    run();
  },
  results(message, results) {
    for (const { id, text } of results) current.messages.push({ role: "tool", tool_call_id: id, content: text });
    showAll();
    run();
  },
};

// The conversation goes back to what was before `message`.
function cutAt(message) {
  stop();
  current.messages.length = current.messages.indexOf(message);
}

function showAll() {
  views = current.messages.map((_, i) => viewOf(current.messages, i, actions));
  views.forEach((view, i) => view.show({ isLast: i === views.length - 1 }));
  log.replaceChildren(...views.map((view) => view.node));
  $("welcome").hidden = views.length > 0;
}

function add(message) {
  views.at(-1)?.show();
  current.messages.push(message);
  const view = viewOf(current.messages, current.messages.length - 1, actions);
  views.push(view);
  log.append(view.node);
  $("welcome").hidden = true;
  return view;
}

const isAtEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
function scrollDown() {
  scroll.scrollTop = scroll.scrollHeight;
}

function submit(text) {
  if (!text.trim()) return;
  current.messages.push({ role: "user", content: text });
  showAll();
  run();
}

// ---- the answer that is running ----

function setRunning(value) {
  running = value;
  document.body.classList.toggle("running", Boolean(value));
  log.setAttribute("aria-busy", String(Boolean(value)));
  $("send-button").setAttribute("aria-label", value ? "Stop" : "Send");
}

function stop() {
  running?.controller.abort();
}

async function run() {
  const conversation = current;
  const request = store.asRequest(conversation, model);
  const message = emptyAnswer();
  const view = add(message);
  const mine = { controller: new AbortController(), view };
  setRunning(mine);
  keep();
  say("The model is answering.");
  scrollDown();
  let isDrawn = true;
  const draw = () => {
    isDrawn = true;
    const follows = isAtEnd();
    if (running === mine) view.show({ isRunning: true });
    if (follows) scrollDown();
  };
  view.show({ isRunning: true });
  const error = await answer(message, request, store.key.get(), mine.controller.signal, () => {
    if (isDrawn) requestAnimationFrame(draw);
    isDrawn = false;
  });
  finish(mine, conversation, message, error);
}

function finish(mine, conversation, message, error) {
  if (running === mine) setRunning(null);
  const isShown = conversation === current && conversation.messages.includes(message);
  if (!isShown) {
    if (conversations.includes(conversation)) store.save(conversation);
    return;
  }
  const follows = isAtEnd();
  mine.view.show({ isLast: conversation.messages.at(-1) === message });
  if (follows) scrollDown();
  keep();
  say(error ? error.message : message.is_stopped ? "Stopped." : "The answer is complete.");
  if (error?.status === 401) options(error.message);
  else if (document.body.dataset.server === "away") loadModel();
}

// ---- options ----

function options(problem = "") {
  openOptions({ options: current.options, key: store.key.get(), theme: store.theme.get() }, problem, (saved) => {
    current.options = saved.options;
    store.saveDefaults(saved.options);
    store.theme.set(saved.theme);
    applyTheme();
    if (current.messages.length) keep();
    if (saved.key !== store.key.get() || document.body.dataset.server !== "ready") {
      store.key.set(saved.key);
      loadModel();
    }
  });
}

// ---- what the reader does ----

function grow() {
  const most = window.innerHeight / 3;
  prompt.style.height = "auto";
  prompt.style.overflowY = prompt.scrollHeight > most ? "auto" : "hidden";
  prompt.style.height = `${Math.min(prompt.scrollHeight + 2, most)}px`; // 2: its border
}

function send() {
  const text = prompt.value;
  if (!text.trim()) return;
  prompt.value = "";
  grow();
  submit(text);
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) stop();
  else send();
});
prompt.addEventListener("input", grow);
prompt.addEventListener("keydown", (event) => {
  if (!isSend(event)) return;
  event.preventDefault();
  if (!running) send();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (running) stop();
  else if (document.body.classList.contains("list-open")) {
    toggleList(false);
    $("list-button").focus();
  }
});
document.addEventListener("click", (event) => {
  const node = event.target.closest?.("[data-copy]");
  if (node) copy(node.closest("figure").querySelector("code").textContent, node);
});
scroll.addEventListener("scroll", () => { $("latest-button").hidden = isAtEnd(); });
$("latest-button").addEventListener("click", () => { scrollDown(); prompt.focus(); });
$("list-button").addEventListener("click", () => toggleList(!document.body.classList.contains("list-open")));
$("shade").addEventListener("click", () => toggleList(false));
$("new-button").addEventListener("click", () => open(store.create()));
$("export-button").addEventListener("click", () => store.download(current, model));
$("delete-button").addEventListener("click", deleteCurrent);
$("options-button").addEventListener("click", () => options());
$("facts-button").addEventListener("click", () => {
  if (document.body.dataset.server === "away") loadModel();
  showFacts();
});

applyTheme();
showAll();
showList();
loadModel();
