// Layout checks of a page of the console: overlaps, overflow, cut texts, positions of dialogs, unstyled classes, visible focus, and the styles of parts.
//
// `window.layout.styles()` returns the styles of the parts on `#/design`. `window.layout.faults(styles)` reports the faults of a page, also
// the parts that have other styles.

/** Selectors of the parts, by name. An element that also matches NOT is a variant with its own styles. */
const PARTS = {
  button: ":is(button, .button):not(.primary, .danger, .quiet, :disabled)",
  "primary button": ":is(button, .button).primary:not(:disabled)",
  "danger button": ":is(button, .button).danger:not(.quiet, :disabled)",
  "quiet button": "button.quiet:not(.danger, [aria-pressed=true], :disabled)",
  "quiet danger button": "button.quiet.danger:not(:disabled)",
  "disabled button": "button.primary:disabled",
  label: ".field > label",
  input: ".field > input:not([type=search], [aria-invalid=true])",
  "wrong input": ".field > input[aria-invalid=true]",
  select: ".field > select",
  textarea: ".field textarea",
  hint: ".field > .hint",
  fault: ".field > .fault",
  failure: ".failure",
  "empty state": ".empty",
  badge: ".status",
  tab: ".tabs > a",
  table: ".table",
  "table head": ".table thead th",
  breadcrumbs: ".crumbs ol",
  title: "h1",
  surface: ".surface",
  folded: ".folded",
};
const NOT = [
  ".menu-panel *", ".chips *", ".account", ".handle", ".pending-changes *", "media-controller *", ".file-button", ".tags *", ".library-table thead *", ".chart-choice *",
  ".values *", ".chapters ol *", ".entry-actions *",
].join();
/** Compared CSS properties. Those that are sizes have the same value at each width of the page. */
const PROPERTIES = [
  "color", "background-color", "border-top-color", "border-top-style", "border-top-width", "border-top-left-radius", "font-family", "font-size",
  "font-weight", "padding-top", "padding-left", "min-height", "box-shadow",
];
const BADGES = ["ready", "done", "failed", "deleted", "processing", "running", "queued"];
const CONTROL = "a[href], button, input, select, textarea, summary, [tabindex]";
const BOX = "button, .button, input:not([type=checkbox], [type=radio], [type=file]), select, textarea, img, video";
/** Open menus and messages, which may cover other elements. */
const OPENED = ".menu-panel, .suggestions, .announcer";
const SLACK = 1.5; // CSS pixels

const keyOf = (/** @type {Element} */ element, name) =>
  name === "badge" ? `badge ${BADGES.find((state) => element.classList.contains(`status-${state}`)) ?? ""}`
    : name === "tab" ? `tab ${element.getAttribute("aria-selected")}` : name;
const styleOf = (element) => {
  const style = getComputedStyle(element);
  return Object.fromEntries(PROPERTIES.map((property) => [property, style.getPropertyValue(property).replace(/^auto$/, "0px")])); // of no box in a grid
};
const describe = (element) => {
  const text = (element.getAttribute("aria-label") ?? element.textContent ?? "").trim().replace(/\s+/g, " ").slice(0, 40);
  return `${element.localName}${[...element.classList].map((name) => `.${name}`).join("")} “${text}”`;
};
const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

function* parts(root) {
  for (const [name, selector] of Object.entries(PARTS)) {
    for (const element of root.querySelectorAll(selector)) {
      if (isShown(element) && !element.matches(NOT)) yield [keyOf(element, name), element];
    }
  }
}

/** The styles of each part on the page of the design system, in the current theme. */
function styles() {
  const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const root = document.querySelector(`.theme[aria-label="Theme: ${theme}"]`);
  const found = Object.fromEntries([...parts(root)].map(([key, element]) => [key, styleOf(element)]));
  return { ...found, title: styleOf(document.querySelector("h1")) };
}

/** Parts whose styles differ from those on the page of the design system, or that are missing there. */
function* strangers(root, reference) {
  for (const [key, element] of parts(root)) {
    const [wanted, style] = [reference[key], styleOf(element)];
    if (!wanted) {
      yield `${describe(element)}: #/design does not show a ${key}`;
      continue;
    }
    const different = PROPERTIES.filter((property) => style[property] !== wanted[property]);
    if (different.length) yield `${describe(element)} differs from the ${key} of #/design: ${different.map((name) => `${name} ${style[name]}, not ${wanted[name]}`).join("; ")}`;
  }
}

/** Classes that no stylesheet names. Either the stylesheet is missing, or the class is not needed. */
function* unstyled(root) {
  const known = new Set();
  const read = (rules) => {
    for (const rule of rules) {
      for (const [, name] of (rule.selectorText ?? "").matchAll(/\.([\w-]+)/g)) known.add(name);
      if (rule.cssRules) read(rule.cssRules);
    }
  };
  for (const sheet of document.styleSheets) read(sheet.cssRules);
  const used = new Set([...root.querySelectorAll("[class]")].flatMap((element) => [...element.classList]));
  for (const name of used) if (!known.has(name) && !name.startsWith("status-")) yield `.${name} has no style`;
}

/** The visible part of an element's rectangle, which ancestors may cut off. Null if no part is visible. */
function clipped(rectangle, element) {
  let { left, top, right, bottom } = rectangle;
  for (let box = element; box && box !== document.body; box = box.parentElement) {
    const style = getComputedStyle(box);
    if (style.clipPath !== "none") return null;
    if (style.overflowX !== "visible" || style.overflowY !== "visible") {
      const edge = box.getBoundingClientRect();
      [left, top, right, bottom] = [Math.max(left, edge.left), Math.max(top, edge.top), Math.min(right, edge.right), Math.min(bottom, edge.bottom)];
    }
    if (style.position === "fixed") break;
  }
  return right - left > SLACK && bottom - top > SLACK ? { left, top, right, bottom } : null;
}

