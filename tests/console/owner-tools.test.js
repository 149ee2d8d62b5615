// The owner's tools next to the player, rendered without a browser: jobs, poster frame and views.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import { Announcer } from "../../console/design/parts.js";
import Processing from "../../console/video/processing.js";
import { act, all, button, click, mount, elements, field, unmount, textsByRole, settled } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const TILES = "WEBVTT\n\n" + [0, 5, 10].map((start) => `00:${String(start).padStart(2, "0")}.000 --> 00:${String(start + 5).padStart(2, "0")}.000\nsheet.jpg#xywh=${start},0,160,90\n`).join("\n");
const job = (kind, state, more) => ({ videoId: "a", kind, state, attempt: 1, attempts: 1, progress: 0, inputHash: "x", ...more });
const REASON = "The file is not a video in a supported format.";
const FIGURES = { granularity: "day", total: 3, items: [{ from: 1_700_000_000, views: 1, watchedMs: 0 }, { from: 1_700_086_400, views: 2, watchedMs: 5000 }] };
const EXPLANATION = {
  counted: { total: 1 }, notCounted: { total: 2, repeated: 2, owner: 0 },
  rules: [{ rule: "repeated", because: "Another view of the same viewer was counted" }, { rule: "owner", because: "Views of the owner do not count" }],
};

let root;
let jobs;
let poster;
let requests;
let storyboard = 0;
before(() => mock.timers.enable({ apis: ["setInterval"] }));
after(() => mock.timers.reset());
beforeEach(() => {
  signIn();
  jobs = [job("probe", "done"), job("poster", "done")];
  poster = { url: `${location.origin}/poster-1.jpg`, time: 1000 };
  requests = serve(({ method, path }) => {
    if (path.includes("/retry")) return { status: 202, body: {} };
    if (path.includes("/jobs")) return { body: { items: structuredClone(jobs) } };
    if (path.includes("/why-not-ready")) return { body: { reason: "The video is not ready. Retry it with POST .../jobs/probe/retry." } };
    if (path.includes("/explain")) return { body: EXPLANATION };
    if (path.includes("/views")) return { body: path.includes("hour") ? { ...FIGURES, granularity: "hour", total: 0, items: [] } : FIGURES };
    return method === "POST" ? { status: 202, body: {} } : problem(404, "not-found");
  });
  const send = globalThis.fetch;
  globalThis.fetch = (input, options) => (String(input).includes(".vtt") ? Promise.resolve(new Response(TILES)) : send(input, options));
});
afterEach(() => unmount(root));

/** Render the tools as on the page of an owner. */
function tools(more) {
  const video = {
    videoId: "a", status: "ready", viewCount: 3, source: {}, thumbnails: { poster, "storyboard.vtt": { url: `${location.origin}/${storyboard}.vtt` } }, ...more,
  };
  return html`<div><${Announcer} /><${Processing} video=${video} isOwner changed=${() => undefined} /></div>`;
}

async function open(more) {
  storyboard += 1; // a page caches responses
  root = await mount(tools(more));
}

const line = () => elements(root, "summary")[0].textContent;
const isOpen = () => elements(root, "details")[0].attributes.has("open");

test("jobs are collapsed to one line, which expands to the steps", async () => {
  await open();
  assert.equal(line(), "ProcessingAll 2 steps done");
  assert.ok(!isOpen());
  assert.deepEqual(elements(root, "li").map(({ textContent }) => textContent.trim()), ["Probe Done", "Poster Done"]);
});

test("the line is updated while jobs run", async () => {
  jobs = [job("probe", "running", { progress: 40 }), job("poster", "queued")];
  await open({ status: "processing" });
  assert.equal(line(), "Processing0 of 2 steps done");
  jobs = [job("probe", "done"), job("poster", "queued")];
  mock.timers.tick(1500);
  await settled();
  assert.equal(line(), "Processing1 of 2 steps done");
});

