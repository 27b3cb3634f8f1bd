// The dialog of options.

const dialog = document.getElementById("options");
const form = dialog.querySelector("form");
const problem = document.getElementById("options-error");
const NUMBERS = [...form.querySelectorAll("input[type=number]")].map((input) => input.name);

class OptionError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

function readNumber(name) {
  const input = form.elements[name];
  if (input.validity.badInput || !input.checkValidity()) {
    const label = input.closest("label").firstChild.textContent;
    throw new OptionError(input, `${label}: ${input.validationMessage}`);
  }
  return input.value === "" ? undefined : Number(input.value);
}

function readTools() {
  const area = form.elements.tools;
  if (!area.value.trim()) return [];
  let tools;
  try {
    tools = JSON.parse(area.value);
  } catch (cause) {
    throw new OptionError(area, `Tools: ${cause.message}`);
  }
  if (!Array.isArray(tools) || !tools.every((t) => typeof t?.function?.name === "string"))
    throw new OptionError(area, 'Tools: wanted a list of {"type": "function", "function": {"name": …}}');
  return tools;
}

function read() {
  const options = Object.fromEntries(NUMBERS.map((name) => [name, readNumber(name)]));
  options.system = form.elements.system.value;
  options.thinking = form.elements.thinking.value;
  options.stop = form.elements.stop.value.split("\n").filter((line) => line !== "");
  options.tools = readTools();
  return options;
}

function fill({ options, key, theme }) {
  form.reset();
  for (const name of [...NUMBERS, "system", "thinking"]) form.elements[name].value = options[name] ?? "";
  form.elements.stop.value = (options.stop ?? []).join("\n");
  form.elements.tools.value = options.tools?.length ? JSON.stringify(options.tools, null, 1) : "";
  form.elements.key.value = key;
  form.elements.theme.value = theme;
}

function tell(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

document.getElementById("options-cancel").addEventListener("click", () => dialog.close());

// Shows {options, key, theme}; `onSave` gets them changed.
export function openOptions(state, text, onSave) {
  if (dialog.open) return tell(text);
  fill(state);
  tell(text);
  form.onsubmit = (event) => {
    try {
      onSave({ options: read(), key: form.elements.key.value.trim(), theme: form.elements.theme.value });
    } catch (error) {
      if (!(error instanceof OptionError)) throw error;
      event.preventDefault();
      tell(error.message);
      error.field.focus();
    }
  };
  dialog.showModal();
  if (text) form.elements.key.focus();
}
