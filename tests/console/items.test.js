// Credits, titles and captions of a video: their lists and forms, rendered without a browser.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { html } from "htm/preact";
import Captions from "../../console/video/captions.js";
import Chapters from "../../console/video/chapters.js";
import Credits from "../../console/video/credits.js";
import Titles from "../../console/video/titles.js";
import { act, button, click, description, dialog, mount, elements, field, focused, unmount, textsByRole, settled, type } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const VIDEO = { videoId: "v", title: "A film", status: "ready" };
const ADA = { personId: "nm1", name: "Ada", ordering: 1, version: 1, roles: [{ category: "actor", characters: ["George"] }] };
const NEW_ZEALAND = { region: "NZ", language: "mi", version: 1, titles: [{ title: "Te whanga", types: ["working"], attributes: [] }] };

let root;
beforeEach(() => signIn());
afterEach(() => unmount(root));

/** Render a part of a video's page. `respond` handles each request. Return all requests. */
async function open(part, respond, more = {}) {
  const requests = serve(respond);
  root = await mount(html`<${part} video=${VIDEO} isOwner route=${{ path: ["videos", "v"], query: new URLSearchParams() }} textChanges=${0} onTextsChanged=${() => undefined}
    playing=${{ current: null }} ...${more} />`);
  return requests;
}

const list = (items) => ({ body: { items, nextCursor: null } });
const save = (title) => act(elements(dialog(root, title), "form")[0], "submit");
const writes = (requests) => requests.filter(({ method }) => method !== "GET");

test("a credit is added last, with one character per line", async () => {
  const requests = await open(Credits, ({ method }) => (method === "GET" ? list([ADA]) : { status: 201, body: ADA }));
  await click(root, "Add credit");
  assert.equal(focused(root), "Person ID");
  await type(root, "Person ID", " nm2 ");
  await type(root, "Name", "Bo");
  await type(root, "Category", "actor");
  await type(root, "Characters", "George\n\n The pilot ");
  await save("Add credit");
  const [{ path, headers, body }] = writes(requests);
  assert.deepEqual([path, headers["if-none-match"]], ["/v1/videos/v/credits/nm2", "*"]);
  assert.deepEqual(body, { name: "Bo", ordering: 2, roles: [{ category: "actor", job: null, characters: ["George", "The pilot"] }] });
  assert.deepEqual(elements(root, "dialog"), []);
});

test("errors of a form are shown at their fields, and the first invalid field gets the focus", async () => {
  const errors = [{ parameter: "personId", detail: "must have letters and digits" }, { pointer: "/ordering", detail: "must be a whole number" }, { pointer: "/roles/0/characters/0", detail: "is too long" }];
  await open(Credits, ({ method }) => (method === "GET" ? list([]) : problem(422, "invalid-content", { errors })));
  await click(root, "Add credit");
  await type(root, "Position", "first");
  await save("Add credit");
  assert.match(description(root, "Person ID"), /Must have letters and digits\.$/);
  assert.match(description(root, "Position"), /Must be a whole number\.$/);
  assert.match(description(root, "Characters"), /Is too long\.$/);
  assert.equal(focused(root), "Person ID");
});

/** Edit the credit of Ada while another user changes it. */
async function collide() {
  const theirs = { ...ADA, name: "Theirs", version: 2 };
  const requests = await open(Credits, ({ method, path, headers }) => {
    if (method === "GET") return path.includes("/credits/nm1") ? { body: theirs } : list([ADA]);
    return headers["if-match"] === '"2"' ? { body: theirs } : problem(412, "version-mismatch");
  });
  await act(field(root, "Edit Ada"), "click");
  await type(root, "Name", "Mine");
  await save("Edit credit");
  assert.match(textsByRole(root, "alert")[0], /^Changed by another user.*Your changes are kept in this form\./);
  assert.equal(field(root, "Name").value, "Mine");
  return requests;
}

test("the second of two users to save a credit can keep the changes of the form", async () => {
  const requests = await collide();
  assert.ok(!elements(root, "button").some(({ textContent }) => textContent === "Save")); // before a choice
  await click(root, "Keep my changes");
  assert.deepEqual([writes(requests).at(-1).headers["if-match"], writes(requests).at(-1).body.name], ['"2"', "Mine"]);
  assert.deepEqual(elements(root, "dialog"), []);
});

test("the second of two users to save a credit can accept the other user's changes, and edit them", async () => {
  await collide();
  await click(root, "Use their changes");
  assert.equal(field(root, "Name").value, "Theirs");
  button(dialog(root, "Edit credit"), "Save");
});