test("a failed job expands the line and can be retried, and the line remains expanded during the retry", async () => {
  jobs = [job("probe", "done"), job("poster", "failed", { error: { reason: "The disk is full." } })];
  await open({ status: "failed" });
  assert.equal(line(), "Processing1 step failed");
  assert.ok(isOpen());
  assert.match(root.textContent, /The disk is full\./);
  jobs = [job("probe", "done"), job("poster", "queued", { attempt: 2 })];
  await act(field(root, "Retry: Poster"), "click");
  assert.equal(requests.find(({ path }) => path.includes("/retry")).path, "/v1/videos/a/jobs/poster/retry");
  assert.equal(line(), "Processing1 of 2 steps done");
  assert.ok(isOpen());
});

test("a job that failed because of the file offers another upload instead of a retry", async () => {
  jobs = [job("probe", "failed", { error: { reason: REASON, final: true } })];
  await open({ status: "failed" });
  assert.match(root.textContent, /not a video in a supported format.*The source file is the cause\. Upload a different file\./);
  assert.ok(elements(root, "a").some(({ textContent, attributes }) => textContent === "Upload another file" && attributes.get("href") === "#/upload?video=a"));
  assert.ok(!elements(root, "button").some(({ textContent }) => textContent === "Retry"));
});

test("a video that is not ready and has no running job shows the reason without API requests", async () => {
  await open({ status: "processing" });
  assert.match(root.textContent, /The video is not ready\./);
  assert.doesNotMatch(root.textContent, /POST/);
});

const frames = () => elements(root, "input").filter(({ attributes }) => attributes.get("name") === elements(root, "input")[0].attributes.get("name"));
/** Choose a frame of the strip. */
const choose = (index) => act(frames()[index], "change");

test("the poster frame is selected on the strip, and its button appears if another frame than the current poster is selected", async () => {
  await open();
  assert.deepEqual(elements(root, "label").slice(0, 3).map(({ textContent }) => textContent.trim()), ["0:00, current poster", "0:05", "0:10"]);
  assert.ok(frames()[0].checked);
  assert.ok(!elements(root, "button").some(({ textContent }) => textContent === "Set poster frame"));
  await choose(2);
  await click(root, "Cancel");
  await choose(1);
  await act(elements(root, "form")[0], "submit");
  assert.deepEqual(requests.find(({ path }) => path.endsWith("/thumbnail")).body, { position: 7500 });
  assert.ok(button(root, "Set poster frame").attributes.has("disabled"));
  assert.match(root.textContent, /Creating poster …/);
});

test("a poster that could not be created is announced", async () => {
  await open();
  await choose(1);
  await act(elements(root, "form")[0], "submit");
  jobs = [job("probe", "done"), job("poster", "failed", { attempt: 2, error: { reason: "x" } })];
  for (let round = 0; round < 4; round += 1) {
    mock.timers.tick(1500);
    await settled();
  }
  assert.match(textsByRole(root, "status").join(), /The poster could not be created\./);
  assert.ok(frames()[0].checked); // the current poster again
});

test("views are a total with a sparkline", async () => {
  await open();
  const chart = all(root).find(({ attributes }) => attributes.get("role") === "img");
  assert.match(chart.attributes.get("aria-label"), /^3 views in the last 30 days\. Peak: 2, 15 Nov 2023\.$/);
  assert.match(root.textContent, /Views.*3 in the last 30 days/);
  const [, hours] = elements(root, "label").filter(({ textContent }) => /hours|days/.test(textContent)).reverse();
  await act(elements(hours, "input")[0], "change");
  assert.match(root.textContent, /No views in the last 24 hours\./);
  assert.ok(!all(root).some(({ attributes }) => attributes.get("role") === "img"));
});

test("reasons for excluded views are requested when the user opens them", async () => {
  await open();
  const countExplainRequests = () => requests.filter(({ path }) => path.includes("/explain")).length;
  assert.equal(countExplainRequests(), 0);
  const details = elements(root, "details").find(({ textContent }) => textContent.startsWith("Table and excluded views"));
  details.open = true;
  await act(details, "toggle");
  assert.equal(countExplainRequests(), 1);
  assert.match(details.textContent, /Last 24 hours: 1 view counted, 2 excluded:2: Another view of the same viewer was counted\./);
  assert.deepEqual(elements(details, "tr").map(({ textContent }) => textContent.replace(/\s+/g, " ")), ["DayViewsWatched", "15 Nov 202320:05", "14 Nov 202310:00"]);
});
