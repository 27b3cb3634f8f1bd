// Markdown of a model's answer as DOM nodes.
//
// The text is hostile: only nodes are built, never markup; links go to http, https and mailto,
// images are named but not fetched, HTML is shown as text.  Work is linear in the text but for
// the bounds below, and a growing text costs only its last block (see `Markdown`).

import { el } from "./dom.js";

const MAX_DEPTH = 12; // of quotes and lists in each other
const MAX_OPEN = 24; // emphasis that waits for its end
const MAX_LABEL = 1000; // bytes of a link's text or address

// ---- blocks ----

const FENCE = /^ {0,3}(?:(`{3,})[^`]*|(~{3,}).*)$/;
const HEADING = /^ {0,3}(#{1,6})(?: (.*))?$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|$)/;
const DELIMITER = /^:?-+:?$/;

const isBlank = (line) => /^\s*$/.test(line);
const indentOf = (line) => line.match(/^ */)[0].length;

function startsTable(lines, i) {
  if (i + 1 >= lines.length || !lines[i].includes("|") || !lines[i + 1].includes("-")) return false;
  const sides = cells(lines[i + 1]);
  return sides.every((cell) => DELIMITER.test(cell)) && cells(lines[i]).length === sides.length;
}

// Whether line i ends a paragraph above it by beginning something else.
function interrupts(lines, i) {
  const line = lines[i];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
    /^ {0,3}(?:[-*+]|1[.)]) +\S/.test(line) || startsTable(lines, i);
}

function fenceOf(line) {
  const found = line.match(FENCE);
  return found[1] ?? found[2];
}

function closesFence(line, mark) {
  const text = line.trim();
  return indentOf(line) < 4 && text.length >= mark.length && text === mark[0].repeat(text.length);
}

function endOfFence(lines, i) {
  const mark = fenceOf(lines[i]);
  let end = i + 1;
  while (end < lines.length && !closesFence(lines[end], mark)) end++;
  return Math.min(end + 1, lines.length);
}

// Lines that go on with a quote or an item: those that `belongs` takes, and the rest of a paragraph.
function endOfRun(lines, i, belongs) {
  let end = i + 1;
  while (end < lines.length) {
    const isLazy = !isBlank(lines[end]) && !isBlank(lines[end - 1]) && !interrupts(lines, end) &&
      !ITEM.test(lines[end]);
    if (!belongs(lines[end], end) && !isLazy) break;
    end++;
  }
  while (end > i + 1 && isBlank(lines[end - 1])) end--;
  return end;
}

const kindOf = (marker) => (/\d/.test(marker) ? marker.at(-1) : marker);

function endOfList(lines, i) {
  const [, indent, marker] = lines[i].match(ITEM);
  const isNext = (line) => {
    const item = line.match(ITEM);
    return item && kindOf(item[2]) === kindOf(marker) && !RULE.test(line);
  };
  return endOfRun(lines, i, (line, at) => isBlank(line)
    ? at + 1 < lines.length && (isNext(lines[at + 1]) || indentOf(lines[at + 1]) > indent.length + 1)
    : isNext(line) || indentOf(line) > indent.length + 1);
}

function endOfTable(lines, i) {
  let end = i + 2;
  while (end < lines.length && !isBlank(lines[end]) && lines[end].includes("|")) end++;
  return end;
}

function endOfParagraph(lines, i) {
  let end = i + 1;
  while (end < lines.length && !isBlank(lines[end]) && !interrupts(lines, end)) end++;
  return end;
}