/** The nearest ancestor with a position outside the normal flow, or null. Elements with different ancestors of this kind may overlap. */
function layerOf(element) {
  for (let box = element; box; box = box.parentElement) {
    if (["absolute", "fixed", "sticky"].includes(getComputedStyle(box).position) || box.localName === "dialog") return box;
  }
  return null;
}

/** Texts and controls that cover each other. */
function* overlaps(root) {
  const boxes = [];
  const add = (element, rectangle, label) => {
    const shown = clipped(rectangle, element);
    if (shown) boxes.push({ element, layer: layerOf(element), label, ...shown });
  };
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const { parentElement: element } = node;
    if (!node.data.trim() || !isShown(element) || element.closest("select, svg, media-controller")) continue;
    range.selectNodeContents(node);
    for (const rectangle of range.getClientRects()) add(element, rectangle, `“${node.data.trim().slice(0, 40)}”`);
  }
  for (const element of root.querySelectorAll(BOX)) {
    if (isShown(element) && !element.closest("media-controller")) add(element, element.getBoundingClientRect(), describe(element));
  }
  boxes.sort((one, other) => one.top - other.top);
  for (const [index, one] of boxes.entries()) {
    for (let next = index + 1; next < boxes.length && boxes[next].top < one.bottom - SLACK; next++) {
      const other = boxes[next];
      if (one.layer !== other.layer || one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const width = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const height = Math.min(one.bottom, other.bottom) - other.top;
      if (width > SLACK && height > 3) yield `${one.label} and ${other.label} overlap`; // lines may touch
    }
  }
}

/** A page that is wider than the window, and texts that are cut off without an ellipsis. */
function* overflow(root) {
  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth) {
    const wide = [...root.querySelectorAll("*")].filter((element) => element.getBoundingClientRect().right > innerWidth + SLACK && clipped(element.getBoundingClientRect(), element)?.right > innerWidth);
    yield `the page is ${scrollWidth} px wide: ${wide.slice(0, 3).map(describe).join(", ")}`;
  }
  for (const element of root.querySelectorAll("button, .button, .status, label, legend, summary, th, td, h1, h2, h3, p, li, dt, dd")) {
    if (!isShown(element) || element.closest("media-controller")) continue;
    const style = getComputedStyle(element);
    if (style.display === "inline" || style.clipPath !== "none" || style.webkitLineClamp !== "none") continue;
    const isCut = style.overflowX !== "visible" && style.textOverflow !== "ellipsis" && style.overflowX !== "auto";
    if (element.scrollWidth > element.clientWidth + SLACK && (isCut || element.matches("button, .button, .status"))) yield `${describe(element)} is cut off`;
  }
}

/** An open dialog that is not centred in the window. */
function* misplaced(root) {
  if (root.localName !== "dialog") return;
  const { left, right } = root.getBoundingClientRect();
  if (Math.abs(left - (document.documentElement.clientWidth - right)) > 2 * SLACK) yield `${describe(root)} is not centred`;
}

/** Controls that another element covers, or whose focus is not visible. */
function* controls(root) {
  const seen = new Set();
  for (const element of root.querySelectorAll(CONTROL)) {
    if (!isShown(element) || element.disabled || element.closest("media-controller, [inert], .skip") || element.matches("main, .pending-changes, h1, h2")) continue;
    const rectangle = element.getBoundingClientRect();
    if (rectangle.width < 2 || rectangle.height < 2 || !clipped(rectangle, element)) continue;
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const [box] = element.getClientRects();
    const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    const isHit = hit && (element.contains(hit) || hit.closest("label")?.control === element || hit.closest(OPENED));
    if (!isHit) yield `${describe(element)} is covered by ${hit ? describe(hit) : "nothing"}`;
    if (element.tabIndex < 0) continue;
    const kind = `${element.localName} ${element.className} ${element.parentElement.className} ${element.closest("[class]")?.className}`;
    if (seen.has(kind)) continue;
    seen.add(kind);
    element.focus({ preventScroll: true });
    if (!document.hasFocus() || document.activeElement !== element) continue;
    if (!ring(element)) yield `${describe(element)} does not show its focus`;
  }
}

/** Whether the outline of a focused element, its label or its parent is visible on at least three sides. */
function ring(element) {
  for (const shown of [element, element.closest("label"), element.parentElement]) {
    if (!shown) continue;
    const style = getComputedStyle(shown);
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2 || Number(style.opacity) === 0) continue;
    const reach = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
    const { left, top, right, bottom } = shown.getClientRects()[0];
    const outer = { left: left - reach, top: top - reach, right: right + reach, bottom: bottom + reach };
    const rest = clipped(outer, shown.parentElement);
    if (!rest) continue;
    const sides = ["left", "top", "right", "bottom"].filter((side) => Math.abs(rest[side] - outer[side]) < 1);
    if (sides.length >= 3) return true;
  }
  return false;
}

const shownRoot = () => document.querySelector("dialog[open]") ?? document.body;

function faults(reference) {
  const root = shownRoot();
  const compared = location.hash.startsWith("#/design") ? [] : strangers(root, reference);
  const found = [...compared, ...unstyled(root), ...overlaps(root), ...overflow(root), ...misplaced(root), ...controls(root)];
  document.activeElement?.blur();
  scrollTo(0, 0);
  return [...new Set(found)];
}

window.layout = { styles, faults };
