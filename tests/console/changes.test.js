// Polling of the change feed, on a clock that the test advances.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { follow } from "../../console/core/changes.js";
import { problem, serve, settle } from "./support.js";

const QUIET = { body: { items: [], nextCursor: "here", caughtUp: true } };

/** @type {AbortController} */
let stop;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  Object.assign(document, { hidden: false, querySelector: () => null });
  stop = new AbortController();
});

afterEach(() => {
  stop.abort();
  mock.timers.reset();
});

/** Follow a feed that returns these responses and then no changes; returns the requested cursors and the reported changes. */
async function followed(...answers) {
  const told = [];
  const requests = serve(() => answers.shift() ?? QUIET);
  void follow("alice", async (changes) => void told.push(changes), {}, stop.signal);
  await settle();
  const asked = () => requests.map(({ path }) => new URL(path, location.href).searchParams.get("after"));
  return { asked, told, requests };
}

/** Let time pass. @param {number} seconds */
async function pass(seconds) {
  for (let half = 0; half < seconds * 2; half += 1) {
    mock.timers.tick(500);
    await settle();
  }
}

test("a page polls a user's feed every five seconds, starting at once", async () => {
  const { asked, requests } = await followed();
  await pass(4.5);
  assert.deepEqual(asked(), ["now"]);
  await pass(0.5);
  assert.deepEqual(asked(), ["now", "here"]);
  await pass(10);
  assert.equal(asked().length, 4);
  assert.match(requests[0].path, /userId=alice/);
});

test("a page that is hidden or behind a dialog sends no request, and catches up once visible", async () => {
  const { asked } = await followed();
  for (const cover of [{ hidden: true }, { querySelector: () => ({}) }]) {
    const before = asked().length;
    Object.assign(document, cover);
    await pass(60);
    assert.equal(asked().length, before);
    Object.assign(document, { hidden: false, querySelector: () => null });
    await pass(0.5);
    assert.equal(asked().length, before + 1);
  }
});

test("a page that was left sends no more requests", async () => {
  const { asked } = await followed();
  stop.abort();
  await pass(60);
  assert.deepEqual(asked(), ["now"]);
});

test("a page polls a busy service at the time it states, and a failing service less and less often", async () => {
  const failing = problem(503, "unavailable");
  const { asked } = await followed(problem(429, "too-many", { headers: { "retry-after": "60" } }), failing, failing);
  await pass(59.5);
  assert.equal(asked().length, 1);
  await pass(0.5);
  assert.equal(asked().length, 2);
  await pass(19.5);
  assert.equal(asked().length, 2);
  await pass(0.5);
  assert.equal(asked().length, 3);
  await pass(40);
  assert.equal(asked().length, 4);
  await pass(5); // the service works again
  assert.deepEqual(asked(), ["now", "now", "now", "now", "here"]);
});

test("a page requests a feed once if it does not exist or is forbidden to the user", async () => {
  const { asked } = await followed(problem(403, "forbidden"));
  await pass(60);
  assert.deepEqual(asked(), ["now"]);
});

test("changes are reported in order, page by page, and again if they could not be shown", async () => {
  const page = (id, caughtUp) => ({ body: { items: [{ id }], nextCursor: `behind ${id}`, caughtUp } });
  const { asked, told } = await followed(page("a", false), page("b", true));
  assert.deepEqual(told, [[{ id: "a" }], [{ id: "b" }]]);
  assert.deepEqual(asked(), ["now", "behind a"]);
});

test("a page that missed too many changes is told once, and continues from the end of the feed", async () => {
  const { asked, told } = await followed(QUIET, problem(410, "gone"), { body: { items: [], nextCursor: "then", caughtUp: true } });
  await pass(5);
  assert.deepEqual(told, [null]);
  await pass(5);
  assert.deepEqual(asked(), ["now", "here", "now", "then"]);
});
