// An element with attributes and children, or lists of them; a text as a child is text, never markup.
// Attributes come last: with dir="auto" every child that came later would make the browser read all
// of them again.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const child of children.flat()) node.append(child);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}
