// The whole console, rendered without a browser from its URL and tokens.

import assert from "node:assert/strict";
import { after, before, mock, test } from "node:test";
import { html } from "htm/preact";
import { render } from "preact";
import { useRoute } from "../../console/core/route.js";
import { act, click, elements, addContainer, settled, unmount } from "./page.js";
import { serve, settle, signIn } from "./support.js";

/** @type {{ path: string }[]} */
let requests;
const app = addContainer();

before(async () => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  signIn();
  sessionStorage.setItem("created", JSON.stringify(["second", "first"])); // stored by this tab before a reload
  requests = serve(({ path }) => {
    if (path.startsWith("/v1/videos?")) return { body: { items: ["first", "second"].map(listed), nextCursor: null } };
    if (path.startsWith("/v1/changes")) return { body: { items: [], nextCursor: "here", caughtUp: true } };
    return path.startsWith("/v1/") ? { body: { items: [], nextCursor: null } } : { status: 404 };
  });
  document.getElementById = (id) => (id === "app" ? app : null);
  globalThis.BroadcastChannel = class {}; // Node's own class would keep the process alive
  await import("../../console/app.js");
  await settled();
});
after(() => mock.timers.reset());

/** Return a video of a list response. */
const listed = (videoId) => ({ videoId, title: videoId, userId: "alice", status: "ready", visibility: "public", createdAt: 1_700_000_000 });

/** Go to an address, as a click on a link does. */
async function navigate(address) {
  location.hash = address;
  dispatchEvent(new Event("hashchange"));
  await settled();
}

/** Advance the clock, and let requests finish. @param {number} seconds */
async function advance(seconds) {
  for (let half = 0; half < seconds * 2; half += 1) {
    mock.timers.tick(500);
    await settle();
  }
}

const title = () => elements(app, "h1").map(({ textContent }) => textContent);

test("a component follows a navigation immediately after its first rendering", async () => {
  const Path = () => html`${useRoute().path.join("/")}`;
  const root = addContainer();
  render(html`<${Path} />`, root);
  await navigate("#/videos/a");
  assert.equal(root.textContent, "videos/a");
  unmount(root);
});

test("an address with the name of a property that all objects inherit shows no page", async () => {
  for (const name of ["__proto__", "constructor", "toString", "nonsense"]) {
    await navigate(`#/${name}`);
    assert.deepEqual(title(), ["Not found"], name);
  }
  await navigate("#/");
  assert.deepEqual(title(), ["Library"]);
});

test("the library lists videos that this tab created in one second by the time of their requests, newest first", async () => {
  const titles = () => elements(app, "bdi").filter(({ attributes }) => attributes.get("class") === "title").map(({ textContent }) => textContent);
  await navigate("#/?userId=me&category=new");
  assert.deepEqual(titles(), ["first", "second"]);
  await navigate("#/?userId=me&category=new&order=asc");
  assert.deepEqual(titles(), ["second", "first"]);
});

test("signing out stops the polling of the feed", async () => {
  const countPolls = () => requests.filter(({ path }) => path.startsWith("/v1/changes")).length;
  await navigate("#/?userId=me");
  const first = countPolls();
  await advance(10);
  assert.equal(countPolls(), first + 2);
  const account = elements(app, "button").find(({ attributes }) => attributes.get("aria-label") === "Account: alice");
  await act(account, "click");
  await click(app, "Sign out");
  assert.deepEqual(title(), ["Video metadata"]);
  const last = countPolls();
  await advance(60);
  assert.equal(countPolls(), last);
});
