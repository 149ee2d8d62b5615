// The operations screen, rendered without a browser.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import Header from "../../console/frame/header.js";
import { retryJobs } from "../../console/operations/causes.js";
import FailedJobs from "../../console/operations/failed.js";
import Operations from "../../console/screens/operations.js";
import { act, button, click, mount, elements, field, unmount, textsByRole, reportVisible, settled, type } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const video = (videoId) => ({ videoId, title: `Film ${videoId}`, userId: "alice", createdAt: 1_700_000_000, status: "failed" });
const failed = (videoId, final) => ({
  videoId, kind: "probe", state: "failed", attempts: 1, updatedAt: 1, error: { reason: "It stopped.", final, at: 1 },
});

let root;
before(() => mock.timers.enable({ apis: ["setInterval"] })); // the screen polls
after(() => mock.timers.reset());
beforeEach(() => signIn());
afterEach(() => unmount(root));

/** Render the panel of failed videos, which has two pages. The file of `a` is faulty, and the API refuses the retry of `b`. */
async function panel() {
  const requests = serve(({ method, path }) => {
    if (path.startsWith("/v1/videos?")) {
      const isSecond = new URL(path, location.href).searchParams.get("cursor") === "second";
      return { body: isSecond ? { items: [video("c"), video("d")], nextCursor: null } : { items: [video("a"), video("b")], nextCursor: "second" } };
    }
    const [, videoId] = /^\/v1\/videos\/(.)\/jobs/.exec(path) ?? [];
    if (method === "POST") return videoId === "b" ? problem(409, "job-running") : { body: { ...failed(videoId), state: "queued" } };
    return { body: { items: [failed(videoId, videoId === "a")] } };
  });
  root = await mount(html`<${FailedJobs} changes=${[]} />`);
  return requests;
}

const titles = () => elements(root, "a").filter(({ attributes }) => attributes.get("class") === "title").map(({ textContent }) => textContent);
const offered = () => elements(root, "button").map(({ textContent }) => textContent);

test("Show more adds the next page of failed videos only when clicked, and disappears after the last page", async () => {
  await panel();
  await reportVisible();
  assert.deepEqual(titles(), ["Film a", "Film b"]);
  await click(root, "Show more");
  assert.deepEqual(titles(), ["Film a", "Film b", "Film c", "Film d"]);
  assert.ok(!offered().includes("Show more"));
});

test("a response from before a retry does not replace the state of the retried job", async () => {
  const [probe, poster] = ["probe", "poster"].map((kind) => ({ ...failed("a", false), kind }));
  let reads = 0, respond;
  serve(async ({ method, path }) => {
    if (path.startsWith("/v1/videos?")) return { body: { items: [video("a")], nextCursor: null } };
    if (method === "POST") return { body: { ...(path.includes("probe") ? probe : poster), state: "queued" } };
    if (++reads > 1) await new Promise((resolve) => (respond = resolve));
    return { body: { items: reads > 1 ? [{ ...probe, state: "queued" }, poster] : [probe, poster] } };
  });
  root = await mount(html`<${FailedJobs} changes=${[]} />`);
  await reportVisible();
  const retries = () => elements(root, "button").filter(({ textContent }) => textContent === "Retry");
  await act(retries()[0], "click");
  mock.timers.tick(3000); // the poll reads the jobs
  await settled();
  await act(retries()[0], "click");
  respond();
  await settled();
  assert.equal(retries().length, 0);
});

test("Retry all shown retries every video of the list and reports the result in one sentence", async () => {
  const requests = await panel();
  await click(root, "Show more");
  await click(root, "Retry all shown");
  const retried = requests.filter(({ method }) => method === "POST").map(({ path }) => path);
  assert.deepEqual(retried, ["b", "c", "d"].map((videoId) => `/v1/videos/${videoId}/jobs/probe/retry`));
  assert.ok(textsByRole(root, "status").includes(
    "Done: 4 of 4 videos; 2 jobs retried, 1 video not retried because of the source file, 1 video failed.",
  ), textsByRole(root, "status").join("|"));
  assert.ok(offered().includes("Retry all shown"));
});

