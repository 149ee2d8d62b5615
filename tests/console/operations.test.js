// Lists of the operations screen, drawn without a browser.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { html } from "htm/preact";
import FailedJobs from "../../console/operations/failed.js";
import { click, draw, elements, leave, said, see } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const video = (videoId) => ({ videoId, title: `Film ${videoId}`, userId: "alice", createdAt: 1_700_000_000, status: "failed" });
const failed = (videoId, final) => ({
  videoId, kind: "probe", state: "failed", attempts: 1, updatedAt: 1, error: { reason: "It stopped.", final, at: 1 },
});

let root;
beforeEach(() => signIn());
afterEach(() => leave(root));

/** The panel of failed videos, of which the service has two pages; only the film of `a` cannot be helped, and `b` is refused. */
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
  root = await draw(html`<${FailedJobs} changes=${[]} />`);
  return requests;
}

const titles = () => elements(root, "a").filter(({ attributes }) => attributes.get("class") === "title").map(({ textContent }) => textContent);
const offered = () => elements(root, "button").map(({ textContent }) => textContent);

test("Show more adds the next page of failed videos at a click only, and disappears after the last page", async () => {
  await panel();
  await see();
  assert.deepEqual(titles(), ["Film a", "Film b"]);
  await click(root, "Show more");
  assert.deepEqual(titles(), ["Film a", "Film b", "Film c", "Film d"]);
  assert.ok(!offered().includes("Show more"));
});

test("Retry all shown retries every video of the list and says in one sentence what came of it", async () => {
  const requests = await panel();
  await click(root, "Show more");
  await click(root, "Retry all shown");
  const retried = requests.filter(({ method }) => method === "POST").map(({ path }) => path);
  assert.deepEqual(retried, ["b", "c", "d"].map((videoId) => `/v1/videos/${videoId}/jobs/probe/retry`));
  assert.ok(said(root, "status").includes(
    "Done: 4 of 4 videos; 2 jobs retried, 1 video not retried because of the source file, 1 video failed.",
  ), said(root, "status").join("|"));
  assert.ok(offered().includes("Retry all shown"));
});
