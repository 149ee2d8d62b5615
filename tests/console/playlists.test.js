// The form that adds videos to a playlist, rendered without a browser.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import AddVideo from "../../console/playlists/add-video.js";
import { act, mount, elements, unmount, settled } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const OWN = { videoId: "63ee71db-3471-44a8-805a-b7d7d88c34b4", title: "My harbour", visibility: "private", duration: 61_000 };
const OTHER = { videoId: "05b3e2ae-8f0c-4ad2-8f4c-2b9a3a3f1c11", title: "Harbour lights", visibility: "public" };

let root, requests, added;
beforeEach(async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  signIn();
  added = [];
  requests = serve(({ method, path, body }) => {
    if (method === "POST") return { status: 201, body: { ...body, playlistId: "p" } };
    if (path.includes("/v1/search")) {
      const items = (path.includes("userId=alice") ? [OWN] : [OTHER, OWN]).map((video) => ({ video }));
      return path.includes("q=broken") ? problem(503, "unavailable") : { body: { items } };
    }
    return { body: { ...OTHER, thumbnails: {} } };
  });
  root = await mount(html`<${AddVideo} playlistId="p" userId="alice" added=${(entry) => added.push(entry)} />`);
});
afterEach(() => {
  unmount(root);
  mock.timers.reset();
});

const box = () => elements(root, "input")[0];
const options = () => elements(root, "li").map(({ textContent }) => textContent);
const adds = () => requests.filter(({ method }) => method === "POST").map(({ body }) => body.videoId);

/** Type a text, and wait for the delay of the box before its request. */
async function type(text) {
  box().value = text;
  await act(box(), "input");
  mock.timers.tick(300);
  await settled();
}

/** Press a key in the box. */
async function press(key) {
  box().dispatchEvent(Object.assign(new Event("keydown", { cancelable: true }), { key }));
  await settled();
}

test("videos that contain the text are suggested, the owner's own first", async () => {
  await type("harbour");
  assert.deepEqual(options(), ["My harbourPrivate, 1:01", "Harbour lights"]);
  assert.equal(box().attributes.get("aria-expanded"), "true");
  await type("");
  assert.deepEqual(options(), []);
});

test("arrow keys select a suggestion, and Enter adds it", async () => {
  await type("harbour");
  await press("ArrowUp");
  assert.equal(box().attributes.get("aria-activedescendant"), elements(root, "li")[1].attributes.get("id"));
  await act(elements(root, "form")[0], "submit");
  assert.deepEqual(adds(), [OTHER.videoId]);
  assert.equal(added[0].video.title, "Harbour lights");
  assert.equal(box().value, "");
});

test("a click on a suggestion adds it", async () => {
  await type("harbour");
  await act(elements(root, "li")[0], "click");
  assert.deepEqual(adds(), [OWN.videoId]);
});

test("Escape closes the suggestions, and a text without the id of a video adds nothing", async () => {
  await type("harbour");
  await press("Escape");
  assert.deepEqual(options(), []);
  await act(elements(root, "form")[0], "submit");
  assert.deepEqual(adds(), []);
  assert.match(root.textContent, /Select a video of the list/);
});

test("an address or an ID is added without a search", async () => {
  await type(`https://a.example/console/#/videos/${OTHER.videoId.toUpperCase()}?tab=history`);
  await act(elements(root, "form")[0], "submit");
  assert.deepEqual(adds(), [OTHER.videoId]);
  assert.equal(requests.some(({ path }) => path.includes("/v1/search")), false);
});

test("a failed search suggests nothing, and the box still accepts an ID", async () => {
  await type("broken");
  assert.deepEqual(options(), []);
  await type(OTHER.videoId);
  await act(elements(root, "form")[0], "submit");
  assert.deepEqual(adds(), [OTHER.videoId]);
});