const ADMIN = { subject: "admin", isAdmin: true, followsAll: true };
const ALICE = { subject: "alice", isAdmin: false, followsAll: false };
const NONE = { body: { items: [], nextCursor: null } };

/** Render the screen of an administrator. `respond` handles requests, or returns nothing for the default response. Return all requests. */
async function screen(respond = () => undefined, { user = ADMIN, query = "" } = {}) {
  const requests = serve((request) => respond(request) ?? (request.path.startsWith("/v1/changes") ? { body: { items: [], nextCursor: "x", caughtUp: true } } : NONE));
  root = await mount(html`<${Operations} user=${user} route=${{ path: ["operations"], query: new URLSearchParams(query) }} />`);
  return requests;
}

const panelOf = (title) => elements(root, "section").find((section) => elements(section, "h2")[0]?.textContent === title);

test("operations are for administrators only: other users see no link to them, and the page sends no request", async () => {
  assert.deepEqual(await screen(undefined, { user: ALICE }), []);
  assert.match(root.textContent, /^OperationsThis page is for administrators\./);
  unmount(root);
  const links = async (user) => {
    root = await mount(html`<${Header} user=${user} />`);
    const found = elements(root, "a").map(({ textContent }) => textContent);
    unmount(root);
    return found.includes("Operations");
  };
  assert.deepEqual([await links(ALICE), await links(ADMIN)], [false, true]);
  root = await mount(html`<p></p>`);
});

test("the reason of a failed video is requested when its row scrolls into view", async () => {
  const requests = await panel();
  const countJobRequests = () => requests.filter(({ path }) => path.endsWith("/jobs")).length;
  assert.equal(countJobRequests(), 0);
  await reportVisible();
  assert.equal(countJobRequests(), 2);
});

test("a failed video without failed jobs shows who set its status, and a faulty file offers another upload", async () => {
  serve(({ path }) => (path.startsWith("/v1/videos?") ? { body: { items: [video("a"), video("b")], nextCursor: null } }
    : { body: { items: path.includes("/a/") ? [failed("a", true)] : [] } }));
  root = await mount(html`<${FailedJobs} changes=${[]} />`);
  await reportVisible();
  const [hopeless, other] = elements(root, "li");
  assert.match(hopeless.textContent, /It stopped\..*The source file is the cause\. Upload a different file\./);
  assert.equal(field(hopeless, "Upload another file: Film a").attributes.get("href"), "#/upload?video=a");
  assert.deepEqual(elements(hopeless, "button"), []);
  assert.match(other.textContent, /No job failed\. The status was set by a user\./);
});

test("a video in processing for longer than the selected age shows the job that it waits for", async () => {
  const blocker = { kind: "poster", state: "queued", attempts: 2, queuedAt: 1_700_000_000 };
  const requests = await screen(({ path }) => {
    if (path.includes("status=processing")) return { body: { items: [video("a")], nextCursor: null } };
    return path.includes("why-not-ready") ? { body: { reason: "The poster is not there yet.", blocker } } : undefined;
  });
  await reportVisible();
  assert.match(panelOf("Long processing").textContent, /The poster is not there yet\.Poster Queued2 attemptssince 14 Nov 2023/);
  const limit = () => Number(new URL(requests.filter(({ path }) => path.includes("status=processing")).at(-1).path, location.href).searchParams.get("to"));
  const before = limit();
  const age = field(panelOf("Long processing"), "Older than");
  age.value = "86400";
  await act(age, "input");
  assert.ok(before - limit() > 80_000);
});

test("a panel that fails affects no other panel, and can be retried", async () => {
  let isBroken = true;
  await screen(({ path }) => {
    if (!path.startsWith("/v1/tags")) return undefined;
    return isBroken ? problem(503, "unavailable", { detail: "Try again later." }) : { body: { items: [{ tag: "sea", count: 2 }], nextCursor: null } };
  });
  assert.match(textsByRole(panelOf("Tags"), "alert")[0], /Try again later\./);
  assert.match(panelOf("Health").textContent, /The service and its table respond/);
  isBroken = false;
  await click(panelOf("Tags"), "Try again");
  assert.ok(elements(panelOf("Tags"), "a").some(({ textContent, attributes }) => textContent === "sea" && attributes.get("href") === "#/?tag=sea"));
  await click(panelOf("Tags"), "Table");
  assert.deepEqual(elements(panelOf("Tags"), "td").map(({ textContent }) => textContent), ["2"]);
  assert.deepEqual(textsByRole(panelOf("Tags"), "alert"), []);
});

