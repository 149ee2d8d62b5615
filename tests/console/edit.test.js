// The dialog to edit a video, and the dialog of a conflict, rendered without a browser.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { html } from "htm/preact";
import { Announcer } from "../../console/design/parts.js";
import { suggest, withTag } from "../../console/design/tags.js";
import Edit from "../../console/video/edit.js";
import { explain } from "../../console/video/sentences.js";
import { act, all, button, click, description, dialog, mount, elements, field, focused, unmount, press, textsByRole, settled, type } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const VIDEO = {
  videoId: "a", title: "Before", description: "Old", tags: ["old", "stays"], metadata: { "a/b": "x", gone: 1 }, version: 1, status: "ready",
  visibility: "private",
};
const THEIRS = { ...VIDEO, title: "Theirs", description: "Their text", category: "harbours", version: 2 };
const TAGS = [{ tag: "sea", count: 12 }, { tag: "overseas", count: 1 }, { tag: "boats", count: 3 }];
const MISMATCH = problem(412, "version-mismatch");

let root;
let saved;
let closed;
beforeEach(() => {
  signIn();
  location.hash = "#/videos/a";
  [saved, closed] = [[], 0];
});
afterEach(() => unmount(root));

/** Open the dialog. `respond` handles each request except the one for tags. Return these requests. */
async function open(respond = ({ body }) => ({ body: { ...VIDEO, ...body, version: 2 } }), video = VIDEO) {
  const requests = [];
  serve((request) => {
    if (request.path.startsWith("/v1/tags")) return { body: { items: TAGS, nextCursor: null } };
    requests.push(request);
    return respond(request, requests.length);
  });
  root = await mount(html`<div><${Announcer} /><${Edit} video=${video} etag='"1"' route=${{ path: ["videos", "a"], query: new URLSearchParams() }}
    onSaved=${(...result) => saved.push(result)} onClose=${() => (closed += 1)} /></div>`);
  return requests;
}

const save = () => act(elements(root, "form")[0], "submit");
const box = () => all(root).find(({ attributes }) => attributes.get("role") === "combobox");
const chips = () => elements(root, "li").filter(({ attributes }) => !attributes.has("role")).map(({ textContent }) => textContent);
const options = () => elements(root, "li").filter(({ attributes }) => attributes.get("role") === "option").map(({ textContent }) => textContent);

test("the form has sections, and a save sends only changed fields", async () => {
  const requests = await open();
  assert.equal(focused(root), "Title");
  assert.deepEqual(elements(root, "section").map(({ attributes }) => attributes.get("aria-label")), ["Details", "Publication", "Series and episode", "Identifiers", "Metadata"]);
  await type(root, "Title", "After");
  await type(root, "Description", "");
  await type(root, "External ID", "CAM-42");
  await type(root, "Slug", "after");
  await type(root, "Published from", "2030-01-02T03:04");
  await type(root, "Value of a/b", "y");
  await click(root, "Add key");
  await type(root, "Key of row 3", "take");
  await type(root, "Type of take", "number");
  await type(root, "Value of take", "2.5");
  await act(field(root, "Remove gone"), "click");
  await act(field(root, "Remove the tag old"), "click");
  box().value = "new";
  await act(box(), "input");
  await save();
  const [{ method, headers, body }] = requests;
  assert.deepEqual([method, headers["content-type"], headers["if-match"]], ["PATCH", "application/merge-patch+json", '"1"']);
  assert.deepEqual(body, {
    title: "After", description: null, externalId: "CAM-42", slug: "after", tags: ["stays", "new"],
    publishAt: new Date(2030, 0, 2, 3, 4).getTime() / 1000, metadata: { "a/b": "y", gone: null, take: 2.5 },
  });
  assert.equal(saved[0][0].title, "After");
});

test("the first save marks invalid fields in plain words without a request, and the first one gets the focus", async () => {
  const requests = await open();
  await type(root, "Title", " ");
  await type(root, "Release year", "soon");
  await type(root, "Slug", "Not a slug");
  await type(root, "Season", "1");
  await type(root, "Published from", "2030-01-02T00:00");
  await type(root, "Published until", "2030-01-01T00:00");
  assert.equal(field(root, "Title").attributes.has("aria-invalid"), false);
  await save();
  assert.deepEqual(requests, []);
  assert.equal(focused(root), "Title");
  for (const [label, fault] of [
    ["Title", "Enter a title."], ["Release year", "Enter a whole number."], ["Slug", "Use lower-case letters, digits and single hyphens between them."],
    ["Series", "Enter the series of this season and episode."], ["Published until", "Choose a time after “Published from”."],
  ]) {
    assert.equal(field(root, label).attributes.get("aria-invalid"), "true", label);
    assert.ok(description(root, label).endsWith(fault), label);
  }
  assert.ok(textsByRole(root, "status").includes("Correct the marked fields."));
  assert.equal(field(root, "Category").attributes.has("aria-invalid"), false);
});

