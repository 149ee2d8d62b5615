// The form of a video that somebody else has saved in the meantime, drawn without a browser.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { html } from "htm/preact";
import { Announcer } from "../../console/design/parts.js";
import Edit from "../../console/video/edit.js";
import { act, button, click, draw, elements, leave } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const VIDEO = { videoId: "a", title: "Before", description: "Old", tags: [], metadata: {}, version: 1, status: "ready", visibility: "private" };
const THEIRS = { ...VIDEO, title: "Theirs", description: "Their text", category: "harbours", version: 2 };

let root;
beforeEach(() => signIn());
afterEach(() => leave(root));

/** Type into the field of a name. */
async function type(name, text) {
  const field = [...elements(root, "input"), ...elements(root, "textarea")].find(({ attributes }) => attributes.get("name") === name);
  field.value = text;
  await act(field, "input");
}

test("a conflict that is resolved by taking theirs everywhere sends nothing more and closes the form", async () => {
  const requests = serve(({ method }) => (method === "PATCH" ? problem(412, "version-mismatch") : { body: THEIRS, headers: { etag: '"2"' } }));
  const saved = [];
  root = await draw(html`<${Edit} video=${VIDEO} etag='"1"' route=${{ path: ["videos", "a"], query: new URLSearchParams() }}
    onSaved=${(...answer) => saved.push(answer)} onClose=${() => undefined} />`);
  await type("title", "Mine");
  await type("description", "My text");
  await act(elements(root, "form")[0], "submit");
  assert.deepEqual(requests.map(({ method }) => method), ["PATCH", "GET"]);
  const [conflict] = elements(root, "dialog");
  assert.match(conflict.textContent, /^Changed by another user/);
  for (const choice of elements(conflict, "label")) {
    if (choice.textContent.includes("Their change:")) await act(elements(choice, "input")[0], "change");
  }
  await click(conflict, "Save");
  assert.deepEqual(requests.map(({ method }) => method), ["PATCH", "GET"]);
  assert.deepEqual(saved, [[]]); // the video is read again, as they left it
  assert.deepEqual(elements(root, "dialog"), []);
  assert.ok(button(root, "Save"));
});

test("a saved change is announced with a link to undo its change set", async () => {
  const set = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
  serve(() => ({ body: { ...VIDEO, title: "After", version: 2 }, headers: { etag: '"2"', "change-set": set } }));
  root = await draw(html`<div><${Announcer} />
    <${Edit} video=${VIDEO} etag='"1"' route=${{ path: ["videos", "a"], query: new URLSearchParams() }} onSaved=${() => undefined}
      onClose=${() => undefined} /></div>`);
  await type("title", "After");
  await act(elements(root, "form")[0], "submit");
  const [link] = elements(root, "a").filter(({ textContent }) => textContent === "Undo");
  assert.equal(link.attributes.get("href"), `#/changesets/${set}`);
});
