// What the server says about its model, in the header, on the first view and in a dialog.
import { get } from "./api.js";
import { el } from "./dom.js";

const $ = (id) => document.getElementById(id);

// The facts of GET /props, or those of the list of models where a server has no /props.
export async function modelFacts(model, key) {
  try {
    return await get("props", key);
  } catch {
    return { model };
  }
}

const words = (name) => name.replaceAll("_", " ");

function shown(value) {
  if (typeof value === "number") return value.toLocaleString("en");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.every((v) => typeof v !== "object") ? value.join(", ") : JSON.stringify(value);
  return String(value);
}

// Nested objects become sections, so that whatever a server tells is shown.
function sections(facts, title = "") {
  const isPart = (value) => value && typeof value === "object" && !Array.isArray(value);
  const plain = Object.entries(facts).filter(([, value]) => value !== null && !isPart(value));
  const parts = Object.entries(facts).filter(([, value]) => isPart(value));
  const list = el("dl", {}, ...plain.flatMap(([name, value]) => [el("dt", {}, words(name)), el("dd", {}, shown(value))]));
  return [...(title ? [el("h3", {}, title)] : []), ...(plain.length ? [list] : []),
    ...parts.flatMap(([name, value]) => sections(value, words(title ? `${title}: ${name}` : name)))];
}

const WELCOME = [
  ["context", "context", (n) => `${shown(n)} tokens`],
  ["weights", "formats", shown],
  ["activations", "activations", shown],
  ["cache rows", "kv", shown],
];

export function fillFacts(facts, model) {
  $("model-name").textContent = $("welcome-model").textContent = model || "its model";
  $("facts-title").textContent = model || "Model";
  $("facts-list").replaceChildren(...sections(facts));
  const known = WELCOME.filter(([, name]) => facts[name] !== undefined);
  $("welcome-facts").replaceChildren(...known.flatMap(([label, name, show]) => [el("dt", {}, label), el("dd", {}, show(facts[name]))]));
}

export function showFacts() {
  $("facts").showModal();
}
