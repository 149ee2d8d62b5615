// The library's screen, rendered without a browser: its controls, cards and API requests.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import Library from "../../console/screens/library.js";
import { parseRoute } from "../../console/core/route.js";
import { act, all, description, mount, elements, field, unmount, textsByRole } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const ALICE = { subject: "alice", isAdmin: false, followsAll: false };
const ADMIN = { subject: "admin", isAdmin: true, followsAll: true };
const NOW = Math.floor(Date.now() / 1000);
const video = (videoId, more) => ({ videoId, title: `Film ${videoId}`, userId: "alice", status: "ready", visibility: "public", createdAt: NOW - 7200, ...more });

let root;
let requests;
before(() => mock.timers.enable({ apis: ["setInterval"] }));
after(() => mock.timers.reset());
beforeEach(() => {
  signIn();
  localStorage.clear();
});
afterEach(() => unmount(root));

/** Render the library at an address. `respond` handles the list requests. */
async function open(address, respond = () => ({ body: { items: [], nextCursor: null } }), user = ALICE) {
  location.hash = address;
  history.state = null;
  requests = serve((request) => {
    if (request.path.startsWith("/v1/changes")) return { body: { items: [], nextCursor: "x", caughtUp: true } };
    if (request.path.startsWith("/v1/tags")) return { body: { items: [{ tag: "sea", count: 2 }], nextCursor: null } };
    if (request.path.startsWith("/v1/webhooks")) return { body: { items: [], nextCursor: null } };
    return respond(request);
  });
  root = await mount(html`<${Library} route=${parseRoute(address)} user=${user} />`);
}

const lists = () => requests.map(({ path }) => path).filter((path) => /^\/v1\/(videos|top)\?/.test(path));
const cards = () => elements(root, "a").filter(({ attributes }) => attributes.get("class") === "card");
const options = (label) => elements(field(root, label), "option").map(({ textContent }) => textContent);

/** Choose an option, or type a text and leave the field. */
async function set(label, value) {
  const element = field(root, label);
  element.value = value;
  await act(element, "input");
  await act(element, "change");
  return location.hash;
}

test("a card shows the length, views and audience of a video", async () => {
  const items = [
    video("a", { duration: 3_665_000, viewCount: 1, poster: "https://pictures.example/poster.jpg" }), video("b", { status: "uploaded" }), video("c", { visibility: "private" }),
    video("d", { publishAt: 4_000_000_000 }), video("e", { expiresAt: 1_000_000_000 }), video("f"),
  ];
  await open("#/?userId=me&category=x", () => ({ body: { items, nextCursor: null } }));
  const text = cards().map(({ textContent }) => textContent.replace(/\s+/g, " "));
  assert.match(text[0], /^Film a1:01:05.*2 hours ago · 1 view$/);
  assert.match(text[1], /Uploaded/);
  assert.match(text[2], /Private/);
  assert.match(text[3], /Scheduled for 2 Oct 2096/);
  assert.match(text[4], /Expired/);
  assert.doesNotMatch(text[0], /Ready|Public/);
  assert.deepEqual(elements(root, "img"), []); // the page requests nothing from other origins
  assert.ok(textsByRole(root, "status").includes("6 videos"));
});

test("each control navigates to an address, and a filter applies on change", async () => {
  await open("#/?userId=me&category=x&order=asc");
  assert.equal(await set("Sort by", "createdAt-desc"), "#/?userId=me&category=x");
  assert.equal(await set("Minimum minutes", "1.5"), "#/?userId=me&category=x&order=asc&minDuration=90000");
  assert.equal(await set("Created before", "2001-02-03"), "#/?userId=me&category=x&order=asc&to=2001-02-03T00%3A00%3A00Z");
  const clear = elements(root, "a").filter(({ textContent }) => textContent === "Clear filters");
  assert.deepEqual(new Set(clear.map(({ attributes }) => attributes.get("href"))), new Set(["#/?userId=me&order=asc"]));
  assert.match(root.textContent, /No videos match these filters\./);
});

test("an address fills the controls", async () => {
  await open("#/?userId=me&minDuration=90000&format=webm&from=2001-02-03T00%3A00%3A00Z&order=asc");
  assert.deepEqual(["Minimum minutes", "Format", "Created from", "Sort by"].map((label) => field(root, label).value), ["1.5", "webm", "2001-02-03", "createdAt-asc"]);
  assert.match(lists()[0], /^\/v1\/videos\?userId=alice&minDuration=90000&format=webm&from=2001-02-03T00%3A00%3A00Z&order=asc/);
});