test("a text that is too long is marked during typing", async () => {
  await open();
  const count = () => all(root).filter(({ attributes }) => attributes.get("class")?.startsWith("count")).map(({ textContent }) => textContent);
  assert.deepEqual(count(), ["6 / 300", "3 / 5,000"]);
  await type(root, "Title", "🎬".repeat(301));
  assert.equal(count()[0], "301 / 300");
  assert.equal(description(root, "Title"), "Use at most 300 characters.");
});

test("errors of the service are shown as sentences at their fields, with labels instead of API names", async () => {
  const errors = [
    { pointer: "/language", detail: "must be a BCP 47 tag, such as `en-NZ`" }, { pointer: "/tags/1", detail: "must have at most 64 characters, not 70" },
    { pointer: "/metadata/a~1b", detail: "must have at most 512 characters, not 513" }, { pointer: "", detail: "must have `seriesId` with `season` or `episode`" },
  ];
  await open(() => problem(422, "invalid-content", { title: "Invalid content", detail: "The content is not valid.", errors }));
  await type(root, "Title", "After");
  await save();
  assert.match(description(root, "Language"), /Must be a BCP 47 tag, such as en-NZ\.$/);
  assert.equal(description(root, "Value of a/b"), "Must have at most 512 characters, not 513.");
  assert.match(root.textContent, /“stays”: must have at most 64 characters, not 70\./);
  assert.match(root.textContent, /Must have Series with Season or Episode\./);
  assert.equal(focused(root), "Tags"); // the first of them
  assert.equal(explain("must not be empty"), "Must not be empty.");
});

test("an error message that was not written for users is hidden", async () => {
  await open(() => { throw new RangeError("Invalid array length"); });
  await type(root, "Title", "After");
  await save();
  assert.doesNotMatch(root.textContent, /Invalid array length/);
  assert.equal(textsByRole(root, "alert").length, 1);
});

test("after a lost connection the typed text remains, and the next save succeeds", async () => {
  await open((_, number) => (number === 1 ? { status: 0 } : { body: { ...VIDEO, title: "After" } }));
  await type(root, "Title", "After");
  await save();
  assert.match(textsByRole(root, "alert")[0], /^No connection/);
  assert.equal(field(root, "Title").value, "After");
  await save();
  assert.equal(saved.length, 1);
});

test("the form accepts no input during a save, and Escape does not close it", async () => {
  let respond;
  await open(() => new Promise((resolve) => { respond = () => resolve({ body: VIDEO }); }));
  await type(root, "Title", "After");
  await save();
  assert.equal(elements(root, "form")[0].attributes.get("inert"), "true");
  await act(dialog(root, "Edit video"), "cancel");
  assert.equal(closed, 0);
  respond();
  await settled();
  assert.equal(saved.length, 1);
});

test("Ctrl and Enter save from any field", async () => {
  await open();
  await type(root, "Title", "After");
  await press(elements(root, "form")[0], "Enter", { ctrlKey: true });
  assert.equal(saved.length, 1);
});

test("a saved change is announced with a link to undo its change set", async () => {
  const set = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
  await open(() => ({ body: { ...VIDEO, title: "After", version: 2 }, headers: { etag: '"2"', "change-set": set } }));
  await type(root, "Title", "After");
  await save();
  const [link] = elements(root, "a").filter(({ textContent }) => textContent === "Undo");
  assert.equal(link.attributes.get("href"), `#/changesets/${set}`);
});

test("closing the form asks for confirmation only if changes are unsaved", async () => {
  await open();
  await click(root, "Cancel");
  assert.equal(closed, 1);
  await type(root, "Title", "Typed");
  await act(dialog(root, "Edit video"), "cancel"); // Escape
  await click(dialog(root, "Discard changes?"), "Keep editing");
  assert.equal(field(root, "Title").value, "Typed");
  await click(root, "Cancel");
  await click(dialog(root, "Discard changes?"), "Discard changes");
  assert.equal(closed, 2);
});

test("leaving the page with unsaved changes, by browser buttons or by closing it, asks for confirmation", async (context) => {
  let back = 0;
  context.mock.method(history, "back", () => (back += 1));
  history.pushState = (_state, _title, address) => { location.hash = new URL(address, location.href).hash; };
  await open();
  await type(root, "Title", "Typed");
  const close = new Event("beforeunload", { cancelable: true });
  dispatchEvent(close);
  assert.ok(close.defaultPrevented);
  location.hash = "#/playlists";
  dispatchEvent(new Event("hashchange"));
  await settled();
  assert.equal(location.hash, "#/videos/a");
  await click(dialog(root, "Discard changes?"), "Discard changes");
  assert.equal(back, 1); // to the page that the user requested
});