test("the address selects the user whose totals are shown", async () => {
  const totals = { userId: "alice", videos: { total: 9, ready: 5, processing: 1, uploaded: 1, failed: 2, deleted: 3 }, bytes: 1_500_000, duration: 61_000, playlists: 4 };
  await screen();
  assert.match(panelOf("User totals").textContent, /Enter a user ID/);
  unmount(root);
  await screen(({ path }) => (path === "/v1/users/alice" ? { body: totals } : undefined), { query: "user=alice" });
  assert.deepEqual(elements(panelOf("User totals"), "dd").map(({ textContent }) => textContent), ["9", "5", "1", "1", "2", "3", "1.5 MB", "1:01", "4"]);
  await type(panelOf("User totals"), "User", "bob");
  await act(elements(panelOf("User totals"), "form")[0], "submit");
  assert.equal(location.hash, "#/operations?user=bob");
});

test("the most viewed videos are requested by period, order and category, and an empty list states whether it was computed", async () => {
  const requests = await screen(({ path }) => (path.startsWith("/v1/top") ? { body: { items: [], computedAt: null } } : undefined));
  const top = panelOf("Most viewed");
  for (const [label, value] of [["Period", "month"], ["Sort by", "-rise"], ["Category", "travel"]]) {
    const element = field(top, label);
    element.value = value;
    await act(element, "input");
    await act(element, "change");
  }
  assert.match(requests.filter(({ path }) => path.startsWith("/v1/top")).at(-1).path, /window=month&sort=-rise&category=travel/);
  assert.match(top.textContent, /No views of published videos\.Not computed yet\./);
  button(top, "Refresh");
});

const STATE = {
  at: 1_700_000_000,
  totals: {
    videos: { total: 1234, uploaded: 1, processing: 2, ready: 1228, failed: 3, deleted: 4 }, bytes: 2_000_000, duration: 18_000_000,
    uploads: [{ from: 1_699_992_000, count: 2 }, { from: 1_699_995_600, count: 5 }],
  },
  jobs: [{ queue: "probe", open: 100, more: true, oldestSeconds: 90 }],
  webhooks: { behind: 1, more: false, items: [{ webhookId: "0b6c0a4e-93a4", seconds: 340, failingSince: 1_699_999_000, nextAttemptAt: null }] },
  failures: {
    examined: 3, more: true,
    causes: [
      { kind: "transcode", reason: "The transcoder stopped", action: "retry", count: 2, latestAt: 1_699_999_000, jobs: [{ videoId: "a", kind: "transcode.720p" }, { videoId: "b", kind: "transcode.720p" }] },
      { kind: "probe", reason: "Not a video.", action: "upload", count: 1, latestAt: 1_699_999_000, jobs: [{ videoId: "c", kind: "probe" }] },
    ],
  },
  views: { computedAt: 1_699_999_900, hours: [{ from: 1_699_995_600, count: 7 }] },
  index: { videos: 1228, publishedAt: 1_699_999_955, seconds: 45 },
  comparison: { at: 1_699_990_000, repairs: false, outcomes: { found: 1 }, findings: [{ kind: "user", id: "alice", outcome: "found" }] },
  queues: [{ name: "probe", waiting: 3, delayed: 1, inFlight: 2, deadLetters: 1 }, { name: "purge", waiting: 0, delayed: 0, inFlight: 0, deadLetters: 0 }],
  unavailable: [],
};

const respondWith = (state) => ({ path }) => (path === "/v1/operations" ? { body: state } : undefined);
const cellsOf = (section, row) => elements(elements(section, "tr")[row], "td").map(({ textContent }) => textContent);

