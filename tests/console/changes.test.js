// Polling of the change feed, on a clock that the test advances.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { subscribe } from "../../console/core/changes.js";
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

/** Poll a feed that returns these responses, and then responses without changes. Return a function for the cursors of the requests,
 * and the reported changes. */
async function startPolling(...responses) {
  const reported = [];
  const requests = serve(() => responses.shift() ?? QUIET);
  void subscribe("alice", async (changes) => void reported.push(changes), {}, stop.signal);
  await settle();
  const cursors = () => requests.map(({ path }) => new URL(path, location.href).searchParams.get("after"));
  return { cursors, reported, requests };
}

/** Advance the clock, and let requests finish. @param {number} seconds */
async function advance(seconds) {
  for (let half = 0; half < seconds * 2; half += 1) {
    mock.timers.tick(500);
    await settle();
  }
}

test("a page polls a user's feed every five seconds, starting at once", async () => {
  const { cursors, requests } = await startPolling();
  await advance(4.5);
  assert.deepEqual(cursors(), ["now"]);
  await advance(0.5);
  assert.deepEqual(cursors(), ["now", "here"]);
  await advance(10);
  assert.equal(cursors().length, 4);
  assert.match(requests[0].path, /userId=alice/);
});

test("a page that is hidden or behind a dialog sends no request, and catches up once visible", async () => {
  const { cursors } = await startPolling();
  for (const cover of [{ hidden: true }, { querySelector: () => ({}) }]) {
    const before = cursors().length;
    Object.assign(document, cover);
    await advance(60);
    assert.equal(cursors().length, before);
    Object.assign(document, { hidden: false, querySelector: () => null });
    await advance(0.5);
    assert.equal(cursors().length, before + 1);
  }
});

test("an unmounted page sends no more requests", async () => {
  const { cursors } = await startPolling();
  stop.abort();
  await advance(60);
  assert.deepEqual(cursors(), ["now"]);
});

test("polling waits for the Retry-After of a busy service, and backs off exponentially while the service fails", async () => {
  const failing = problem(503, "unavailable");
  const { cursors } = await startPolling(problem(429, "too-many", { headers: { "retry-after": "60" } }), failing, failing);
  await advance(59.5);
  assert.equal(cursors().length, 1);
  await advance(0.5);
  assert.equal(cursors().length, 2);
  await advance(19.5);
  assert.equal(cursors().length, 2);
  await advance(0.5);
  assert.equal(cursors().length, 3);
  await advance(40);
  assert.equal(cursors().length, 4);
  await advance(5); // the service works again
  assert.deepEqual(cursors(), ["now", "now", "now", "now", "here"]);
});

test("a feed that does not exist or is forbidden to the user is requested once", async () => {
  const { cursors } = await startPolling(problem(403, "forbidden"));
  await advance(60);
  assert.deepEqual(cursors(), ["now"]);
});

test("changes are reported in order, page by page", async () => {
  const page = (id, caughtUp) => ({ body: { items: [{ id }], nextCursor: `behind ${id}`, caughtUp } });
  const { cursors, reported } = await startPolling(page("a", false), page("b", true));
  assert.deepEqual(reported, [[{ id: "a" }], [{ id: "b" }]]);
  assert.deepEqual(cursors(), ["now", "behind a"]);
});

test("a page that missed too many changes is notified once, and continues from the end of the feed", async () => {
  const { cursors, reported } = await startPolling(QUIET, problem(410, "gone"), { body: { items: [], nextCursor: "then", caughtUp: true } });
  await advance(5);
  assert.deepEqual(reported, [null]);
  await advance(5);
  assert.deepEqual(cursors(), ["now", "here", "now", "then"]);
});
