// Texts of the console: all are in `console/texts`, a module reads each, and all languages have the same keys.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import en from "../../console/texts/en.js";
import { texts } from "../../console/texts/index.js";
import { keysOf, missingKeys, modules, readsOf, textsIn } from "./texts.js";

/** Prefixes of permitted strings outside `console/texts` that look like texts, by module: names, examples of code, and the text
 * that is shown if no module can be loaded. */
const OTHER_STRINGS = {
  "core/api.js": ["Problem", "Authorization", "Bearer \ufffc"],
  "start.js": ["The console cannot be l"],
  "upload/steps.js": ["transcode."],
  "video/player.js": ["ArrowUp ArrowDown Arrow"],
  "video/storyboard.js": ["storyboard: status \ufffc"],
  "webhooks/form.js": ["https://example.com/cha"],
  "webhooks/verify.js": ["from standardwebhooks i", "import { Webhook } from", "Python"],
};

test("modules contain no texts themselves", () => {
  const found = modules().map(([name, source]) => [name, textsIn(source).map((text) => text.slice(0, 23))]).filter(([, some]) => some.length);
  assert.deepEqual(Object.fromEntries(found), OTHER_STRINGS);
});

test("a text is found in each syntactic position of a module", () => {
  const source = [
    "const a = 'No videos yet.';", "throw new UserError(`Failed with ${status}.`);", "html`<p>Saved</p>`;", "html`<b title=\"Close\"></b>`;", "html`<p>${isDone ? 'done' : name}</p>`;",
    "html`<input aria-label=${`Key of ${name}`} />`;", "html`<p>${count} files</p>`;", "const LABELS = { title: 'Title' };",
  ];
  assert.deepEqual(source.map((line) => textsIn(line).length), source.map(() => 1));
});

test("names in code are not texts", () => {
  for (const line of [
    "import x from './A b.js';", "html`<p class=\"is-done wide\">${name}</p>`;", "html`<b class=${isOpen ? 'folded is-open' : ''}></b>`;", "const key = values['Some name'];",
    "html`<code>make redrive</code>`;", "const kind = 'createdAt';", "html`<p>${name} – ${size} ·</p>`;",
  ]) assert.deepEqual(textsIn(line), [], line);
});

test("a module reads every text", () => {
  const reads = new Set(modules().flatMap(([, source]) => readsOf(source)));
  const isRead = (key) => reads.has(key) || (key.includes(".") && isRead(key.slice(0, key.lastIndexOf("."))));
  assert.deepEqual(keysOf(en).filter((key) => !isRead(key)), []);
});

test("reads are found by the path of a text, by a name of its group, and by its whole group", () => {
  const source = "const TEXT = texts.video.tabs;\nconst A = TEXT.details;\nf(texts.common.saved, TEXT.names[kind], texts.jobs, other.TEXT.x);";
  assert.deepEqual(readsOf(source).sort(), ["common.saved", "jobs", "video.tabs.details", "video.tabs.names"]);
});

test("every language has all texts", async () => {
  const languages = readdirSync(new URL("../../console/texts", import.meta.url)).filter((name) => name !== "index.js");
  for (const name of languages) {
    const { default: other } = await import(`../../console/texts/${name}`);
    assert.deepEqual([missingKeys(en, other), missingKeys(other, en)], [[], []], name);
  }
});

test("a text that a language lacks, or has without its parameters, is reported", () => {
  const { cancel, ...common } = en.common;
  assert.deepEqual(missingKeys(en, { ...en, common: { ...common, videoCount: "videos" } }), ["common.videoCount", "common.cancel"]);
});

test("texts cannot be changed", () => {
  assert.throws(() => (texts.video.edit.title = ""), TypeError);
});