// Cuts lines into blocks {build, lines}; `build(lines, depth)` makes the nodes.
function cut(lines, depth) {
  const blocks = [];
  const isNested = depth < MAX_DEPTH;
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    let end, build;
    if (isBlank(line)) { i++; continue; }
    if (FENCE.test(line)) [end, build] = [endOfFence(lines, i), buildCode];
    else if (HEADING.test(line)) [end, build] = [i + 1, buildHeading];
    else if (RULE.test(line)) [end, build] = [i + 1, () => el("hr")];
    else if (isNested && QUOTE.test(line))
      [end, build] = [endOfRun(lines, i, (next) => QUOTE.test(next)), buildQuote];
    else if (isNested && ITEM.test(line)) [end, build] = [endOfList(lines, i), buildList];
    else if (startsTable(lines, i)) [end, build] = [endOfTable(lines, i), buildTable];
    else [end, build] = [endOfParagraph(lines, i), buildParagraph];
    blocks.push({ build, lines: lines.slice(i, end) });
    i = end;
  }
  return blocks;
}

const buildAll = (lines, depth) => cut(lines, depth).map((b) => b.build(b.lines, depth));

function buildHeading([line]) {
  const [, marks, rest = ""] = line.match(HEADING);
  const text = rest.trim().replace(/(^| )#+$/, "");
  // The page's own headings stand above those of an answer.
  return el(`h${Math.min(6, marks.length + 2)}`, { dir: "auto" }, inline(text));
}

function buildParagraph(lines) {
  return el("p", { dir: "auto" }, inline(lines.map((l) => l.replace(/^\s+/, "")).join("\n")));
}

function buildQuote(lines, depth) {
  return el("blockquote", {}, buildAll(lines.map((l) => l.replace(QUOTE, "")), depth + 1));
}

function buildCode(lines) {
  const mark = fenceOf(lines[0]);
  const language = lines[0].trim().slice(mark.length).trim().split(" ")[0];
  const isClosed = lines.length > 1 && closesFence(lines.at(-1), mark);
  const text = lines.slice(1, isClosed ? -1 : undefined).join("\n");
  const copy = el("button", { type: "button", class: "quiet", "data-copy": "" }, "Copy");
  const label = `Code${language ? `, ${language}` : ""}`;
  return el("figure", { class: "code" }, el("figcaption", {}, el("span", {}, language || "text"), copy),
    el("pre", { tabindex: "0", "aria-label": label }, el("code", {}, text)));
}

function buildList(lines, depth) {
  const [, indent, marker] = lines[0].match(ITEM);
  const isOrdered = /\d/.test(marker);
  const items = [];
  for (const line of lines) {
    const item = indentOf(line) <= indent.length + 1 && !RULE.test(line) && line.match(ITEM);
    if (item && kindOf(item[2]) === kindOf(marker)) {
      const width = item[0].length > item[1].length + item[2].length + 4
        ? item[1].length + item[2].length + 1 : item[0].length;
      items.push({ width, lines: [line.slice(width)] });
    } else {
      const last = items.at(-1);
      last.lines.push(line.slice(Math.min(indentOf(line), last.width)));
    }
  }
  const isLoose = items.some((item) => item.lines.some((l, i) => i > 0 && isBlank(l)));
  const list = el(isOrdered ? "ol" : "ul", {}, items.map((item) => buildItem(item, isLoose, depth)));
  if (isOrdered && parseInt(marker, 10) !== 1) list.setAttribute("start", parseInt(marker, 10));
  return list;
}

// The children of a paragraph.
function unwrapped(paragraph) {
  const out = document.createDocumentFragment();
  paragraph.removeAttribute("dir"); // else each child that leaves costs a look at all others
  while (paragraph.firstChild) out.append(paragraph.firstChild);
  return out;
}

function buildItem(item, isLoose, depth) {
  const task = item.lines[0].match(/^\[([ xX])\] +/);
  if (task) item.lines[0] = item.lines[0].slice(task[0].length);
  const nodes = buildAll(item.lines, depth + 1);
  const node = el("li", { dir: "auto" }, nodes.map((n) => n.tagName === "P" && !isLoose ? unwrapped(n) : n));
  if (task) {
    const box = el("input", { type: "checkbox", disabled: "" });
    box.checked = task[1] !== " ";
    node.classList.add("task");
    node.prepend(box, " ");
  }
  return node;
}

// The cells of a table's row: parts between bars that are neither escaped nor in code.
function cells(line) {
  const row = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  const out = [""];
  let isCode = false;
  for (let i = 0; i < row.length; i++) {
    if (row[i] === "\\" && row[i + 1] === "|") out[out.length - 1] += row[++i];
    else if (row[i] === "|" && !isCode) out.push("");
    else {
      if (row[i] === "`") isCode = !isCode && row.indexOf("`", i + 1) > 0;
      out[out.length - 1] += row[i];
    }
  }
  return out.map((cell) => cell.trim());
}

function buildTable(lines) {
  const sides = cells(lines[1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "end") : "start"));
  const row = (line, tag) => {
    const texts = cells(line);
    return el("tr", {}, sides.map((side, i) =>
      el(tag, { class: side, dir: "auto", ...(tag === "th" && { scope: "col" }) }, inline(texts[i] ?? ""))));
  };
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, row(lines[0], "th")),
      el("tbody", {}, lines.slice(2).map((line) => row(line, "td")))));
}

