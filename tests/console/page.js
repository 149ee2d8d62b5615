// A document without layout, on which Preact draws the console's components with their hooks and events.

import { options, render } from "preact";
import { settle } from "./support.js";

/** A text or an element: what Preact calls of the DOM, and what the components call. */
class Node extends EventTarget {
  constructor(localName, data = "") {
    super();
    this.localName = localName;
    this.nodeType = localName ? 1 : 3;
    this.data = data;
    this.childNodes = [];
    this.parentNode = null;
    this.attributes = new Map();
    this.style = { setProperty: () => undefined };
    this.value = ""; // of an input
    this.checked = false;
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get nextSibling() {
    const siblings = this.parentNode?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  get textContent() {
    return this.localName ? this.childNodes.map((child) => child.textContent).join("") : this.data;
  }

  get isConnected() {
    return this === document.body || (this.parentNode?.isConnected ?? false);
  }

  insertBefore(child, next) {
    child.remove();
    child.parentNode = this;
    this.childNodes.splice(next ? this.childNodes.indexOf(next) : this.childNodes.length, 0, child);
    return child;
  }

  appendChild(child) {
    return this.insertBefore(child, null);
  }

  removeChild(child) {
    this.childNodes.splice(this.childNodes.indexOf(child), 1);
    child.parentNode = null;
    return child;
  }

  remove() {
    this.parentNode?.removeChild(this);
  }

  contains(other) {
    return other === this || this.childNodes.some((child) => child.contains(other));
  }

  setAttribute(name, value) {
    this.attributes.set(name, String(value));
  }

  removeAttribute(name) {
    this.attributes.delete(name);
  }

  /** Understands a name, a class or an attribute, such as `[aria-invalid="true"]`; anything else finds nothing. */
  querySelectorAll(selector) {
    const [, className, name, value] = /^\.([\w-]+)$|^\[([\w-]+)(?:="([^"]*)")?\]$/.exec(selector) ?? [];
    if (className) return all(this).filter(({ attributes }) => attributes.get("class")?.split(" ").includes(className));
    if (name) return all(this).filter(({ attributes }) => attributes.has(name) && (value === undefined || attributes.get(name) === value));
    return elements(this, selector);
  }

  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }

  requestSubmit() {
    this.dispatchEvent(new Event("submit", { cancelable: true }));
  }

  focus() {
    document.activeElement = this;
  }

  getBoundingClientRect() {
    return { top: 0, left: 0, width: 0, height: 0 };
  }

  closest() {
    return null;
  }

  scrollIntoView() {}
  showModal() {}
  close() {}
}

/** Observes elements until a test calls `see`, which says that all of them are in view. */
class Observer {
  static all = new Set();

  constructor(seen) {
    this.seen = seen;
  }

  observe() {
    Observer.all.add(this);
  }

  disconnect() {
    Observer.all.delete(this);
  }
}

Object.assign(document, {
  body: new Node("body"),
  createElementNS: (_, name) => new Node(name),
  createTextNode: (text) => new Node(null, text),
  getElementById: () => null,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
});
Object.assign(globalThis, {
  HTMLElement: Node,
  requestAnimationFrame: setImmediate,
  IntersectionObserver: Observer,
  scrollTo: () => undefined,
  history: { state: null, replaceState: (state) => void (history.state = state), back: () => undefined },
});

options.requestAnimationFrame = setImmediate; // when effects run: Preact's own way there needs a timer

/** Let effects and requests end, until nothing that is drawn changes. */
export async function settled() {
  let before;
  do {
    before = document.body.textContent;
    await settle();
  } while (before !== document.body.textContent);
}

/** An empty element of the page. */
export function place() {
  return document.body.appendChild(new Node("main"));
}

/** Draw a component, and let its effects and requests end. Returns the element that it is in. */
export async function draw(node) {
  const root = place();
  render(node, root);
  await settled();
  return root;
}

/** Take what `draw` has drawn off the page: its effects end. */
export function leave(root) {
  render(null, root);
  root.remove();
}

/** All elements of a type below a node, in the order of the document. */
export function elements(node, type) {
  return node.childNodes.flatMap((child) => [...(child.localName === type ? [child] : []), ...elements(child, type)]);
}

/** All elements below a node, in the order of the document. */
export function all(node) {
  return node.childNodes.filter(({ localName }) => localName).flatMap((child) => [child, ...all(child)]);
}

/** The one field of exactly this label. */
export function field(node, label) {
  const ids = elements(node, "label").filter(({ textContent }) => textContent === label).map(({ attributes }) => attributes.get("for"));
  const found = all(node).filter(({ attributes }) => attributes.get("aria-label") === label || ids.includes(attributes.get("id")));
  if (found.length !== 1) throw new Error(`${found.length} fields "${label}" in: ${node.textContent}`);
  return found[0];
}

/** The texts that describe a field, as readers say them after its label. */
export function description(node, label) {
  const ids = (field(node, label).attributes.get("aria-describedby") ?? "").split(" ");
  return all(node).filter(({ attributes }) => ids.includes(attributes.get("id"))).map(({ textContent }) => textContent).join(" ");
}

/** The one dialog of exactly this title. */
export function dialog(node, title) {
  const found = elements(node, "dialog").filter((element) => elements(element, "h2")[0]?.textContent === title);
  if (found.length !== 1) throw new Error(`${found.length} dialogs "${title}" in: ${node.textContent}`);
  return found[0];
}

/** The name of the element that has the focus: its label or its text. */
export function focused(node) {
  const { attributes, textContent } = document.activeElement;
  const label = elements(node, "label").find((element) => attributes.has("id") && element.attributes.get("for") === attributes.get("id"));
  return attributes.get("aria-label") ?? label?.textContent ?? textContent;
}

/** Type a text into a field, or choose an option. */
export async function type(node, label, text) {
  const element = field(node, label);
  element.value = text;
  await act(element, element.localName === "select" ? "change" : "input");
}

/** Tick or untick a box, or choose a radio button. */
export async function tick(node, label, is = true) {
  const element = field(node, label);
  element.checked = is;
  await act(element, "change");
}

/** Press a key in an element; returns whether the page kept the key for itself. */
export async function press(element, key, more = {}) {
  const event = Object.assign(new Event("keydown", { cancelable: true }), { key, ...more });
  element.dispatchEvent(event);
  await settled();
  return event.defaultPrevented;
}

/** The text of each element below a node that has a role. */
export function said(node, role) {
  return node.childNodes.flatMap((child) => [...(child.attributes.get("role") === role ? [child.textContent] : []), ...said(child, role)]);
}

/** The one button of exactly this text. */
export function button(node, text) {
  const found = elements(node, "button").filter((element) => element.textContent.trim() === text);
  if (found.length !== 1) throw new Error(`${found.length} buttons "${text}" in: ${node.textContent}`);
  return found[0];
}

/** Let something happen to an element, and all that follows from it. */
export async function act(element, event) {
  element.dispatchEvent(new Event(event, { cancelable: true }));
  await settled();
}

/** Click on the one button of exactly this text. */
export async function click(node, text) {
  await act(button(node, text), "click");
}

/** Bring everything into view that waits for it. */
export async function see() {
  for (const observer of [...Observer.all]) observer.seen([{ isIntersecting: true }]);
  await settled();
}
