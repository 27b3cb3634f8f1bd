// An element with attributes and children; a text as a child is text, never markup.  Attributes come
// last: with dir="auto" every child that came later would make the browser read all of them again.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  node.append(...children);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}