test("a form with typed text asks for confirmation before closing, and accepts no input during a save", async () => {
  let respond;
  await open(Credits, ({ method }) => (method === "GET" ? list([ADA]) : new Promise((resolve) => { respond = () => resolve({ body: ADA }); })));
  await act(field(root, "Edit Ada"), "click");
  await type(root, "Name", "Typed");
  await act(elements(root, "form")[0], "input"); // which bubbles in a browser
  await act(dialog(root, "Edit credit"), "cancel");
  await click(dialog(root, "Discard changes?"), "Keep editing");
  assert.equal(field(root, "Name").value, "Typed");
  await save("Edit credit");
  assert.equal(elements(root, "form")[0].attributes.get("inert"), "true");
  respond();
  await settled();
  assert.deepEqual(elements(root, "dialog"), []);
});

test("a credit is removed after a confirmation", async () => {
  let credits = [ADA];
  const requests = await open(Credits, ({ method }) => {
    if (method === "DELETE") credits = [];
    return method === "GET" ? list(credits) : { status: 204 };
  });
  await act(field(root, "Remove Ada"), "click");
  await click(dialog(root, "Remove Ada?"), "Remove");
  assert.equal(writes(requests)[0].headers["if-match"], '"1"');
  assert.match(root.textContent, /No credits yet\./);
});

test("titles of a region are listed by name, and another title is added", async () => {
  const requests = await open(Titles, ({ method }) => (method === "GET" ? list([NEW_ZEALAND]) : { body: NEW_ZEALAND }));
  assert.match(root.textContent.replace(/\s+/g, " "), /New Zealand, Māori NZ mi ?Te whanga working/);
  await act(field(root, "Edit the titles of New Zealand, Māori"), "click");
  const form = dialog(root, "Titles of New Zealand, Māori");
  await click(form, "Add title");
  await type(elements(form, "fieldset")[1], "Title", "Second");
  await save("Titles of New Zealand, Māori");
  const [{ path, body }] = writes(requests);
  assert.equal(path, "/v1/videos/v/releases/NZ/mi");
  assert.deepEqual(body.titles.map(({ title, types }) => [title, types]), [["Te whanga", ["working"]], ["Second", []]]);
});

test("an invalid region is reported at its field", async () => {
  await open(Titles, ({ method }) => (method === "GET" ? list([]) : problem(422, "invalid", { errors: [{ parameter: "region", detail: "must be a country of ISO 3166" }] })));
  assert.match(root.textContent, /No regional titles yet\./);
  await click(root, "Add titles");
  await type(root, "Region", "Q1");
  await save("Add titles");
  assert.match(description(root, "Region"), /Must be a country of ISO 3166\.$/);
});

test("a faulty caption file is reported with the line number", async () => {
  const errors = [{ pointer: "", detail: "The end is not after the start.", line: 6 }];
  await open(Captions, ({ method }) => (method === "GET" ? list([]) : problem(422, "invalid-captions", { errors })));
  await click(root, "Add captions");
  const file = field(root, "File");
  file.files = [{ name: "ride.en.vtt", size: 10 }];
  await act(file, "change");
  assert.equal(field(root, "Language").value, "en"); // from the file name
  await save("Add captions");
  assert.match(description(root, "File"), /Line 6: The end is not after the start\./);
});

for (const [name, part, opener, first] of [
  ["credits", Credits, "Add credit", "Person ID"], ["captions", Captions, "Add captions", "File"], ["chapters", Chapters, "Add chapters", "Start of chapter 1"],
]) {
  test(`the form of ${name} has the focus before the next frame, so that it receives no text of another field`, async () => {
    await open(part, ({ path }) => (path.includes("chapters") ? { body: { chapters: [], proposed: [], version: 0 } } : list([])));
    button(root, opener).dispatchEvent(new Event("click"));
    for (let round = 0; round < 10; round += 1) await Promise.resolve(); // effects after a frame have not run yet
    assert.equal(focused(root), first);
  });
}

test("the second of two users to save chapters can select one of the versions", async () => {
  let isTheirs = false;
  const theirs = { chapters: [{ start: 0, title: "Theirs" }], proposed: [], version: 2 };
  const requests = await open(Chapters, ({ method, headers }) => {
    if (method === "GET") return isTheirs ? { body: theirs, headers: { etag: '"2"' } } : problem(404, "not-found");
    isTheirs = true;
    return headers["if-match"] ? { body: theirs } : problem(412, "version-mismatch");
  });
  await click(root, "Add chapters");
  await type(root, "Title of chapter 1", "Mine");
  await act(elements(root, "form")[0], "submit");
  assert.match(textsByRole(root, "alert")[0], /Changed by another user/);
  await click(root, "Keep my changes");
  assert.deepEqual(writes(requests).map(({ headers, body }) => [headers["if-none-match"] ?? headers["if-match"], body.chapters]), [
    ["*", [{ start: 0, title: "Mine" }]], ['"2"', [{ start: 0, title: "Mine" }]],
  ]);
});

test("viewers see credits and titles without buttons", async () => {
  await open(Credits, () => list([ADA]), { isOwner: false });
  assert.deepEqual(elements(root, "button"), []);
  unmount(root);
  await open(Titles, () => list([NEW_ZEALAND]), { isOwner: false });
  assert.deepEqual(elements(root, "button"), []);
});
