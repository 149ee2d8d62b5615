// Functions of the playlist, webhook, search and operations screens that need no page.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Problem } from "../../console/core/api.js";
import { retryAll } from "../../console/operations/failed.js";
import { parseVideoId } from "../../console/playlists/add-video.js";
import { reorder } from "../../console/playlists/sorting.js";
import { highlight } from "../../console/screens/search.js";
import { draftOf, patchBetween } from "../../console/webhooks/form.js";
import { chosenOf, typesIn } from "../../console/webhooks/types.js";
import { SubscribedTypes, GROUPS, nameOf, stateOf, typesInWords } from "../../console/webhooks/labels.js";
import { elementsOf, textOf } from "./support.js";

const ID = "01234567-89ab-4cde-8f01-23456789abcd";

test("a video is identified by its id or by any address of its page", () => {
  for (const text of [ID, ID.toUpperCase(), ` ${ID} `, `https://api.example/console/#/videos/${ID}?tab=history`]) assert.equal(parseVideoId(text), ID);
  const other = ID.replace("0", "f");
  assert.equal(parseVideoId(`https://${other}.example/console/#/videos/${ID}`), ID);
  for (const text of ["", "not a video", ID.slice(1), "videos/1"]) assert.equal(parseVideoId(text), undefined);
});

test("an entry is shown after its predecessor, and hidden at the end of a list that continues", () => {
  const entries = ["a", "b", "c"].map((videoId) => ({ videoId }));
  const [a, b, c] = entries;
  const order = (entry, place, isDone = true, items = entries) => reorder(items, entry, place, isDone).map(({ videoId }) => videoId).join("");
  assert.equal(order(a, { after: "b" }), "bac");
  assert.equal(order(c, { after: null }), "cab");
  assert.equal(order(a, { before: null }), "bca");
  assert.equal(order(a, { before: null }, false), "bc");
  assert.equal(order(b, { after: "gone" }), "abc"); // its predecessor has been removed
  assert.equal(order(b, { after: "gone" }, true, [a, c]), "acb");
});

test("matches are marked by characters, some of which take two code units", () => {
  const parts = highlight("🎬 The härbour 🎬", [[6, 13], [14, 15]]);
  assert.equal(textOf(parts), "🎬 The härbour 🎬");
  assert.deepEqual(elementsOf(parts, "mark").map(textOf), ["härbour", "🎬"]);
  assert.equal(textOf(highlight("<b>", [])), "<b>");
});

test("a webhook's state is described in words", () => {
  const state = (more, tested) => stateOf(/** @type {any} */ ({ paused: false, ...more }), tested);
  assert.deepEqual(state({}), { word: "Up to date", look: "ready", text: "No pending changes." });
  assert.match(state({ behindSince: 4_000_000_000_000 }).text, /^Behind since 2 Oct 2096.*\. Sending pending changes\.$/);
  const failing = state({ failures: 1, behindSince: 4_000_000_000_000, nextAttemptAt: 4_000_000_000 });
  assert.equal(failing.word, "Delivery failed");
  assert.match(failing.text, /^The last attempt failed\. Behind since .*\. Next attempt: 2 Oct 2096.*\.$/);
  assert.equal(state({ failures: 2 }).text, "The last 2 attempts failed.");
  assert.deepEqual(state({ paused: true, pausedBecause: "410 Gone", failures: 3 }), { word: "Paused", look: "failed", text: "410 Gone" });
  assert.match(state({ paused: true }).text, /^Changes are kept for 30 days\./);
  const [taken, refused] = [true, false].map((delivered) => /** @type {any} */ ({ delivered }));
  assert.deepEqual(state({}, refused), { word: "Test failed", look: "processing", text: "The receiver did not accept the last test." });
  assert.equal(state({}, taken).word, "Up to date");
  assert.equal(state({ failures: 1 }, refused).word, "Delivery failed");
});

