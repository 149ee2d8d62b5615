// The first steps of a new owner, rendered without a browser.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { html } from "htm/preact";
import { noteProgress, progressOf } from "../../console/core/first-run.js";
import Checklist from "../../console/library/checklist.js";
import { act, click, mount, elements, field, unmount } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const video = (more) => ({ videoId: "a", title: "A film", status: "ready", visibility: "private", ...more });

let root;
let hooks;
beforeEach(() => {
  signIn();
  localStorage.clear();
  hooks = [];
});
afterEach(() => unmount(root));

async function open(videos, respond = () => ({ body: { items: hooks, nextCursor: null } })) {
  serve(respond);
  root = await mount(html`<${Checklist} videos=${videos} subject="alice" />`);
}

const done = () => elements(root, "li").filter(({ attributes }) => attributes.get("class") === "is-done").map(({ textContent }) => /^\w+/.exec(textContent)[0]);
const links = () => elements(root, "a").map(({ textContent, attributes }) => [textContent, attributes.get("href")]);

test("a new owner sees the first steps with their instructions", async () => {
  await open([]);
  assert.deepEqual(done(), []);
  assert.match(root.textContent, /^First steps0 of 4 done/);
  assert.deepEqual(links(), [["Set up a webhook", "#/webhooks"]]);
});

test("a step is done once the service has a video, a public video or a webhook", async () => {
  await open([video()]);
  assert.deepEqual(done(), ["Upload"]);
  assert.deepEqual(links()[0], ["Open the video", "#/videos/a"]);
  unmount(root);
  hooks = [{ webhookId: "w" }];
  await open([video({ visibility: "public" })]);
  assert.deepEqual(done(), ["Upload", "Publish", "Connect"]);
});

test("sharing copies the link of a published video, and the list disappears after all four steps", async () => {
  const copied = [];
  Object.defineProperty(globalThis, "navigator", { value: { clipboard: { writeText: async (text) => void copied.push(text) } }, configurable: true });
  hooks = [{ webhookId: "w" }];
  await open([video(), video({ videoId: "b", visibility: "public" })]);
  await click(root, "Copy the link");
  assert.deepEqual(copied, [new URL("#/videos/b", location.href).href]);
  assert.equal(root.textContent, "");
  assert.ok(progressOf("alice").shared);
});

test("a dismissed list stays dismissed for this user only", async () => {
  await open([]);
  await act(field(root, "Dismiss first steps"), "click");
  assert.equal(root.textContent, "");
  unmount(root);
  await open([]);
  assert.equal(root.textContent, "");
  assert.deepEqual(progressOf("bob"), {});
});

test("a deployment without webhooks still shows the other steps", async () => {
  await open([], () => problem(503, "unavailable"));
  assert.match(root.textContent, /^First steps/);
});

test("a browser that denies storage causes no error", (context) => {
  context.mock.method(localStorage, "setItem", () => { throw new Error("denied"); });
  context.mock.method(localStorage, "getItem", () => { throw new Error("denied"); });
  noteProgress("alice", "shared");
  assert.deepEqual(progressOf("alice"), {});
});
