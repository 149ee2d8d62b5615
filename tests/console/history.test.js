// What a history says in words, and waiting for a trail that is behind.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import { Problem } from "../../console/core/api.js";
import { retryUntilCurrent } from "../../console/history/requests.js";
import { Changes, UnchangedSince, Timeline, Value } from "../../console/history/entries.js";
import Revert, { loadPreview } from "../../console/history/revert.js";
import { entryOf, fieldName, changeSetLink, subjectName } from "../../console/history/words.js";
import { Missing } from "../../console/screens/changesets.js";
import { click, draw, elements, leave } from "./page.js";
import { elementsOf, serve, settle, signIn, textOf } from "./support.js";

const BY = { kind: "person", id: "alice" };
const entry = (more) => ({
  entity: "video", videoId: "a", sequence: 1, action: "changed", at: 1_700_000_000_000, by: BY, changes: [], correlationId: "set", ...more,
});
const said = (more) => textOf(html`<${Timeline} entries=${[entry(more)]} />`);

test("an entry says who did what, and each field as people read it", () => {
  const text = said({
    by: { kind: "person", id: "admin" },
    changes: [
      { field: "/title", from: "Before", to: "After" }, { field: "/metadata/take~1one", to: true }, { field: "/category", from: "travel" },
      { field: "/publishAt", from: 4_000_000_000, to: 4_000_000_060 }, { field: "/duration", to: 61_000 }, { field: "/fileSize", to: 1_500_000 },
      { field: "/tags", to: ["sea", "boats"] }, { field: "/description", to: "" },
    ],
  });
  assert.match(text, /^Changed by admin /);
  for (const words of [
    "Title: Before → After", "Metadata › take/one: yes", "Category: travel → none", "Published from: 2 Oct 2096", "Duration: 1:01",
    "File size: 1.5 MB", "Tags: sea, boats",
  ]) assert.ok(text.includes(words), `${words} in ${text}`);
  assert.ok(!text.includes("Description"), "that it came empty is no news");
});

test("what lies beside a video is named with its action", () => {
  const changes = [{ field: "/name", to: "Ada" }, { field: "/roles", to: [{ category: "actor", characters: ["Roy"] }] }];
  const credit = said({ entity: "credit", personId: "nm1", action: "created", changes });
  assert.ok(credit.startsWith("Credit of Ada: created by alice"), credit);
  assert.ok(credit.includes("Roles: (Category: actor; Characters: Roy)"), credit);
  const removed = said({ entity: "credit", personId: "nm1", action: "removed", changes: [{ field: "/name", from: "Ada" }] });
  assert.ok(removed.startsWith("Credit of Ada: removed"), removed);
  assert.ok(said({ entity: "release", region: "DE", action: "created" }).startsWith("Titles, Germany: created"));
  assert.ok(said({ entity: "job", kind: "poster", action: "changed", attempt: 2 }).startsWith("Poster: changed, attempt 2"));
  assert.equal(subjectName({ entity: "captions", language: "en" }), "Captions, English");
});

test("whoever is no person is said in words", () => {
  const by = (kind, id) => said({ by: { kind, id } });
  assert.match(by("job", "job:probe"), /by the job probe/);
  assert.match(by("job", "job:import"), /by an import/);
  assert.match(by("system", "unknown"), /by an unknown writer/);
});

const PLACED = { addedAt: 1_700_000_000 };

test("an entry of a playlist says which video came, moved and left", () => {
  const changes = [{ field: "/entries/1", to: PLACED }, { field: "/entries/2", from: PLACED, to: PLACED }, { field: "/entries/3", from: PLACED }];
  const node = html`<${Changes} changes=${changes} titles=${new Map([["1", "First"]])} />`;
  assert.equal(textOf(node), "First: added2: moved3: removed");
  assert.deepEqual(elementsOf(node, "a").map(({ props }) => props.href), ["#/videos/1", "#/videos/2", "#/videos/3"]);
  assert.equal(entryOf("/title"), undefined);
});

test("many fields are folded, unless they are all that there is to see", () => {
  const changes = Array.from({ length: 50 }, (_, number) => ({ field: `/metadata/key${number}`, to: number }));
  const folded = html`<${Changes} changes=${changes} />`;
  assert.equal(textOf(elementsOf(folded, "summary")), "38 more fields");
  assert.equal(elementsOf(elementsOf(folded, "details"), "li").length, 38);
  assert.deepEqual(elementsOf(html`<${Changes} changes=${changes} isWhole />`, "details"), []);
});

test("a long value is folded, and one of which only the beginning is kept says so", () => {
  const long = html`<${Value} field="/description" value=${`${"x".repeat(118)}🎬${"y".repeat(100)}`} />`;
  assert.equal(textOf(elementsOf(long, "summary")), `${"x".repeat(118)} …`); // no half of a character
  const cut = html`<${Value} field="/description" value="The beginning" bytes=${300_000} />`;
  assert.equal(textOf(cut), "The beginning truncated from 300,000 bytes");
});

test("an address in the storage is shown as a stored file, also within another value", () => {
  const changes = [
    { field: "/resolutions/240p", to: "s3://media/secret.mp4" }, { field: "/resolutions", from: { "720p": "S3://media/secret.mp4" } },
    { field: "/thumbnails/mine", to: "https://a.example/s3://x.jpg" },
  ];
  const text = textOf(html`<${Changes} changes=${changes} />`);
  assert.match(text, /240p: a stored file.*720p: a stored file → none.*mine: https:/);
  assert.doesNotMatch(text, /secret/);
});

test("a field that is left alone says why", () => {
  assert.match(textOf(html`<${UnchangedSince} reason="changedSince" by=${BY} version=${3} at=${1_700_000_000_000} />`), /^changed by alice in version 3, 14 Nov 2023/);
  assert.equal(textOf(html`<${UnchangedSince} reason="notWritable" />`), "set by the service");
});

