// Saved questions on the operations screen, rendered without a browser.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import Questions, { csv } from "../../console/operations/questions.js";
import { act, click, mount, elements, field, unmount, settled, textsByRole } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const QUESTION = {
  question: "top-editors", title: "users", chart: { labels: "author", numbers: "changes" },
  columns: [{ name: "author", type: "string" }, { name: "videos", type: "bigint" }, { name: "changes", type: "bigint" }],
};
const LIST = {
  question: "later", title: "A question of a later release", chart: null,
  columns: [{ name: "video_id", type: "string" }, { name: "mood", type: "string" }, { name: "changes", type: "bigint" }],
};
const RUN = {
  runId: "r1", question: "top-editors", from: "2026-06-01", to: "2026-06-30", state: "succeeded", error: null, rows: [["alice", 2, 1234], [null, 1, 5]],
  more: false, bytes: 20_000_000, dollars: 0.0001,
};

let root;
before(() => mock.timers.enable({ apis: ["setInterval"] })); // the screen polls
after(() => mock.timers.reset());
beforeEach(() => signIn());
afterEach(() => unmount(root));

/** Render the screen. `runs` are the responses after the start of a run, one for each poll. Return all requests. */
async function screen(runs, start = { status: 202, body: { ...RUN, state: "queued", rows: [] } }) {
  const requests = serve(({ method, path }) => {
    if (path === "/v1/questions") return { body: { items: [QUESTION, LIST] } };
    return method === "POST" ? start : runs.shift();
  });
  root = await mount(html`<${Questions} />`);
  return requests;
}

const run = () => act(elements(root, "form")[0], "submit");
const poll = async () => {
  mock.timers.tick(1000);
  await settled();
};
const cells = () => elements(root, "tr").map((row) => [...elements(row, "th"), ...elements(row, "td")].map(({ textContent }) => textContent));

test("a question runs once with its days and a key, is polled until it has ended, and shows a chart with its cost", async () => {
  const requests = await screen([{ body: { ...RUN, state: "running", rows: [] } }, { body: RUN }]);
  await run();
  await run();
  assert.match(textsByRole(root, "status")[0], /Running the query/);
  await poll();
  await poll();
  await poll();
  const [start, ...reads] = requests.slice(1);
  assert.match(start.path, /^\/v1\/questions\/top-editors\/runs\?from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d$/);
  assert.match(start.headers["idempotency-key"], /^[0-9a-f-]{36}$/);
  assert.deepEqual(reads.map(({ path }) => path), Array(2).fill("/v1/questions/top-editors/runs/r1"));
  assert.match(textsByRole(root, "status")[0], /2026-06-01 to 2026-06-30, UTC.*20\.0 MB read, US\$0\.0001.*2 rows/);
  assert.deepEqual(elements(root, "li").slice(-2).map(({ textContent }) => textContent), ["alice1,234", "–5"]);
  await click(root, "Table");
  assert.deepEqual(cells(), [["Author", "Changes", "Videos"], ["alice", "1,234", "2"], ["–", "5", "1"]]);
});

test("a result without a chart is a table, whose unknown columns have their own names and whose videos are links", async () => {
  await screen([{ body: { ...RUN, question: "later", rows: [["v1", "calm", 7], ["v2", null, 1000]], more: true } }], { status: 202, body: { ...RUN, question: "later", state: "queued", rows: [] } });
  await run();
  await poll();
  assert.deepEqual(cells(), [["Video", "mood", "Changes"], ["v1", "calm", "7"], ["v2", "–", "1,000"]]);
  assert.ok(elements(root, "a").some(({ attributes }) => attributes.get("href") === "#/videos/v1"));
  assert.match(root.textContent, /There may be more rows/);
});

test("a run without rows and a failed run have their own texts and no file", async () => {
  for (const [body, text] of [[{ ...RUN, rows: [] }, /No rows for these days/], [{ ...RUN, state: "failed", error: "It failed.", rows: [] }, /It failed\. Run: r1\./]]) {
    await screen([{ body }]);
    await run();
    await poll();
    assert.match(root.textContent, text);
    assert.ok(!root.textContent.includes("Download CSV"));
    unmount(root);
  }
  root = await mount(html`<p></p>`);
});

test("an invalid day is reported at its field, and a failed poll can be retried", async () => {
  await screen([], problem(400, "invalid-parameter", { errors: [{ parameter: "from", detail: "must not be after the last day" }] }));
  await run();
  assert.equal(field(root, "From").attributes.get("aria-invalid"), "true");
  assert.match(root.textContent, /Must not be after the last day\./);
  unmount(root);
  await screen([problem(503, "unavailable"), { body: RUN }]);
  await run();
  await poll();
  assert.match(textsByRole(root, "alert")[0], /unavailable/);
  await click(root, "Try again");
  await poll();
  assert.match(root.textContent, /Download CSV/);
});

test("a CSV file starts with the column names, and quotes values with special characters", () => {
  assert.equal(csv([["a", "b"], ['say "x", y', null], [1, "line\nbreak"]]), 'a,b\r\n"say ""x"", y",\r\n1,"line\nbreak"\r\n');
});
