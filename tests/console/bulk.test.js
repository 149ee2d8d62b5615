// Selection of videos in the library, and bulk edits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { html } from "htm/preact";
import Bulk, { patchFor, runBatch } from "../../console/library/bulk.js";
import { range } from "../../console/library/selection.js";
import { act, click, mount, elements, unmount } from "./page.js";
import { serve } from "./support.js";

const NONE = { visibility: "", category: "", folder: "", add: "", remove: "" };
const VIDEO = { videoId: "a", title: "A", version: 3, visibility: "private", category: "travel", tags: ["sea", "old"], metadata: {} };

test("Shift selects all videos between two, in either direction", () => {
  assert.deepEqual(range(["a", "b", "c", "d"], "b", "d"), ["b", "c", "d"]);
  assert.deepEqual(range(["a", "b", "c", "d"], "d", "b"), ["b", "c", "d"]);
  assert.deepEqual(range(["a", "b"], "gone", "b"), ["b"]);
});

test("a bulk edit sends only changed fields, with the version as condition", () => {
  assert.equal(patchFor(VIDEO, NONE), null);
  assert.equal(patchFor({ ...VIDEO, folder: "a/b" }, { ...NONE, folder: " a/b " }), null);
  assert.deepEqual(patchFor(VIDEO, { ...NONE, folder: " a/b " }).patch, { folder: "a/b" });
  assert.equal(patchFor(VIDEO, { ...NONE, visibility: "private", add: "sea", remove: "absent" }), null);
  assert.deepEqual(patchFor(VIDEO, { visibility: "public", category: " boats ", folder: "", add: "new, sea", remove: "old" }), {
    op: "patch", videoId: "a", ifMatch: '"3"', patch: { visibility: "public", category: "boats", tags: ["sea", "new"] },
  });
});

test("a batch is sent in groups of 100 and reports each failure and each change set", async () => {
  const videos = Array.from({ length: 150 }, (_, index) => ({ videoId: String(index), title: `Film ${index}` }));
  const requests = serve(({ path, body }) => {
    if (path.endsWith("/batch-get")) return { body: { items: body.videoIds.map((videoId) => ({ ...VIDEO, videoId })), missing: [], remaining: [] } };
    const items = body.operations.map(({ videoId }) => (videoId === "7" ? { status: 412, problem: { title: "Conflict", detail: "Another user changed it." } } : { status: 200 }));
    return { body: { dryRun: false, items, succeeded: items.filter(({ status }) => status === 200).length, failed: 0 }, headers: { "change-set": `set-${body.operations.length}` } };
  });
  const runs = [];
  await runBatch(videos, (video) => patchFor(video, { ...NONE, visibility: "public" }), (run) => runs.push(run), new AbortController().signal);
  assert.deepEqual(requests.filter(({ path }) => path.endsWith("/batch")).map(({ body }) => body.operations.length), [100, 50]);
  assert.deepEqual(runs.map(({ done }) => done), [0, 100, 150, 150]);
  const { isOver, ...last } = runs.at(-1);
  assert.ok(isOver);
  assert.deepEqual(last, { done: 150, succeeded: 149, faults: [{ videoId: "7", detail: "Another user changed it." }], changeSets: ["set-100", "set-50"] });
});

test("a bulk edit ends with its failures and a link to undo the other changes", async () => {
  serve(({ path }) => {
    if (path.startsWith("/v1/tags")) return { body: { items: [], nextCursor: null } };
    if (path.endsWith("/batch-get")) return { body: { items: [VIDEO], missing: ["b"], remaining: [] } };
    return { body: { dryRun: false, items: [{ status: 200 }], succeeded: 1, failed: 0 }, headers: { "change-set": "the-set" } };
  });
  const done = [];
  const root = await mount(html`<${Bulk} kind="edit" videos=${[VIDEO, { ...VIDEO, videoId: "b", title: "B" }]} userId="alice" onClose=${() => undefined} onDone=${(ids) => done.push(...ids)} />`);
  const [category] = elements(root, "input");
  category.value = "boats";
  await act(category, "input");
  await act(elements(root, "form")[0], "submit");
  assert.match(root.textContent, /2 of 2 videos: 1 changed, 1 failed\..*B: The video cannot be read\./);
  assert.equal(elements(root, "a").find(({ textContent }) => textContent === "Undo").attributes.get("href"), "#/changesets/the-set");
  assert.deepEqual(done, ["a", "b"]);
  await click(root, "Done");
  unmount(root);
});