test("the dashboard shows each part of the state", async () => {
  await screen(respondWith(STATE));
  assert.match(panelOf("Videos").textContent, /1,234 2\.0 MB, 5 hours of videoReady1,228Processing2Uploaded1Failed3Deleted4/);
  assert.equal(elements(panelOf("Videos"), "a").find(({ textContent }) => textContent === "Failed").attributes.get("href"), "#/?status=failed");
  assert.match(panelOf("Uploads").textContent, /^Uploads7 in the last 2 hours/);
  assert.match(elements(panelOf("Uploads"), "svg")[0].attributes.get("aria-label"), /^7 files in the last 2 hours\. Peak: 5 in the hour from /);
  assert.match(panelOf("Views").textContent, /7 in the last hour.*Computed/);
  assert.match(panelOf("Search index").textContent, /45 seconds old ?Current1,228 videos/);
  assert.match(panelOf("Late webhooks").textContent, /1 with undelivered changes.*0b6c0a4e6 minutes late/);
  assert.match(panelOf("Totals check").textContent, /1 total disagrees.*Disagree.*Totals of user alice.*reconcile --repair/s);
  assert.deepEqual(cellsOf(panelOf("Queues"), 1), ["4", "2", "100+", "2 minutes", "1"]);
  assert.deepEqual(cellsOf(panelOf("Queues"), 2), ["0", "0", "–", "–", "0"]);
  assert.match(panelOf("Queues").textContent, /approximate\. make redrive shows failed messages/);
});

test("the dashboard states which parts could not be read, and which do not exist yet", async () => {
  await screen(respondWith({ ...STATE, queues: null, index: null, comparison: null, unavailable: ["queues"] }));
  assert.match(panelOf("Queues").textContent, /could not be read/);
  assert.match(panelOf("Search index").textContent, /No index is published yet/);
  assert.match(panelOf("Totals check").textContent, /No check yet/);
  assert.match(panelOf("Videos").textContent, /1,234/);
});

test("a failed dashboard can be loaded again, and the panels below it remain", async () => {
  let isBroken = true;
  await screen(({ path }) => (path !== "/v1/operations" ? undefined : isBroken ? problem(503, "unavailable", { detail: "The table is unavailable." }) : { body: STATE }));
  assert.equal(panelOf("Queues"), undefined);
  assert.match(textsByRole(root, "alert")[0], /The table is unavailable/);
  assert.ok(panelOf("Tags"));
  isBroken = false;
  await click(root, "Try again");
  assert.ok(panelOf("Queues"));
});

test("all failed jobs of a cause are retried if a retry can help, and the state is read again", async () => {
  const requests = await screen((request) => {
    if (request.path === "/v1/operations") return { body: STATE };
    if (request.method === "POST") return request.path.includes("/a/") ? problem(409, "illegal-transition") : { status: 202, body: { ...failed("b"), state: "queued" } };
    return undefined;
  });
  const panel = panelOf("Causes of failed jobs");
  const [retry, upload] = elements(panel, "li");
  assert.match(retry.textContent, /The transcoder stopped\./);
  assert.match(upload.textContent, /Upload different files/);
  assert.deepEqual(elements(upload, "button"), []);
  assert.match(panel.textContent, /Only the newest 3 failed jobs are examined\. There are more\./);
  await click(panel, "Retry 2 jobs");
  assert.deepEqual(requests.filter(({ method }) => method === "POST").map(({ path }) => path), ["a", "b"].map((id) => `/v1/videos/${id}/jobs/transcode.720p/retry`));
  assert.ok(textsByRole(retry, "status").includes("Done: 1 of 2 jobs retried."));
  assert.equal(requests.filter(({ path }) => path === "/v1/operations").length, 2);
});

test("the retries of a cause stop at an error that all other jobs would also get", async () => {
  const requests = serve(() => problem(429, "quota", {}));
  const seen = [];
  await retryJobs(STATE.failures.causes[0].jobs, { show: (run) => seen.push(run), signal: new AbortController().signal });
  assert.equal(requests.length, 1);
  assert.deepEqual([seen.at(-1).isOver, seen.at(-1).retried, seen.at(-1).error.status], [true, 0, 429]);
  root = await mount(html`<p></p>`);
});
