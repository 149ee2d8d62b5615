// A document without layout, in which Preact renders the console's components with their hooks and events.

import { options, render } from "preact";
import { settle } from "./support.js";

/** Text node or element, with the members of the DOM that Preact and the components use. */
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

  /** Supports a name, a class or an attribute, such as `[aria-invalid="true"]`; other selectors match nothing. */
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

/** Fake IntersectionObserver: a call of `reportVisible` reports all observed elements as visible. */
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

options.requestAnimationFrame = setImmediate; // Preact runs effects in it; its default requires a timer

/** Wait until effects and requests have finished, and the page no longer changes. */
export async function settled() {
  let before;
  do {
    before = document.body.textContent;
    await settle();
  } while (before !== document.body.textContent);
}

/** Append an empty element to the page, and return it. */
export function addContainer() {
  return document.body.appendChild(new Node("main"));
}

/** Render a component, and let its effects and requests finish. Returns the containing element. */
export async function mount(node) {
  const root = addContainer();
  render(node, root);
  await settled();
  return root;
}

/** Unmount a component from the page, which ends its effects. */
export function unmount(root) {
  render(null, root);
  root.remove();
}

/** Return all elements of a type below a node, in document order. */
export function elements(node, type) {
  return node.childNodes.flatMap((child) => [...(child.localName === type ? [child] : []), ...elements(child, type)]);
}

/** Return all elements below a node, in document order. */
export function all(node) {
  return node.childNodes.filter(({ localName }) => localName).flatMap((child) => [child, ...all(child)]);
}

/** Return the only field with exactly this label. */
export function field(node, label) {
  const ids = elements(node, "label").filter(({ textContent }) => textContent === label).map(({ attributes }) => attributes.get("for"));
  const found = all(node).filter(({ attributes }) => attributes.get("aria-label") === label || ids.includes(attributes.get("id")));
  if (found.length !== 1) throw new Error(`${found.length} fields "${label}" in: ${node.textContent}`);
  return found[0];
}

/** Return the text that describes a field, which screen readers announce after its label. */
export function description(node, label) {
  const ids = (field(node, label).attributes.get("aria-describedby") ?? "").split(" ");
  return all(node).filter(({ attributes }) => ids.includes(attributes.get("id"))).map(({ textContent }) => textContent).join(" ");
}

/** Return the only dialog with exactly this title. */
export function dialog(node, title) {
  const found = elements(node, "dialog").filter((element) => elements(element, "h2")[0]?.textContent === title);
  if (found.length !== 1) throw new Error(`${found.length} dialogs "${title}" in: ${node.textContent}`);
  return found[0];
}

/** Return the name of the focused element: its label or its text. */
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

/** Set a checkbox or radio button. */
export async function tick(node, label, isChecked = true) {
  const element = field(node, label);
  element.checked = isChecked;
  await act(element, "change");
}

/** Press a key in an element; returns whether the page prevented the default action. */
export async function press(element, key, more = {}) {
  const event = Object.assign(new Event("keydown", { cancelable: true }), { key, ...more });
  element.dispatchEvent(event);
  await settled();
  return event.defaultPrevented;
}

/** Return the text of each element with the role below a node. */
export function textsByRole(node, role) {
  return node.childNodes.flatMap((child) => [...(child.attributes.get("role") === role ? [child.textContent] : []), ...textsByRole(child, role)]);
}

/** Return the only button with exactly this text. */
export function button(node, text) {
  const found = elements(node, "button").filter((element) => element.textContent.trim() === text);
  if (found.length !== 1) throw new Error(`${found.length} buttons "${text}" in: ${node.textContent}`);
  return found[0];
}

/** Dispatch an event at an element, and let its effects finish. */
export async function act(element, event) {
  element.dispatchEvent(new Event(event, { cancelable: true }));
  await settled();
}

/** Click the only button with exactly this text. */
export async function click(node, text) {
  await act(button(node, text), "click");
}

/** Report all observed elements as visible, as if the user scrolled over the whole page. */
export async function reportVisible() {
  for (const observer of [...Observer.all]) observer.seen([{ isIntersecting: true }]);
  await settled();
}
