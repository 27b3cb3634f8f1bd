// What this browser keeps: conversations in localStorage, one an entry; the API key until the
// tab is closed.  Where storage is refused or full, the page works without it.

const PREFIX = "hadal.conversation.";
const DEFAULTS = "hadal.options";
const THEME = "hadal.theme";
const KEY = "hadal.key";

function attempt(work, otherwise) {
  try {
    return work();
  } catch {
    return otherwise;
  }
}

function parse(text) {
  return attempt(() => JSON.parse(text), null);
}

const isConversation = (c) => typeof c?.id === "string" && Array.isArray(c.messages) &&
  c.messages.every((m) => typeof m?.role === "string");

export function loadAll() {
  const names = attempt(() => Object.keys(localStorage), []);
  return names.filter((name) => name.startsWith(PREFIX))
    .map((name) => parse(localStorage.getItem(name))).filter(isConversation)
    .sort((a, b) => (b.updated ?? 0) - (a.updated ?? 0));
}

// Returns false when the browser did not take it.
export function save(conversation) {
  return attempt(() => {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
    return true;
  }, false);
}

export function remove(conversation) {
  attempt(() => localStorage.removeItem(PREFIX + conversation.id));
}

// A fresh conversation begins with the options that were saved last.
export function create() {
  const options = parse(attempt(() => localStorage.getItem(DEFAULTS), null)) ?? {};
  return { id: crypto.getRandomValues(new Uint32Array(3)).join("-"), updated: Date.now(), options, messages: [] };
}

export function saveDefaults(options) {
  attempt(() => localStorage.setItem(DEFAULTS, JSON.stringify(options)));
}

export const theme = {
  get: () => attempt(() => localStorage.getItem(THEME), null) ?? "",
  set: (value) => attempt(() => localStorage.setItem(THEME, value)),
};

export const key = {
  get: () => attempt(() => sessionStorage.getItem(KEY), null) ?? "",
  set: (value) => attempt(() => sessionStorage.setItem(KEY, value)),
};

// What the conversation is called in the list.
export function title(conversation) {
  const first = conversation.messages.find((m) => m.role === "user")?.content ?? "";
  return first.trim().split("\n")[0].slice(0, 80) || "New conversation";
}

// ---- requests ----

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
  "max_tokens", "seed"];

// Only what the API defines; what the page measured stays here.
function asMessage(m) {
  const out = { role: m.role, content: m.content };
  if (m.reasoning_content) out.reasoning_content = m.reasoning_content;
  if (m.tool_calls?.length) out.tool_calls = m.tool_calls;
  if (m.tool_call_id) out.tool_call_id = m.tool_call_id;
  return out;
}

function thinking(effort) {
  if (!effort) return {};
  if (effort === "off") return { thinking: { type: "disabled" } };
  return { thinking: { type: "enabled" }, reasoning_effort: effort };
}

// The Chat Completions request that asks for the next message of a conversation.
export function asRequest(conversation, model) {
  const { options, messages } = conversation;
  const request = { model, messages: messages.filter((m) => !m.is_failed).map(asMessage), ...thinking(options.thinking) };
  if (options.system) request.messages.unshift({ role: "system", content: options.system });
  for (const name of NUMBERS) if (options[name] !== undefined) request[name] = options[name];
  if (options.stop?.length) request.stop = options.stop;
  if (options.tools?.length) request.tools = options.tools;
  return request;
}

// ---- export ----

// Offers a conversation as a file, in the shape of a request that continues it.
export function download(conversation, model) {
  const text = JSON.stringify(asRequest(conversation, model), null, 2);
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const name = title(conversation).replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40);
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name || "conversation"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