// ---- text within a block ----

const ALLOWED = new Set(["http:", "https:", "mailto:"]);

// The address if a reader may follow it, else null.
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ALLOWED.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(address, ...children) {
  return el("a", { href: address, title: address, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

// Where the bracket opened at `at` closes, or -1.
function closing(text, at, open, close) {
  let depth = 0;
  const end = Math.min(text.length, at + MAX_LABEL);
  for (let i = at; i < end; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === open) depth++;
    else if (text[i] === close && --depth === 0) return i;
  }
  return -1;
}

// A link or image at `at`, whose text begins with a bracket: {node, end}, or null.
function bracketed(text, at, depth) {
  const isImage = text[at] === "!";
  const from = isImage ? at + 1 : at;
  const mid = closing(text, from, "[", "]");
  if (mid < 0 || text[mid + 1] !== "(") return null;
  const end = closing(text, mid + 1, "(", ")");
  if (end < 0) return null;
  const target = text.slice(mid + 2, end).trim().match(/^<?(\S*?)>?(?:\s+["'(].*["')])?$/s);
  const address = target && safeAddress(target[1].replace(/\\([!-/:-@[-`{-~])/g, "$1"));
  if (!address) return null;
  const label = text.slice(from + 1, mid);
  const shown = isImage ? `Image: ${label || address}` : label ? inline(label, depth + 1) : address;
  return { node: link(address, shown), end: end + 1 };
}

// Letters and digits on both sides of an underscore make it a part of a word.
const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

// The fragments that open emphasis marks gather, one within the other; the first is the whole.
class Frames {
  constructor() {
    this.open = [{ nodes: document.createDocumentFragment() }];
  }
  add(...nodes) {
    this.open.at(-1).nodes.append(...nodes);
  }
  // The innermost frame turns out to be no emphasis: its mark is text.
  giveUp() {
    const frame = this.open.pop();
    this.add(frame.mark.repeat(frame.n), frame.nodes);
  }
  // A run of n marks: ends what waits for it, then perhaps begins something.
  run(mark, n, canOpen, canClose) {
    while (canClose && n > 0) {
      const at = this.open.findLastIndex((f) => f.mark === mark && (mark !== "~" || f.n === n));
      if (at < 1) break;
      while (this.open.length > at + 1) this.giveUp();
      n -= this.wrap(n);
    }
    if (n === 0) return;
    if (canOpen && this.open.length < MAX_OPEN)
      this.open.push({ mark, n, nodes: document.createDocumentFragment() });
    else this.add(mark.repeat(n));
  }
  // Ends the innermost frame by up to n marks; returns how many it took.
  wrap(n) {
    const frame = this.open.at(-1);
    const used = Math.min(2, n, frame.n);
    const tag = frame.mark === "~" ? "del" : used === 2 ? "strong" : "em";
    const node = el(tag, {}, frame.nodes);
    frame.nodes.append(node);
    frame.n -= used;
    if (frame.n === 0) {
      this.open.pop();
      this.add(frame.nodes);
    }
    return used;
  }
  close() {
    while (this.open.length > 1) this.giveUp();
    return this.open[0].nodes;
  }
}

const SPECIAL = /[\\`*_~[!<\n]|https?:\/\//g;

export function inline(text, depth = 0) {
  const frames = new Frames();
  const noTicks = new Set(); // lengths of runs of backticks that do not come again
  let at = 0;
  const literal = (n) => { frames.add(text.slice(at, at + n)); at += n; };

  const takers = {
    "\\"() {
      if (text[at + 1] === "\n") { frames.add(el("br")); at += 2; }
      else if (/[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) { at++; literal(1); }
      else literal(1);
    },
    "`"() {
      const ticks = text.slice(at).match(/^`+/)[0].length;
      const end = noTicks.has(ticks) ? -1 : endOfTicks(text, at + ticks, ticks);
      if (end < 0) { noTicks.add(ticks); return literal(ticks); }
      const inner = text.slice(at + ticks, end).replace(/\n/g, " ");
      frames.add(el("code", {}, inner.replace(/^ (.*[^ ].*) $/, "$1")));
      at = end + ticks;
    },
    "["() {
      const found = depth < 4 ? bracketed(text, at, depth) : null;
      if (!found) return literal(1);
      frames.add(found.node);
      at = found.end;
    },
    "!"() {
      if (text[at + 1] === "[") takers["["]();
      else literal(1);
    },
    "<"() {
      const found = text.slice(at, at + MAX_LABEL).match(/^<((?:https?:\/\/|mailto:)[^\s<>]*)>/i);
      const address = found && safeAddress(found[1]);
      if (!address) return literal(1);
      frames.add(link(address, found[1]));
      at += found[0].length;
    },
    "\n"() {
      frames.add(el("br"));
      at++;
    },
    h() {
      const found = text.slice(at, at + MAX_LABEL).match(/^https?:\/\/[^\s<>"'`*|\\)\]]+[^\s<>"'`*|\\)\].,:;!?]/);
      const address = found && depth === 0 && !isWord(text[at - 1]) && safeAddress(found[0]);
      if (!address) return literal(4);
      frames.add(link(address, found[0]));
      at += found[0].length;
    },
    emphasis(mark) {
      let n = 1;
      while (text[at + n] === mark) n++;
      const [before, after] = [text[at - 1], text[at + n]];
      const canOpen = after !== undefined && !/\s/.test(after);
      const canClose = before !== undefined && !/\s/.test(before);
      const isInWord = mark === "_" && isWord(before) && isWord(after);
      const isRun = !isInWord && (mark !== "~" || n === 2);
      frames.run(mark, n, isRun && canOpen && !(mark === "_" && isWord(before)),
        isRun && canClose && !(mark === "_" && isWord(after)));
      at += n;
    },
  };

  for (;;) {
    SPECIAL.lastIndex = at;
    const next = SPECIAL.exec(text);
    if (!next) break;
    if (next.index > at) literal(next.index - at);
    const c = text[at];
    if (c === "*" || c === "_" || c === "~") takers.emphasis(c);
    else takers[c]();
  }
  literal(text.length - at);
  return frames.close();
}

// Where the next run of exactly n backticks begins, or -1.
function endOfTicks(text, from, n) {
  for (let i = text.indexOf("`", from); i >= 0;) {
    let end = i;
    while (text[end] === "`") end++;
    if (end - i === n) return i;
    i = text.indexOf("`", end);
  }
  return -1;
}

// ---- a text that grows ----

// Shows markdown in `box`; on each call only blocks that differ from the last call are built.
export class Markdown {
  constructor(box) {
    this.box = box;
    this.sources = [];
  }
  show(text) {
    const blocks = cut(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
    const sources = blocks.map((b) => b.lines.join("\n"));
    let same = 0;
    while (same < sources.length && sources[same] === this.sources[same]) same++;
    while (this.box.childNodes.length > same) this.box.lastChild.remove();
    for (const block of blocks.slice(same)) this.box.append(block.build(block.lines, 0));
    this.sources = sources;
  }
}
