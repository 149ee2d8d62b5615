// Descriptions of history entries, and waiting for a delayed audit trail.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import { Problem } from "../../console/core/api.js";
import { retryUntilCurrent } from "../../console/history/requests.js";
import { Changes, SkipReason, Timeline, Value, groupEntries } from "../../console/history/entries.js";
import Revert, { loadPreview } from "../../console/history/revert.js";
import { abridged, diffWords, similarity } from "../../console/history/diff.js";
import { describeAction, entryOf, fieldName, changeSetLink, subjectName } from "../../console/history/labels.js";
import History from "../../console/video/history.js";
import { Missing } from "../../console/screens/changesets.js";
import { button, click, mount, elements, unmount, textsByRole, settled, tick } from "./page.js";
import { elementsOf, problem, serve, settle, signIn, textOf } from "./support.js";

const BY = { kind: "person", id: "alice" };
const entry = (more) => ({
  entity: "video", videoId: "a", sequence: 1, action: "changed", at: 1_700_000_000_000, by: BY, changes: [], correlationId: "set", ...more,
});
const textOfEntry = (more) => textOf(html`<${Timeline} entries=${[entry(more)]} />`);

test("an entry states the author, the action, and each field in a readable format", () => {
  const text = textOfEntry({
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
  assert.ok(!text.includes("Description"), "a new empty field is not shown");
});

test("items related to a video are named with their action", () => {
  const changes = [{ field: "/name", to: "Ada" }, { field: "/roles", to: [{ category: "actor", characters: ["Roy"] }] }];
  const credit = textOfEntry({ entity: "credit", personId: "nm1", action: "created", changes });
  assert.ok(credit.startsWith("Credit of Ada: created by alice"), credit);
  assert.ok(credit.includes("Roles: (Category: actor; Characters: Roy)"), credit);
  const removed = textOfEntry({ entity: "credit", personId: "nm1", action: "removed", changes: [{ field: "/name", from: "Ada" }] });
  assert.ok(removed.startsWith("Credit of Ada: removed"), removed);
  assert.ok(textOfEntry({ entity: "release", region: "DE", action: "created" }).startsWith("Titles, Germany: created"));
  assert.equal(describeAction(entry({ entity: "job", kind: "poster", action: "failed", attempt: 2 })), "Poster: failed, attempt 2");
  assert.equal(subjectName({ entity: "captions", language: "en" }), "Captions, English");
});

test("authors that are not people have readable names", () => {
  const by = (kind, id) => textOfEntry({ by: { kind, id } });
  assert.match(by("job", "job:probe"), /^Processed \(1 step\)Changed by the job probe/);
  assert.match(by("job", "job:import"), /by an import/);
  assert.match(by("system", "unknown"), /by an unknown writer/);
});

const PLACED = { addedAt: 1_700_000_000 };

test("an entry of a playlist states which videos were added, moved and removed", () => {
  const changes = [{ field: "/entries/1", to: PLACED }, { field: "/entries/2", from: PLACED, to: PLACED }, { field: "/entries/3", from: PLACED }];
  const node = html`<${Changes} changes=${changes} titles=${new Map([["1", "First"]])} />`;
  assert.equal(textOf(node), "First: added2: moved3: removed");
  assert.deepEqual(elementsOf(node, "a").map(({ props }) => props.href), ["#/videos/1", "#/videos/2", "#/videos/3"]);
  assert.equal(entryOf("/title"), undefined);
});

test("many fields are collapsed, unless the entry has nothing else", () => {
  const changes = Array.from({ length: 50 }, (_, number) => ({ field: `/metadata/key${number}`, to: number }));
  const folded = html`<${Changes} changes=${changes} />`;
  assert.equal(textOf(elementsOf(folded, "summary")), "38 more fields");
  assert.equal(elementsOf(elementsOf(folded, "details"), "li").length, 38);
  assert.deepEqual(elementsOf(html`<${Changes} changes=${changes} isWhole />`, "details"), []);
});

const job = (kind, action, at) => entry({ entity: "job", kind, action, sequence: at, by: { kind: "job", id: `job:${kind}` } });
/** The history of a new upload, oldest first: created by a person, processed, and then edited. */
const FRESH = [
  entry({ action: "created", sequence: 1, version: 1, changes: [{ field: "/title", to: "ride.mp4" }] }),
  entry({ sequence: 2, version: 2, by: { kind: "job", id: "job:probe" }, changes: [{ field: "/duration", to: 61_000 }] }),
  ...["probe", "poster", "storyboard"].flatMap((kind, index) => [job(kind, "queued", 3 + 2 * index), job(kind, "done", 4 + 2 * index)]),
  entry({ sequence: 9, version: 3, by: { kind: "job", id: "job:poster" }, changes: [{ field: "/status", from: "processing", to: "ready" }] }),
  entry({ sequence: 10, version: 4, changes: [{ field: "/title", from: "ride.mp4", to: "Ride" }] }),
];

test("processing is collapsed into one line below the preceding change of a person", () => {
  const shape = (groups) => groups.map(({ entry: of, steps }) => [of?.sequence ?? null, steps.map(({ sequence }) => sequence)]);
  assert.deepEqual(shape(groupEntries([...FRESH].reverse(), "desc")), [[10, []], [1, [2, 4, 6, 8, 9]]]);
  assert.deepEqual(shape(groupEntries(FRESH, "asc")), [[1, [2, 4, 6, 8, 9]], [10, []]]);
  assert.deepEqual(shape(groupEntries([job("probe", "queued", 3)], "desc")), [[null, [3]]]); // not finished
  const text = textOf(html`<${Timeline} entries=${[...FRESH].reverse()} />`);
  assert.match(text, /^Changed by alice .*Created by alice .*Processed \(5 steps\)/);
  assert.deepEqual(elementsOf(html`<${Timeline} entries=${FRESH} order="asc" />`, "summary").map(textOf), ["Processed (5 steps)"]);
});

test("a transcoder that signs in as a user is part of the processing", () => {
  const reported = entry({ by: { kind: "person", id: "local-transcoder" }, changes: [{ field: "/source/made/240p", to: "s3://x" }, { field: "/status", to: "ready" }] });
  const by = groupEntries([reported, FRESH[0]], "desc");
  assert.deepEqual(by.map(({ entry: of, steps }) => [of.action, steps.length]), [["created", 1]]);
});

test("the entry of a new video does not repeat its author and time", () => {
  const text = textOfEntry({ action: "created", changes: ["/createdAt", "/userId", "/status", "/origins", "/title"].map((field) => ({ field, to: "x" })) });
  assert.match(text, /^Created by alice .*Title: x/);
  assert.doesNotMatch(text, /Owner|Status|Origins|Created: /);
});

test("an import is a separate change, and the collapsed line counts failed jobs", () => {
  const imported = entry({ by: { kind: "job", id: "job:import" } });
  assert.deepEqual(groupEntries([imported], "desc"), [{ entry: imported, steps: [] }]);
  const failed = html`<${Timeline} entries=${[job("probe", "done", 2), job("poster", "failed", 3), FRESH[0]]} />`;
  assert.deepEqual(elementsOf(failed, "summary").map(textOf), ["Processed (2 steps), 1 failed"]);
});

const marked = (parts) => parts.map(({ kind, text }) => ({ same: text, del: `[-${text}-]`, ins: `{+${text}+}` })[kind]).join("");

test("similar texts are compared word by word", () => {
  for (const [before, after, expected] of [
    ["three mornings in June from", "two evenings in May from", "[-three mornings-]{+two evenings+} in [-June-]{+May+} from"],
    ["The harbour", "The harbour at dawn", "The harbour{+ at dawn+}"],
    ["Before", "After", "[-Before-]{+After+}"],
    ["a. b", "a, b", "a[-.-]{+,+} b"],
    ["", "new", "{+new+}"],
    ["same", "same", "same"],
  ]) assert.equal(marked(diffWords(before, after)), expected);
});

test("a comparison shows both texts in full, however different they are", () => {
  const text = (seed, size) => Array.from({ length: size }, (_, index) => `w${(index * seed) % 7}`).join(" ");
  for (const [before, after] of [[text(3, 40), text(5, 50)], ["x", ""], [text(3, 3000), text(5, 3000)]]) {
    const parts = diffWords(before, after);
    const only = (kind) => parts.filter((part) => part.kind !== kind).map((part) => part.text).join("");
    assert.deepEqual([only("ins"), only("del")], [before, after]);
  }
});

test("unchanged text far from a change is abridged", () => {
  const [before, after] = ["old", "new"].map((word) => `${"a ".repeat(200)}${word}${" b".repeat(200)}`);
  const parts = abridged(diffWords(before, after));
  assert.match(marked(parts), /^… a( a)+ \[-old-\]\{\+new\+\}( b)+ …$/);
  assert.ok(marked(parts).length < 200);
  assert.ok(similarity(diffWords("Film 1", "SPOILT 1")) < 0.4); // too different, so both are shown in full
});

test("a comparison of lists shows the added and removed items", () => {
  const change = { field: "/tags", from: ["sea", "boats"], to: ["boats", "dawn"] };
  const node = html`<${Changes} changes=${[change]} />`;
  assert.equal(textOf(node), "Tags: sea dawn");
  assert.deepEqual([elementsOf(node, "del"), elementsOf(node, "ins")].map(textOf), ["sea", "dawn"]);
});

test("a long value is collapsed, and a truncated one is marked as such", () => {
  const long = html`<${Value} field="/description" value=${`${"x".repeat(118)}🎬${"y".repeat(100)}`} />`;
  assert.equal(textOf(elementsOf(long, "summary")), `${"x".repeat(118)} …`); // not half a character
  const cut = html`<${Value} field="/description" value="The beginning" bytes=${300_000} />`;
  assert.equal(textOf(cut), "The beginning truncated from 300,000 bytes");
});

test("a storage address is shown as a stored file, also within another value", () => {
  const changes = [
    { field: "/resolutions/240p", to: "s3://media/secret.mp4" }, { field: "/resolutions", from: { "720p": "S3://media/secret.mp4" } },
    { field: "/thumbnails/mine", to: "https://a.example/s3://x.jpg" },
  ];
  const text = textOf(html`<${Changes} changes=${changes} />`);
  assert.match(text, /240p: a stored file.*720p: a stored file → none.*mine: https:/);
  assert.doesNotMatch(text, /secret/);
});

test("a skipped field shows the reason", () => {
  assert.match(textOf(html`<${SkipReason} reason="changedSince" by=${BY} version=${3} at=${1_700_000_000_000} />`), /^changed by alice in version 3, 14 Nov 2023/);
  assert.equal(textOf(html`<${SkipReason} reason="notWritable" />`), "set by the service");
});

test("an entry links to its change set if it has one", () => {
  assert.equal(changeSetLink(entry()), "#/changesets/set");
  assert.equal(changeSetLink(entry({ entity: "job" })), null);
  assert.equal(changeSetLink(entry({ by: { kind: "job", id: "job:probe" } })), null);
  assert.equal(changeSetLink(entry({ by: { kind: "job", id: "job:import" } })), "#/changesets/set");
  assert.deepEqual(elementsOf(html`<${Timeline} entries=${[entry()]} isChangeSet />`, "a"), []);
});

test("nested fields are named by each part", () => {
  assert.deepEqual(["/origins/duration", "/thumbnails/poster", "/new/field"].map(fieldName), ["Origins › duration", "Thumbnails › poster", "new › field"]);
});

test("a field is labelled by its own name, even if every object inherits a property of that name", () => {
  assert.deepEqual(["/constructor", "/thumbnails/toString", "/metadata/__proto__"].map(fieldName), ["constructor", "Thumbnails › toString", "Metadata › __proto__"]);
  const changes = [{ field: "/metadata", to: JSON.parse('{"constructor": 1, "__proto__": "x"}') }];
  assert.equal(textOf(html`<${Changes} changes=${changes} />`), "Metadata: constructor: 1; __proto__: x");
});

test("a change set without entries is reported as delayed, and later as not found", () => {
  assert.match(textOf(Missing({ isOver: false })), /^No changes are listed yet\./);
  assert.match(textOf(Missing({ isOver: true })), /^Change set not found\./);
});

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

const BEHIND = new Problem({ status: 503, title: "", detail: "", type: "urn:video-metadata:problem:trail-behind", retryAfter: 3 });

test("while the trail is behind, a call is retried after the service's Retry-After", async () => {
  const calls = mock.fn(async () => {
    if (calls.mock.callCount() < 2) throw BEHIND;
    return "there";
  });
  const reported = [];
  const result = retryUntilCurrent(calls, { waiting: (isWaiting) => reported.push(isWaiting) });
  for (let round = 0; round < 2; round += 1) {
    await settle();
    mock.timers.tick(2_999);
    await settle();
    assert.equal(calls.mock.callCount(), round + 1);
    mock.timers.tick(1);
  }
  assert.equal(await result, "there");
  assert.deepEqual(reported, [true, true, false]);
});

test("retries end after a limit while the trail remains behind, and other problems are not retried", async () => {
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
/** Responses of the API for a video whose title bob changed in version 2, and whose description carol changed later. */
const SKIPPED = [
  { field: "/title", reason: "changedSince", by: by("bob"), version: 2, at: 1 },
  { field: "/description", reason: "changedSince", by: by("carol"), version: 3, at: 1 },
  { field: "/status", reason: "notWritable" },
];
const FORCED = [{ field: "/title", from: "Theirs", to: "Before" }, { field: "/description", from: "Hers", to: "Old" }];

/** Respond to revert requests like the API. Return the requests. */
function serveReverts() {
  return serve(({ body }) => ({
    body: {
      video: { videoId: "a", version: 4 }, changes: body.force ? FORCED : [{ field: "/category", from: "b", to: "c" }],
      skipped: body.force ? [] : SKIPPED,
    },
  }));
}

test("the chosen change is reverted for any author, and a later change of another user only if ticked", async () => {
  serveReverts();
  const preview = async (wanted) => (await loadPreview("a", '"3"', wanted, new AbortController().signal)).rows
    .map(({ field, change, since, isForced = false }) => [field, change?.to, since?.by?.id, isForced]);
  const fields = ["/title", "/description", "/category"];
  assert.deepEqual(await preview({ toVersion: 1, fields }), [
    ["/category", "c", undefined, false], ["/title", "Before", undefined, true], ["/description", "Old", "carol", true],
  ]);
  // A version to restore does not identify a single unwanted change.
  assert.deepEqual((await preview({ toVersion: 1 })).map(([, , since]) => since), [undefined, "bob", "carol"]);
});

/** Changes in a response of the API: the current version differs from the requested one in more fields than the chosen change. */
const WIDE = [{ field: "/category", from: "b", to: "c" }, { field: "/language", from: "en", to: "mi" }];

test("Revert opens with the chosen change ticked, and lists the other differences from that version unticked", async () => {
  signIn();
  const requests = serve(({ body }) => ({ body: { video: { videoId: "a", version: 4 }, changes: body.fields?.length === 1 ? WIDE.slice(0, 1) : WIDE, skipped: [] } }));
  const wanted = { toVersion: 1, fields: ["/category"] };
  const root = await mount(html`<${Revert} video=${{ videoId: "a", version: 3 }} etag='"3"' wanted=${wanted} changed=${() => undefined} onClose=${() => undefined} />`);
  const boxes = () => elements(root, "fieldset").map((group) => [elements(group, "legend")[0].textContent, elements(group, "input").map(({ checked }) => checked)]);
  assert.deepEqual(boxes(), [["Fields to revert", [true]], ["Other differences from version 1", [false]]]);
  await tick(root, "Language");
  await click(root, "Revert 2 fields");
  assert.deepEqual(requests.at(-1).body, { toVersion: 1, fields: ["/category", "/language"] });
  unmount(root);
});

test("a revert after a change by another user restarts with an updated preview, and reverts nothing", async () => {
  signIn();
  let version = 3;
  const changed = [];
  serve(({ path, headers }) => {
    if (path.includes("dryRun=false") && headers["if-match"] === '"3"') return problem(412, "version-mismatch");
    return { body: { video: { videoId: "a", version }, changes: [{ field: "/category", from: "b", to: "c" }], skipped: [] } };
  });
  const node = () => html`<${Revert} video=${{ videoId: "a", version }} etag=${`"${version}"`} wanted=${{ toVersion: 1 }}
    changed=${(...video) => changed.push(video)} onClose=${() => undefined} />`;
  const root = await mount(node());
  await click(root, "Revert 1 field");
  assert.match(textsByRole(root, "alert")[0], /^Another user changed the video, so nothing was reverted\./);
  assert.deepEqual(changed, [[]]); // the video is read again
  unmount(root);
});

test("a revert that the service rejects, or that has nothing to revert, states the reason in sentences", async () => {
  signIn();
  const errors = [{ pointer: "", detail: "must have `seriesId` with `season` or `episode`" }];
  let changes = [{ field: "/season", to: 1 }, { field: "/seriesId", to: "b" }];
  serve(({ path }) => (path.includes("dryRun=false") ? problem(422, "invalid-content", { errors }) : { body: { video: { videoId: "a" }, changes, skipped: [] } }));
  const open = () => mount(html`<${Revert} video=${{ videoId: "a", version: 3 }} etag='"3"' wanted=${{ toVersion: 1 }} changed=${() => undefined} onClose=${() => undefined} />`);
  const root = await open();
  await tick(root, "Series", false);
  await click(root, "Revert 1 field");
  assert.match(root.textContent, /Must have Series with Season or Episode\./);
  unmount(root);
  changes = [];
  const empty = await open();
  assert.match(empty.textContent, /Nothing to revert\. All editable fields already have these values\./);
  button(empty, "Close");
  unmount(empty);
});

test("a preview waits while the latest changes are missing from the history", async () => {
  signIn();
  serve((_, number) => (number === 1 ? problem(503, "trail-behind", { headers: { "retry-after": "1" } })
    : { body: { video: { videoId: "a" }, changes: [{ field: "/title", from: "b", to: "c" }], skipped: [] } }));
  const root = await mount(html`<${Revert} video=${{ videoId: "a", version: 3 }} etag='"3"' wanted=${{ toVersion: 1 }} changed=${() => undefined} onClose=${() => undefined} />`);
  assert.match(textsByRole(root, "status")[0], /not available yet/);
  mock.timers.tick(1000);
  await settled();
  button(root, "Revert 1 field");
  unmount(root);
});

/** Render the history of a video with these entries, newest first. @param {string} query of the address */
async function historyOf(entries, query = "", respond = () => ({ status: 404 })) {
  signIn();
  const requests = serve((request) => (request.path.includes("/audit") ? { body: { items: request.path.includes("order=asc") ? [...entries].reverse() : entries, nextCursor: null } } : respond(request)));
  const root = await mount(html`<${History} video=${{ videoId: "a", version: 4 }} etag='"4"' changed=${() => undefined}
    route=${{ path: ["videos", "a"], query: new URLSearchParams(query) }} />`);
  return { root, requests };
}

test("each entry of a person has one Revert button, and two ticked versions lead to their comparison", async () => {
  const { root } = await historyOf([...FRESH].reverse());
  const labels = elements(root, "button").map(({ attributes, textContent }) => attributes.get("aria-label") ?? textContent.trim());
  assert.deepEqual(labels.filter((label) => /^Revert/.test(label)), ["Revert the change of version 4", "Revert to this version: 1"]);
  await tick(root, "Compare version 4");
  assert.ok(elements(root, "a").some(({ textContent, attributes }) => textContent === "Compare with current version" && attributes.get("href") === "#/videos/a?tab=history&from=4"));
  await tick(root, "Compare version 1");
  assert.ok(elements(root, "a").some(({ textContent, attributes }) => textContent === "Compare" && attributes.get("href") === "#/videos/a?tab=history&from=1&to=4"));
  await click(root, "Oldest first");
  assert.match(elements(root, "li")[0].textContent, /^Created by alice/);
  unmount(root);
});

test("a comparison shows the differences, or that there are none", async () => {
  const changes = [{ field: "/title", from: "The harbour", to: "SPOILT" }];
  const { root } = await historyOf([], "tab=history&from=1&to=3", () => ({ body: { from: 1, to: 3, changes } }));
  assert.equal(elements(root, "h2")[0].textContent, "Changes from version 1 to version 3");
  assert.match(root.textContent, /Title: The harbour → SPOILT/);
  button(root, "Revert to version 1 …");
  unmount(root);
  const same = await historyOf([], "tab=history&from=3&to=3", () => ({ body: { from: 3, to: 3, changes: [] } }));
  assert.match(same.root.textContent, /These versions are identical\./);
  unmount(same.root);
});

test("a missing version is reported in an alert", async () => {
  const { root } = await historyOf([], "tab=history&version=99", () => problem(404, "not-found", { detail: "The video has no version 99." }));
  assert.match(textsByRole(root, "alert")[0], /has no version 99/);
  unmount(root);
});

test("\"Revert this change\" opens with the change of another user ticked, and reverts it", async () => {
  signIn();
  const requests = serveReverts();
  const wanted = { toVersion: 1, fields: ["/title", "/description", "/category"] };
  const root = await mount(html`<${Revert} video=${{ videoId: "a", version: 3 }} etag='"3"' wanted=${wanted}
    changed=${() => undefined} onClose=${() => undefined} />`);
  const boxes = elements(root, "fieldset").map((group) => [elements(group, "legend")[0].textContent, elements(group, "input").map(({ checked }) => checked)]);
  assert.deepEqual(boxes, [["Fields to revert", [true, true]], ["Changed later by other users. Select a field to revert it too.", [false]]]);
  await click(root, "Revert 2 fields");
  assert.deepEqual(requests.at(-1).body, { ...wanted, force: ["/title"] });
  assert.match(requests.at(-1).path, /dryRun=false/);
  unmount(root);
});