test("suggested tags start with those that begin with the text, and exclude the tags of the video", () => {
  assert.deepEqual(suggest(TAGS, ["boats"], "SE").map(({ tag }) => tag), ["sea", "overseas"]);
  assert.deepEqual(suggest(TAGS, ["Sea"], "").map(({ tag }) => tag), ["overseas", "boats"]);
  assert.deepEqual(withTag(["Sea"], " sea "), ["Sea"]);
});

test("tags can be added and removed with the keyboard only", async () => {
  await open();
  box().value = "se";
  await act(box(), "input");
  assert.deepEqual(options(), ["sea12", "overseas1"]);
  assert.ok(await press(box(), "ArrowDown"));
  assert.equal(box().attributes.get("aria-activedescendant"), all(root).find(({ attributes }) => attributes.get("aria-selected") === "true").attributes.get("id"));
  assert.ok(await press(box(), "Enter"));
  assert.deepEqual(chips(), ["old", "stays", "sea"]);
  box().value = "a, b";
  await act(box(), "input"); // a comma ends a tag
  assert.deepEqual([chips().at(-1), box().value], ["a", "b"]);
  assert.ok(await press(box(), "Escape")); // closes the list, not the dialog
  assert.deepEqual(options(), []);
  box().value = "";
  await act(box(), "input");
  assert.ok(await press(box(), "Backspace"));
  assert.deepEqual([chips().at(-1), box().value], ["sea", "a"]);
  box().value = "";
  await act(box(), "input");
  await press(box(), "Escape");
  assert.equal(await press(box(), "Enter"), false); // without text, Enter submits the form
});

/** Edit title, description and language, while another user saves title, description and category. */
async function collide() {
  let isTheirs = false;
  const requests = await open(({ method, body, headers }) => {
    if (method === "GET") return { body: THEIRS, headers: { etag: '"2"' } };
    if (headers["if-match"] === '"2"') return { body: { ...THEIRS, ...body, version: 3 } };
    isTheirs = true;
    return MISMATCH;
  });
  await type(root, "Title", "Mine");
  await type(root, "Description", "My text");
  await type(root, "Language", "mi");
  await save();
  assert.ok(isTheirs);
  return requests;
}

/** Choose a value in the dialog of a conflict. */
async function choose(name, text) {
  const group = elements(root, "fieldset").find((element) => elements(element, "legend")[0].textContent === name);
  await act(elements(elements(group, "label").find(({ textContent }) => textContent.trim() === text), "input")[0], "change");
}

test("a conflict can be saved only after a choice for each disputed field, and keeps both users' other changes", async () => {
  const requests = await collide();
  const conflict = dialog(root, "Changed by another user");
  const isOff = () => button(conflict, "Save").attributes.has("disabled");
  assert.match(conflict.textContent, /Another user saved this video while you edited it\. Choose a value for each field that you both changed\./);
  assert.match(conflict.textContent, /Your changesLanguagenone → mi.*Their changesCategorynone → harbours/);
  assert.ok(isOff());
  assert.deepEqual(textsByRole(conflict, "status"), ["2 fields to choose"]);
  await choose("Title", "My change: Mine");
  assert.ok(isOff());
  await choose("Description", "Their change: Their text");
  assert.ok(!isOff());
  await click(conflict, "Save");
  assert.deepEqual(requests.map(({ method }) => method), ["PATCH", "GET", "PATCH"]);
  assert.deepEqual(requests.at(-1).body, { title: "Mine", language: "mi" });
  assert.equal(saved.length, 1);
});

test("a conflict that the user leaves keeps the typed text", async () => {
  await collide();
  await click(dialog(root, "Changed by another user"), "Keep editing");
  assert.equal(field(root, "Title").value, "Mine");
  assert.equal(elements(root, "dialog").length, 1);
});

test("a conflict with all values of the other user sends no further request and closes the form", async () => {
  const requests = await open(({ method }) => (method === "PATCH" ? MISMATCH : { body: THEIRS, headers: { etag: '"2"' } }));
  await type(root, "Title", "Mine");
  await type(root, "Description", "My text");
  await save();
  await choose("Title", "Their change: Theirs");
  await choose("Description", "Their change: Their text");
  await click(dialog(root, "Changed by another user"), "Save");
  assert.deepEqual(requests.map(({ method }) => method), ["PATCH", "GET"]);
  assert.deepEqual(saved, [[]]); // the video is read again, as the other user saved it
});

test("a change of attributes that users do not edit, such as the status, needs no choice", async () => {
  const requests = await open(({ method, headers, body }) => {
    if (method === "GET") return { body: { ...VIDEO, status: "processing", version: 2 }, headers: { etag: '"2"' } };
    return headers["if-match"] === '"2"' ? { body: { ...VIDEO, ...body } } : MISMATCH;
  });
  await type(root, "Title", "After");
  await save();
  assert.deepEqual(requests.map(({ method }) => method), ["PATCH", "GET", "PATCH"]);
  assert.equal(saved.length, 1);
});