test("an entry leads to its change set where there is one", () => {
  assert.equal(changeSetLink(entry()), "#/changesets/set");
  assert.equal(changeSetLink(entry({ entity: "job" })), null);
  assert.equal(changeSetLink(entry({ by: { kind: "job", id: "job:probe" } })), null);
  assert.equal(changeSetLink(entry({ by: { kind: "job", id: "job:import" } })), "#/changesets/set");
  assert.deepEqual(elementsOf(html`<${Timeline} entries=${[entry()]} isOfSet />`, "a"), []);
});

test("fields below others are named by each part", () => {
  assert.deepEqual(["/origins/duration", "/thumbnails/poster", "/new/field"].map(fieldName), ["Origins › duration", "Thumbnails › poster", "new › field"]);
});

test("a field is named as it is called, also by a name that every object inherits", () => {
  assert.deepEqual(["/constructor", "/thumbnails/toString", "/metadata/__proto__"].map(fieldName), ["constructor", "Thumbnails › toString", "Metadata › __proto__"]);
  const changes = [{ field: "/metadata", to: JSON.parse('{"constructor": 1, "__proto__": "x"}') }];
  assert.equal(textOf(html`<${Changes} changes=${changes} />`), "Metadata: constructor: 1; __proto__: x");
});

test("a change set of which nothing is listed is looked for, until it is said that there is none", () => {
  assert.match(textOf(Missing({ isOver: false })), /^No changes are listed yet\./);
  assert.match(textOf(Missing({ isOver: true })), /^Change set not found\./);
});

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

const BEHIND = new Problem({ status: 503, title: "", detail: "", type: "urn:video-metadata:problem:trail-behind", retryAfter: 3 });

test("while the trail is behind, a call is made again when the service says so", async () => {
  const calls = mock.fn(async () => {
    if (calls.mock.callCount() < 2) throw BEHIND;
    return "there";
  });
  const told = [];
  const answer = retryUntilCurrent(calls, { waiting: (isWaiting) => told.push(isWaiting) });
  for (let round = 0; round < 2; round += 1) {
    await settle();
    mock.timers.tick(2_999);
    await settle();
    assert.equal(calls.mock.callCount(), round + 1);
    mock.timers.tick(1);
  }
  assert.equal(await answer, "there");
  assert.deepEqual(told, [true, true, false]);
});

test("a trail that stays behind is given up, and any other problem is not waited for", async () => {
  const behind = mock.fn(async () => { throw BEHIND; });
  const given = retryUntilCurrent(behind, { waiting: () => undefined }).catch((error) => error);
  for (let round = 0; round < 6; round += 1) {
    await settle();
    mock.timers.tick(3_000);
  }
  assert.equal(await given, BEHIND);
  assert.equal(behind.mock.callCount(), 6);
  const other = mock.fn(async () => { throw new Problem({ status: 412, title: "", detail: "" }); });
  await assert.rejects(retryUntilCurrent(other, { waiting: () => undefined }));
  assert.equal(other.mock.callCount(), 1);
});

const by = (id) => ({ kind: "person", id });
/** What the API answers of a video whose title bob changed in version 2, and whose description carol changed after him. */
const SKIPPED = [
  { field: "/title", reason: "changedSince", by: by("bob"), version: 2, at: 1 },
  { field: "/description", reason: "changedSince", by: by("carol"), version: 3, at: 1 },
  { field: "/status", reason: "notWritable" },
];
const FORCED = [{ field: "/title", from: "Theirs", to: "Before" }, { field: "/description", from: "Hers", to: "Old" }];

/** Answer questions about a revert like the API; returns what is asked. */
function reverts() {
  return serve(({ body }) => ({
    body: {
      video: { videoId: "a", version: 4 }, changes: body.force ? FORCED : [{ field: "/category", from: "b", to: "c" }],
      skipped: body.force ? [] : SKIPPED,
    },
  }));
}

test("the change that somebody undoes is set back whoever made it, and a later change of another user only if it is ticked", async () => {
  reverts();
  const preview = async (wanted) => (await loadPreview("a", '"3"', wanted, new AbortController().signal)).rows
    .map(({ field, change, since, isForced = false }) => [field, change?.to, since?.by?.id, isForced]);
  const fields = ["/title", "/description", "/category"];
  assert.deepEqual(await preview({ toVersion: 1, fields }), [
    ["/category", "c", undefined, false], ["/title", "Before", undefined, true], ["/description", "Old", "carol", true],
  ]);
  // To go back to a version says nothing of which change is not wanted.
  assert.deepEqual((await preview({ toVersion: 1 })).map(([, , since]) => since), [undefined, "bob", "carol"]);
});

test("Revert this change opens with the change of another user ticked, and sets it back", async () => {
  signIn();
  const requests = reverts();
  const wanted = { toVersion: 1, fields: ["/title", "/description", "/category"] };
  const root = await draw(html`<${Revert} video=${{ videoId: "a", version: 3 }} etag='"3"' wanted=${wanted}
    changed=${() => undefined} onClose=${() => undefined} />`);
  const boxes = elements(root, "fieldset").map((group) => [elements(group, "legend")[0].textContent, elements(group, "input").map(({ checked }) => checked)]);
  assert.deepEqual(boxes, [["Fields to revert", [true, true]], ["Changed later by other users. Select a field to revert it too.", [false]]]);
  await click(root, "Revert 2 fields");
  assert.deepEqual(requests.at(-1).body, { ...wanted, force: ["/title"] });
  assert.match(requests.at(-1).path, /dryRun=false/);
  leave(root);
});
