// The design system: colour contrast, posters, times, and the suggestions of the search box.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, test } from "node:test";
import { html } from "htm/preact";
import { relativeTime } from "../../console/core/formats.js";
import { ICONS } from "../../console/design/icons.js";
import { Field, Menu, hueOf } from "../../console/design/parts.js";
import { suggestions } from "../../console/frame/search.js";
import { hashOf } from "./icons.js";
import { act, button, description, mount, elements, field, unmount, settled } from "./page.js";

const TOKENS = readFileSync(new URL("../../console/design/tokens.css", import.meta.url), "utf-8");
/** Colours of each token in the light and the dark theme. @type {Map<string, string[]>} */
const COLOURS = new Map([...TOKENS.matchAll(/--([\w-]+): light-dark\((#\w+), (#\w+)\)/g)].map(([, name, light, dark]) => [name, [light, dark]]));

/** Return the relative luminance (WCAG 2.2). @param {string} colour such as `#fbfbfa` */
function luminance(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {string} one @param {string} other */
function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

test("text has a contrast of at least 4.5, and field borders of at least 3, in both themes", () => {
  const texts = ["text", "soft", "accent", "good", "bad", "busy"].flatMap((name) => ["back", "raised", "sunken"].map((ground) => [name, ground, 4.5]));
  const badges = ["good", "bad", "busy", "accent"].map((name) => [name, `${name}-soft`, 4.5]);
  const pairs = [...texts, ...badges, ["on-accent", "accent", 4.5], ["on-danger", "danger", 4.5], ["edge", "raised", 3], ["text", "accent-soft", 4.5], ["text", "bad-soft", 4.5], ["text", "mark", 4.5]];
  for (const [name, ground, least] of pairs) {
    for (const theme of [0, 1]) {
      const ratio = contrast(COLOURS.get(name)[theme], COLOURS.get(ground)[theme]);
      assert.ok(ratio >= least, `${name} on ${ground}, ${theme ? "dark" : "light"}: ${ratio.toFixed(2)}`);
    }
  }
});

test("only the tokens depend on the theme, so each width is checked in one theme", () => {
  const folder = new URL("../../console/", import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: "utf-8" }).filter((name) => /\.(css|js)$/.test(name));
  const themed = files.filter((name) => /light-dark\(|prefers-color-scheme/.test(readFileSync(new URL(name, folder), "utf-8")));
  assert.deepEqual(themed, ["design/tokens.css"]);
  assert.doesNotMatch(TOKENS, /@media|@container/);
});

test("red is used only for dangerous actions and errors", () => {
  const [red, , blue] = [1, 3, 5].map((at) => parseInt(COLOURS.get("accent")[0].slice(at, at + 2), 16));
  assert.ok(blue > red);
});

test("a poster without an image always has the same colour", () => {
  assert.equal(hueOf("be200bd5"), hueOf("be200bd5"));
  assert.notEqual(hueOf("be200bd5"), hueOf("be200bd6"));
});

test("a time in the last 30 days is relative, and any other is absolute", () => {
  const now = 1_700_000_000_000;
  const relative = (/** @type {number} */ seconds) => relativeTime(now - seconds * 1000, now);
  assert.deepEqual([0, 300, 7200, 86_400, 3 * 86_400].map(relative), ["now", "5 minutes ago", "2 hours ago", "yesterday", "3 days ago"]);
  assert.deepEqual([40 * 86_400, -3600].map(relative), [null, null]);
});

test("suggestions are tags that contain the text, then videos with their matches", () => {
  const video = (/** @type {string} */ videoId) => ({ videoId, title: `Film ${videoId}` });
  const found = [
    { video: video("1"), highlights: [{ field: "title", text: "Film 1", ranges: [] }] },
    { video: video("2"), highlights: [{ field: "names", text: "Ada Mason", ranges: [] }] },
    { video: video("3"), quote: { language: "en", start: 61_000, text: "We sail at dawn", ranges: [] } },
  ];
  const list = suggestions("SEA", found, [{ value: "seaside" }, { value: "city" }]).map(({ kind, text, href }) => [kind, text, href]);
  assert.deepEqual(list, [
    ["Tag", "seaside", "#/?tag=seaside"],
    ["Video", "Film 1", "#/videos/1"],
    ["Film 2", "Ada Mason", "#/videos/2?tab=credits"],
    ["1:01, Film 3", "We sail at dawn", "#/videos/3?t=61&captions=en"],
  ]);
});

test("a menu opens by its button and closes after a selection", async () => {
  const root = await mount(html`<${Menu} label="More"><button type="button">Share</button><//>`);
  after(() => unmount(root));
  const labels = () => elements(root, "button").map(({ textContent }) => textContent);
  assert.deepEqual(labels(), ["More"]);
  await act(button(root, "More"), "click");
  assert.deepEqual(labels(), ["More", "Share"]);
  await act(elements(root, "span").find(({ attributes }) => attributes.get("class") === "menu-panel"), "click");
  assert.deepEqual(labels(), ["More"]);
});

const CONSOLE = new URL("../../console/", import.meta.url);
const files = (/** @type {string} */ suffix) => readdirSync(CONSOLE, { recursive: true, encoding: "utf-8" }).filter((name) => name.endsWith(suffix))
  .map((name) => ({ name: name.replaceAll("\\", "/"), text: readFileSync(new URL(name, CONSOLE), "utf-8") }));

/** Return each selector of a stylesheet. @param {string} text */
function selectorsOf(text) {
  const rules = text.replaceAll(/\/\*.*?\*\//gs, "").replaceAll(/"[^"]*"/g, "");
  return [...rules.matchAll(/([^{};]+)\{/g)].map(([, selectors]) => selectors.trim()).filter((selectors) => !selectors.startsWith("@"))
    .flatMap((selectors) => selectors.split(/,(?![^(]*\))/)).map((selector) => selector.trim());
}

test("a class is styled in one file, except within a class of another file if the design defines it", () => {
  /** By class: the files that style it in any place, and all files that style it. */
  const [alone, all] = [new Map(), new Map()];
  const note = (/** @type {Map<string, Set<string>>} */ map, /** @type {string} */ key, /** @type {string} */ name) => map.set(key, (map.get(key) ?? new Set()).add(name));
  for (const { name, text } of files(".css")) {
    for (const selector of selectorsOf(text)) {
      const parts = selector.split(/[\s>+~]+(?![^([]*[)\]])/);
      const own = /\.([\w-]+)/.exec(parts.at(-1)?.replaceAll(/:(not|has)\([^)]*\)/g, "") ?? "")?.[1];
      if (!own) continue;
      note(all, own, name);
      if (parts.length === 1) note(alone, own, name);
    }
  }
  const faults = [...alone].filter(([own, names]) => names.size > 1 || (!names.has("design/parts.css") && all.get(own).size > 1));
  assert.deepEqual(faults.map(([own]) => `.${own}: ${[...all.get(own)].sort().join(", ")}`), []);
  assert.ok(alone.size > 100);
});

test("an invalid field shows its error until it is changed", async () => {
  const root = await mount(html`<form><${Field} label="Person" value="" onInput=${() => undefined} required /></form>`);
  after(() => unmount(root));
  const input = field(root, "Person");
  Object.assign(input, { validity: { valueMissing: true }, type: "text" });
  const event = new Event("invalid", { cancelable: true });
  input.dispatchEvent(event);
  await settled();
  assert.equal(description(root, "Person"), "Fill in this field.");
  assert.ok(event.defaultPrevented); // no popup of the browser
  await act(input, "input");
  assert.equal(description(root, "Person"), "");
});

test("the icons name their origin and licence, and each is used", () => {
  const [icons] = files("design/icons.js");
  assert.match(icons.text, /^\/\/ Icons of Lucide \d+\.\d+\.\d+ .*ISC License, Copyright/s);
  const code = files(".js").filter(({ name }) => name !== icons.name).map(({ text }) => text).join();
  assert.deepEqual(Object.keys(ICONS).filter((name) => !code.includes(`"${name}"`)), []);
});

test("the icons are unchanged from the Lucide version that they name", () => {
  const [icons] = files("design/icons.js");
  const [, version] = /Icons of Lucide (\S+)/.exec(icons.text) ?? [];
  // For another version or other icons, `icons.js` in this folder prints the hash.
  assert.deepEqual([version, hashOf(ICONS)], ["1.62.0", "beadec9258040db7c08840ecb83b09dc08be97fdeba4fbbbc15c5e85369b1595"]);
});
