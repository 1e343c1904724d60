// Pages are trees that are built anew and laid over what is there: elements that stay the same
// element keep their focus, their scroll position and what is typed into them.
// Nothing here ever takes text for markup: names come from users.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onpointermove", "onpointerleave"];

function build(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (HANDLERS.includes(name)) made[name] = value;
    else if (name === "style") for (const [key, setting] of Object.entries(value)) made.style.setProperty(key, setting);
    else if (name === "key") made.dataset.key = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** An element of HTML. `key` tells it apart from its siblings when they change places. */
export const h = (name, attributes, ...children) => build(document.createElement(name), attributes, children);

/** An element of SVG. */
export const s = (name, attributes, ...children) => build(document.createElementNS(SVG, name), attributes, children);

/** Stands for the element of that key as it is there: nothing about it has changed. */
export function same(name, key) {
  const made = h(name, { key });
  made.isSame = true;
  return made;
}

/** Makes the children of an element be these. */
export function show(parent, ...children) {
  const wanted = document.createDocumentFragment();
  append(wanted, children);
  morphChildren(parent, [...wanted.childNodes]);
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key : undefined);
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function morphChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (keyOf(child) !== undefined) keyed.set(keyOf(child), child);
  let at = parent.firstChild;
  for (const next of wanted) {
    const key = keyOf(next);
    const old = key === undefined ? at : keyed.get(key);
    if (old && alike(old, next)) {
      if (old === at) at = at.nextSibling;
      else parent.insertBefore(old, at);
      morph(old, next);
    } else parent.insertBefore(next, at);
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

function morph(old, next) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  if (next.isSame) return;
  const typing = old === document.activeElement;
  const restated = stated(old) !== stated(next);
  for (const { name } of [...old.attributes]) {
    const own = name === "open" && (old.nodeName === "DETAILS" || old.nodeName === "DIALOG");
    if (name !== "style" && !own && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name === "style") {
      if (old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
    } else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of HANDLERS) if (old[name] !== next[name]) old[name] = next[name];
  morphChildren(old, [...next.childNodes]);
  if (restated && !typing) old.value = next.value;
}

/** What a page says that a field holds; what people typed meanwhile stays until it says otherwise. */
function stated(field) {
  if (field.nodeName === "SELECT") return field.querySelector("option[selected]")?.value;
  return field.nodeName === "INPUT" ? field.getAttribute("value") : undefined;
}

/** Says something to those who do not look. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

const tip = () => document.getElementById("tip");

/** A tooltip beside the pointer: a title, and rows of [colour class, name, value]. */
export function showTip(event, title, rows = []) {
  const box = tip();
  show(box, h("b", null, title), rows.map(([colour, name, value]) =>
    h("div", null, colour && h("i", { class: colour }), h("span", null, name), value !== undefined && h("span", null, value))));
  box.hidden = false;
  const size = box.getBoundingClientRect();
  const right = event.clientX + 16 + size.width > innerWidth;
  box.style.left = `${Math.max(4, right ? event.clientX - size.width - 14 : event.clientX + 16)}px`;
  box.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - size.height - 4))}px`;
}

export function hideTip() {
  tip().hidden = true;
}