test("a webhook has a name, and states the users and the kinds of the changes that it receives", () => {
  assert.deepEqual([{ url: "https://a.example/x", description: "Mine" }, { url: "https://a.example/x" }, { url: "x" }].map(nameOf), ["Mine", "a.example", "x"]);
  const followed = (webhook, isOwn = true) => textOf(SubscribedTypes({ webhook, isOwn }));
  assert.equal(followed({ userId: "alice" }), "Changes of all users");
  assert.equal(followed({ userId: "alice", follows: "alice" }), "Changes of your videos and playlists");
  assert.equal(followed({ userId: "alice", follows: "bob" }), "Changes of videos and playlists of bob");
  assert.deepEqual(typesInWords(["release.*", "video.created", "new.type"]), ["Titles: all", "Videos: created", "new.type"]);
});

test("all kinds of a group are sent as the group's name, and an empty list means all kinds", () => {
  assert.deepEqual(typesIn(null), []);
  assert.equal(chosenOf([]), null);
  const [first] = GROUPS;
  assert.deepEqual(typesIn(chosenOf([first.all])), [first.all]);
  assert.deepEqual(typesIn(chosenOf(["job.done", "video.created"])), ["video.created", "job.done"]);
  assert.deepEqual(typesIn(new Set(GROUPS.flatMap(({ types }) => types))), GROUPS.map(({ all }) => all));
});

test("a webhook's patch contains changed fields only", () => {
  const webhook = /** @type {any} */ ({ url: "https://a.example/x", description: "Mine", types: ["release.*"] });
  const draft = draftOf(webhook);
  assert.deepEqual(patchBetween(draft, { ...draft, url: " https://a.example/x " }), {});
  assert.deepEqual(patchBetween(draft, { ...draft, description: "", chosen: null }), { description: null, types: [] });
  assert.deepEqual(patchBetween(draft, { ...draft, url: "https://b.example/" }), { url: "https://b.example/" });
});

/** Retry all failed jobs of these videos. `refuse` may throw for a job. Return the last state of the run, and the retried jobs. */
async function runRetries(videos, refuse = () => undefined, signal = new AbortController().signal) {
  const retried = [];
  const shown = [];
  await retryAll(Object.keys(videos).map((videoId) => ({ videoId })), {
    read: async (videoId) => videos[videoId],
    retry: async (job) => {
      refuse(job);
      retried.push(job.id);
    },
    show: (run) => shown.push(run),
    signal,
  });
  const { error, ...last } = shown.at(-1);
  return { ...last, error: error?.message, retried: retried.join(), count: last.retried };
}

const job = (id, error) => ({ id, state: "failed", error });

test("failed jobs are retried one after another, except those with a faulty file", async () => {
  const run = await runRetries({ a: [job("a1", { final: true })], b: [job("b1"), job("b2", { final: false }), { id: "b3", state: "done" }], c: null, d: [] });
  assert.deepEqual(run, { all: 4, done: 4, count: 2, retried: "b1,b2", permanent: 1, refused: 1, isOver: true, error: undefined });
});

test("no other job is retried after the daily quota is used up, or without a connection", async () => {
  for (const status of [0, 429, 503]) {
    const run = await runRetries({ a: [job("a1"), job("a2")], b: [job("b1")] }, () => {
      throw new Problem({ status, title: "Refused", detail: "Refused" });
    });
    assert.deepEqual(run, { all: 2, done: 1, count: 0, retried: "", permanent: 0, refused: 1, isOver: true, error: "Refused" }, `${status}`);
  }
});

test("a job that cannot be retried does not stop the other retries", async () => {
  const run = await runRetries({ a: [job("a1")], b: [job("b1")] }, ({ id }) => {
    if (id === "a1") throw new Problem({ status: 409, title: "Running", detail: "Running" });
  });
  assert.deepEqual([run.done, run.retried, run.refused, run.error], [2, "b1", 1, undefined]);
});

test("a stopped run retries no further video", async () => {
  const stop = new AbortController();
  const stopped = mock.fn(() => stop.abort());
  const run = await runRetries({ a: [job("a1")], b: [job("b1")] }, stopped, stop.signal);
  assert.deepEqual([run.done, run.retried, run.isOver], [1, "a1", true]);
});