test("a filter that the service rejects is marked at its field, and any other error is an alert", async () => {
  const errors = [{ parameter: "minDuration", detail: "must not be more than `maxDuration`" }];
  await open("#/?userId=me&minDuration=2&maxDuration=1", () => problem(422, "invalid-query", { errors }));
  assert.equal(field(root, "Minimum minutes").attributes.get("aria-invalid"), "true");
  assert.equal(description(root, "Minimum minutes"), "Must not be more than the maximum duration.");
  assert.deepEqual(textsByRole(root, "alert"), []);
  unmount(root);
  await open("#/?status=failed", () => problem(403, "forbidden", { title: "Forbidden", detail: "Only admins may list all videos by status." }));
  assert.match(textsByRole(root, "alert")[0], /Only admins may list all videos by status/);
});

test("each kind of list has its control, and sends no request before it has a value", async () => {
  for (const [address, label, value, expected] of [
    ["#/?show=tag", "Tag", "sea", "#/?tag=sea"], ["#/?show=category", "Category", "travel", "#/?category=travel"],
    ["#/?show=user", "Owner", "bob", "#/?userId=bob"], ["#/?show=region", "Region", "nz", "#/?region=nz"],
  ]) {
    await open(address);
    assert.deepEqual(lists(), [], address);
    assert.match(root.textContent, /Enter a value above to list videos\./);
    assert.equal(await set(label, value), expected);
    unmount(root);
  }
  await open("#/?region=nz");
  assert.equal(description(root, "Region"), "New Zealand");
  assert.match(lists()[0], /^\/v1\/videos\?region=nz/);
});

test("folders show video counts and the path as links, and list their videos", async () => {
  const respond = ({ path }) => ({
    body: path.startsWith("/v1/folders/") ? { folder: "a/b", videos: 3, direct: 1, items: [{ folder: "a/b/c", videos: 2, direct: 2 }], nextCursor: null }
      : { items: path.startsWith("/v1/folders") ? [{ folder: "a", videos: 4, direct: 1 }] : [video("v")], nextCursor: null },
  });
  const links = (label) => elements(all(root).find(({ attributes }) => attributes.get("aria-label") === label), "a").map((link) => [link.textContent.replace(/\s+/g, " ").trim(), link.attributes.get("href")]);
  await open("#/?show=folder", respond);
  assert.deepEqual(lists(), []);
  assert.deepEqual(links("Subfolders"), [["a 4", "#/?folder=a"]]);
  unmount(root);
  await open("#/?folder=a/b", respond);
  assert.deepEqual(links("Path of the folder"), [["Folders", "#/?show=folder"], ["a", "#/?folder=a"], ["b", "#/?folder=a%2Fb"]]);
  assert.deepEqual(links("Subfolders"), [["c 2", "#/?folder=a%2Fb%2Fc"]]);
  assert.match(lists()[0], /^\/v1\/videos\?folder=a(%2F|\/)b/);
  assert.ok(requests.some(({ path }) => path.startsWith("/v1/folders/a%2Fb?limit=100")));
});

test("only administrators list videos by status", async () => {
  await open("#/");
  assert.ok(!options("Show").includes("By status"));
  unmount(root);
  await open("#/?show=status", undefined, ADMIN);
  assert.ok(options("Show").includes("By status"));
  assert.equal(await set("Status", "failed"), "#/?status=failed");
});

test("the most viewed videos are selected by period, order and category, and show their computation time", async () => {
  await open("#/?show=top&window=week&sort=-rise", () => ({ body: { items: [video("a", { views: 3 })], computedAt: 1_700_000_000 } }));
  assert.match(lists()[0], /^\/v1\/top\?window=week&sort=-rise/);
  assert.deepEqual([field(root, "Period").value, field(root, "Sort by").value], ["week", "-rise"]);
  assert.match(textsByRole(root, "status").join(), /1 video, as of 14 Nov 2023/);
  assert.equal(await set("Category", "travel"), "#/?show=top&window=week&sort=-rise&category=travel");
  unmount(root);
  await open("#/?show=top", () => ({ body: { items: [], computedAt: null } }));
  assert.match(root.textContent, /No views counted yet\./);
});

test("a new owner sees first steps above an empty library", async () => {
  await open("#/");
  assert.match(root.textContent, /First steps0 of 4 done.*You have no videos yet\./);
});

test("an owner of several videos, and a list with filters, show no first steps", async () => {
  await open("#/", () => ({ body: { items: ["a", "b", "c", "d"].map((id) => video(id)), nextCursor: null } }));
  assert.doesNotMatch(root.textContent, /First steps/);
  unmount(root);
  await open("#/?userId=me&category=x");
  assert.doesNotMatch(root.textContent, /First steps/);
});

test("selected videos are counted, with the possible actions", async () => {
  await open("#/?userId=me&category=x", () => ({ body: { items: [video("a"), video("b", { status: "deleted" })], nextCursor: null } }));
  assert.ok(!all(root).some(({ attributes }) => attributes.get("aria-label") === "Select Film b")); // no action is possible
  await act(field(root, "Select Film a"), "click");
  const group = all(root).find(({ attributes }) => attributes.get("aria-label") === "Selected videos");
  assert.match(group.textContent, /^\s*1 video selected\s*Edit …\s*Add to playlist …\s*Delete …\s*Clear selection/);
});
