// Uploads: accepted files, transfers to S3 despite failures, and the state after a reload.

import assert from "node:assert/strict";
import { after, afterEach, beforeEach, mock, test } from "node:test";
import { Problem } from "../../console/core/api.js";
import { sortByCreation } from "../../console/library/creation-order.js";
import { add, all, update, forget } from "../../console/upload/list.js";
import { retry } from "../../console/upload/put.js";
import { addFiles, attachFile, pause, resume, submit } from "../../console/upload/queue.js";
import { abort, send } from "../../console/upload/send.js";
import Steps, { progressOf } from "../../console/upload/steps.js";
import { html } from "htm/preact";
import Header from "../../console/frame/header.js";
import Draft from "../../console/upload/draft.js";
import Row from "../../console/upload/row.js";
import { act, button, click, description, dialog, mount, elements, field, focused, unmount, textsByRole, type } from "./page.js";
import { problem, serve, settle, signIn } from "./support.js";

const MB = 1_000_000;

beforeEach(() => {
  signIn();
  mock.timers.enable({ apis: ["setTimeout"] });
});

afterEach(() => {
  forget([...all()]);
  mock.timers.reset();
  sessionStorage.clear();
});

/** Return a fake of a browser's file. Its bytes are never read. */
function file(name, { size = 5 * MB, type = "video/mp4", lastModified = 1 } = {}) {
  const blob = (bytes) => ({ size: bytes, slice: (start, end) => blob(Math.min(end, bytes) - start), arrayBuffer: async () => new ArrayBuffer(1) });
  return { ...blob(size), name, type, lastModified };
}

/** Fake S3. `respond` returns the status of a PUT, or nothing: then the PUT is pending until the test calls its `end`. */
class Storage {
  constructor(respond = () => 200) {
    this.puts = [];
    const storage = this;
    globalThis.XMLHttpRequest = class {
      upload = {};
      open(_method, url) {
        this.url = url;
      }
      setRequestHeader() {}
      send(body) {
        const put = { url: this.url, size: body.size, end: (status) => this.#end(status) };
        storage.puts.push(put);
        this.upload.onprogress({ loaded: body.size });
        const status = respond(put, storage.puts.length);
        if (status !== undefined) this.#end(status);
      }
      abort() {
        this.#end(0);
      }
      getResponseHeader() {
        return `"${this.url}"`;
      }
      #end(status) {
        this.status = status;
        this.onloadend();
      }
    };
  }

  get urls() {
    return this.puts.map(({ url }) => url);
  }
}

/** Fake API with one upload. `responses` replace its default responses, by method and last segment of the path: each is a response, or
 * a function of the request. */
function service(responses = {}) {
  const defaults = {
    "POST videos": { status: 201, body: { videoId: "v" } },
    "POST upload": { status: 201, body: { uploadId: "u", method: "PUT", url: "whole", headers: {} } },
    "GET u": { body: { state: "open", uploadId: "u", url: "fresh", headers: {} } },
    "POST complete": { body: {} },
  };
  return serve((request) => {
    const response = { ...defaults, ...responses }[`${request.method} ${request.path.split("/").at(-1)}`];
    return (typeof response === "function" ? response(request) : response) ?? problem(404, "not-found");
  });
}

const inParts = (count, etags = {}, round = "") => ({
  uploadId: "u", state: "open", partSize: 33 * MB,
  parts: Array.from({ length: count }, (_, index) => ({ partNumber: index + 1, size: 33 * MB, url: `part ${index + 1}${round}`, etag: etags[index + 1] })),
});

/** Return an upload before its transfer. */
function drafted(more = {}) {
  const about = { name: "ride.mp4", size: 99 * MB, lastModified: 1, type: "video/mp4" };
  return add({ subject: "alice", state: "sending", about, file: file("ride.mp4", { size: 99 * MB }), details: { title: " Ride ", category: " ", tags: "a, ,b ", visibility: "public" }, ...more });
}

const calls = (requests) => requests.map(({ method, path }) => `${method} ${path.split("/").at(-1)}`);

test("a file is sent with one PUT, after the creation of its video with the entered fields", async () => {
  const storage = new Storage();
  const requests = service();
  const upload = drafted();
  await send(upload, upload.stop.signal);
  assert.deepEqual(calls(requests), ["POST videos", "POST upload"]);
  assert.deepEqual(requests[0].body, { title: "Ride", visibility: "public", category: null, tags: ["a", "b"] });
  assert.equal(requests[0].headers["idempotency-key"], upload.key);
  assert.deepEqual(requests[1].body, { contentType: "video/mp4", fileSize: 99 * MB });
  assert.deepEqual(storage.urls, ["whole"]);
  assert.equal(upload.loaded, 0); // no transfer is in progress
});

test("parts are sent three at a time, each once, and completed with their ETags", async () => {
  const storage = new Storage(() => undefined);
  const requests = service({ "POST upload": { status: 201, body: inParts(4) } });
  const upload = drafted();
  const sent = send(upload, upload.stop.signal);
  await settle();
  assert.deepEqual(storage.urls, ["part 1", "part 2", "part 3"]);
  storage.puts[1].end(200);
  await settle();
  assert.deepEqual(storage.urls, ["part 1", "part 2", "part 3", "part 4"]);
  for (const number of [0, 2, 3]) storage.puts[number].end(200);
  await sent;
  assert.deepEqual(requests.at(-1).body.parts.map(({ partNumber, etag }) => [partNumber, etag]), [1, 2, 3, 4].map((number) => [number, `"part ${number}"`]));
});

test("a resumed upload does not send received parts again", async () => {
  const storage = new Storage(({ url }) => (url === "part 1" ? 200 : undefined));
  service({ "POST upload": { status: 201, body: inParts(3) } });
  const upload = drafted();
  const stopped = send(upload, upload.stop.signal).catch((error) => error.name);
  await settle();
  upload.stop.abort();
  assert.equal(await stopped, "AbortError");
  upload.stop = new AbortController();
  const sent = send(upload, upload.stop.signal);
  await settle();
  assert.deepEqual(storage.urls.slice(3), ["part 2", "part 3"]);
  for (const put of storage.puts.slice(3)) put.end(200);
  await sent;
});

test("after a reload only the parts missing in S3 are sent", async () => {
  const storage = new Storage();
  const requests = service({ "GET u": { body: inParts(3, { 1: '"one"' }, " again") } });
  const upload = drafted({ videoId: "v", uploadId: "u" });
  await send(upload, upload.stop.signal);
  assert.deepEqual(calls(requests), ["GET u", "POST complete"]);
  assert.deepEqual(storage.urls, ["part 2 again", "part 3 again"]);
  assert.equal(requests[1].body.parts[0].etag, '"one"');
});

test("if S3 rejects the ETags, the upload's state is read again, and missing parts are sent again", async () => {
  const storage = new Storage();
  let completions = 0;
  const requests = service({
    "POST upload": { status: 201, body: inParts(3) },
    "GET u": { body: inParts(3, { 1: '"one"', 3: '"three"' }, " again") },
    "POST complete": () => ((completions += 1) === 1 ? problem(422, "invalid-parts") : { body: {} }),
  });
  const upload = drafted();
  await send(upload, upload.stop.signal);
  assert.deepEqual(storage.urls, ["part 1", "part 2", "part 3", "part 2 again"]);
  assert.deepEqual(requests.at(-1).body.parts.map(({ etag }) => etag), ['"one"', '"part 2 again"', '"three"']);
});

test("an expired URL is replaced once for all parts, and the upload fails if the new one is rejected", async () => {
  const storage = new Storage(({ url }) => (url.endsWith("fresh") ? 200 : 403));
  const requests = service({ "POST upload": { status: 201, body: inParts(3) }, "GET u": { body: inParts(3, {}, " fresh") } });
  const upload = drafted();
  await send(upload, upload.stop.signal);
  assert.equal(calls(requests).filter((call) => call === "GET u").length, 1);
  assert.equal(storage.urls.filter((url) => url.endsWith("fresh")).length, 3);

  new Storage(() => 403);
  service();
  const hopeless = drafted();
  await assert.rejects(send(hopeless, hopeless.stop.signal), { status: 403 });
});

test("a complete upload sends no more requests, and an aborted one starts again", async () => {
  const storage = new Storage();
  service({ "GET u": { body: { state: "complete" } } });
  await send(drafted({ videoId: "v", uploadId: "u" }), new AbortController().signal);
  assert.deepEqual(storage.urls, []);
  const requests = service({ "GET u": { body: { state: "aborted" } } });
  await send(drafted({ videoId: "v", uploadId: "u" }), new AbortController().signal);
  assert.deepEqual(calls(requests), ["GET u", "POST upload"]);
  new Storage(() => 412); // an attempt whose response was lost has succeeded
  service();
  await send(drafted(), new AbortController().signal);
});

test("an upload continues when the connection is back, without a second video", async () => {
  const storage = new Storage((_put, number) => (number === 1 ? 0 : 200));
  const requests = service();
  const upload = drafted();
  const sent = send(upload, upload.stop.signal);
  await settle();
  assert.match(upload.trouble, /^No connection\./);
  dispatchEvent(new Event("online"));
  await sent;
  assert.equal(upload.trouble, null);
  assert.equal(storage.puts.length, 2);
  assert.deepEqual(calls(requests), ["POST videos", "POST upload"]);
});

/** Return the number of attempts of a call that always fails with a problem, or Infinity if the attempts do not end in 20 minutes. */
async function countAttempts(more) {
  const attempt = mock.fn(async () => {
    throw new Problem({ status: 503, title: "", detail: "", ...more });
  });
  const stop = new AbortController();
  let isOver = false;
  const over = retry(attempt, stop.signal, () => undefined).catch(() => undefined).finally(() => (isOver = true));
  for (let round = 0; round < 20 && !isOver; round += 1) {
    await settle();
    mock.timers.tick(60_000);
  }
  await settle();
  const count = isOver ? attempt.mock.callCount() : Infinity;
  stop.abort();
  await over;
  return count;
}

test("a transient error is retried a few times, and a permanent one is not retried", async () => {
  assert.equal(await countAttempts({}), 6);
  assert.equal(await countAttempts({ status: 429, retryAfter: 60 }), 6);
  assert.equal(await countAttempts({ status: 429, retryAfter: 7_000 }), 1); // a quota needs hours
  assert.equal(await countAttempts({ status: 409, type: "urn:problem:write-contention" }), 6);
  for (const status of [400, 403, 404, 409, 422]) assert.equal(await countAttempts({ status }), 1, `${status}`);
  assert.equal(await countAttempts({ status: 0 }), Infinity);
});

test("a cancelled upload is aborted at the API, and a complete one is not", async () => {
  service({ "DELETE u": { status: 204 } });
  assert.equal(await abort(drafted({ videoId: "v", uploadId: "u" })), true);
  service({ "DELETE u": problem(409, "already-complete") });
  assert.equal(await abort(drafted({ videoId: "v", uploadId: "u" })), false);
  service();
  assert.equal(await abort(drafted({ videoId: "v", uploadId: "u" })), true);
  assert.equal(await abort(drafted()), true);
});

test("video files are recognised by type or name, and other files are rejected with a reason", () => {
  const faults = addFiles([
    file("Summer_2026  at_sea.mp4"), file("old.mkv", { type: "" }), file("old.ts", { type: "text/vnd.trolltech.linguist" }),
    file("empty.mp4", { size: 0 }), file("notes.txt", { type: "text/plain" }), file("huge.mp4", { size: 500e9 + 1 }), file("x.mp4", { type: "video/mp4; codecs=x" }),
  ], "alice");
  assert.deepEqual(faults, [
    "empty.mp4: The file is empty. Select another file.", "notes.txt: The type text/plain is not a video. Select a video file.",
    "huge.mp4: The file is larger than 500 GB. Select a smaller file.",
  ]);
  assert.deepEqual(all().map(({ details, about }) => [details.title, about.type]), [
    ["Summer 2026 at sea", "video/mp4"], ["old", "application/octet-stream"], ["old", "application/octet-stream"], ["x", "video/mp4"],
  ]);
});

test("a file that is selected again resumes its own upload, and no upload of another video", () => {
  new Storage(() => undefined);
  service();
  const about = { name: "ride.mp4", size: 5 * MB, lastModified: 1, type: "video/mp4" };
  const one = drafted({ state: "interrupted", about, file: null, videoId: "one", isNew: false });
  addFiles([file("ride.mp4")], "alice", { videoId: "other", title: "Other" });
  assert.deepEqual(all().map(({ state, videoId }) => [state, videoId]), [["interrupted", "one"], ["draft", "other"]]);
  assert.match(attachFile(one, file("ride.mp4", { lastModified: 2 })), /^This is a different file\. Select the unchanged file ride\.mp4\./);
  addFiles([file("ride.mp4")], "alice", { videoId: "one", title: "One" });
  assert.equal(one.state, "sending");
  assert.equal(all().length, 2);
});

test("two files are sent at a time, and the others in turn", async () => {
  new Storage(() => undefined);
  service();
  const names = ["a", "b", "c"];
  addFiles(names.map((name) => file(`${name}.mp4`)), "alice");
  for (const upload of all()) await submit(upload);
  assert.deepEqual(all().map(({ state }) => state), ["sending", "sending", "waiting"]);
  pause(all()[0]);
  assert.deepEqual(all().map(({ state }) => state), ["paused", "sending", "sending"]);
  resume(all()[0]);
  assert.equal(all()[0].state, "waiting");
});

test("files that are uploaded together are listed in the order of their selection", async () => {
  new Storage(() => undefined);
  const responses = new Map();
  service({ "POST videos": ({ body }) => new Promise((resolve) => responses.set(body.title, () => resolve({ status: 201, body: { videoId: body.title } }))) });
  addFiles(["b", "c", "a"].map((name) => file(`${name}.mp4`)), "alice");
  const submitted = all().map(submit);
  await settle();
  for (const title of ["a", "b", "c"]) responses.get(title)();
  await Promise.all(submitted);
  const listed = ["a", "b", "c"].map((videoId) => ({ videoId, createdAt: 1 }));
  assert.deepEqual(sortByCreation(listed, false).map(({ videoId }) => videoId), ["b", "c", "a"]);
});

test("errors of a new video are shown at its draft, which remains", async () => {
  service({ "POST videos": problem(422, "invalid-content", { errors: [{ pointer: "/title", detail: "too short" }] }) });
  addFiles([file("a.mp4")], "alice");
  await submit(all()[0]);
  assert.equal(all()[0].state, "draft");
  assert.equal(all()[0].error.at("/title"), "too short");
});

test("uploads are stored without URLs, and drafts are not stored", () => {
  drafted({ state: "sending", videoId: "v", uploadId: "u", plan: { url: "https://s3.example/?X-Amz-Signature=secret", headers: {} } });
  drafted({ state: "draft" });
  drafted({ state: "sent", videoId: "w" });
  update();
  const kept = sessionStorage.getItem("uploads");
  assert.ok(!kept.includes("X-Amz"), "a presigned URL permits uploads");
  assert.deepEqual(JSON.parse(kept).map(({ state, videoId }) => [state, videoId]), [["interrupted", "v"], ["sent", "w"]]);
});

const DONE = { state: "done", queuedAt: 10 };
const video = (more, jobs = []) => ({ status: "processing", source: { uploadId: "u", arrivedAt: 10 }, thumbnails: {}, included: { jobs }, ...more });
const steps = (seen) => seen.steps.map(({ name, state, note }) => `${name}: ${state}${note ? ` (${note})` : ""}`);

test("each processing step of a file is shown until it is ready", () => {
  assert.deepEqual(steps(progressOf(video({ source: null, status: "uploaded" }), "u")), [
    "Uploaded: done", "Received: running", "Probe: waiting", "Poster: waiting", "Storyboard: waiting", "Renditions: waiting", "Ready: waiting",
  ]);
  const jobs = [
    { ...DONE, kind: "probe" }, { ...DONE, kind: "poster", state: "running", progress: 40 }, { ...DONE, kind: "transcode.240p" },
    { ...DONE, kind: "transcode.1080p", state: "queued", error: { reason: "It stopped." } },
  ];
  assert.deepEqual(steps(progressOf(video({}, jobs), "u")), [
    "Uploaded: done", "Received: done", "Probe: done", "Poster: running (40 %)", "Storyboard: waiting",
    "Rendition 1080p: waiting (It stopped.)", "Rendition 240p: done", "Ready: waiting",
  ]);
  const ready = progressOf(video({ status: "ready", thumbnails: { poster: { url: "p" } } }, [{ ...DONE, kind: "probe" }, { ...DONE, kind: "poster" }]), "u");
  assert.deepEqual([ready.isOver, ready.isReady, ready.end, ready.poster], [true, true, "ready.", "p"]);
});

test("a file that was sent and is not visible yet is not reported as missing", async () => {
  const shown = async (more, reason) => {
    serve(({ path }) => ({ body: path.endsWith("/why-not-ready") ? { reason } : video(more) }));
    const root = await mount(html`<${Steps} upload=${drafted({ state: "sent", videoId: "v", uploadId: "u" })} onPoster=${() => undefined} onDismiss=${() => undefined} />`);
    const text = root.textContent;
    unmount(root);
    return text;
  };
  const missing = await shown({ source: null, status: "uploaded" }, "No source video has arrived.");
  assert.match(missing, /Received: in progress/);
  assert.doesNotMatch(missing, /No source video has arrived/);
  assert.match(await shown({}, "Reading the film starts within 10 seconds."), /Received: done.*Reading the film starts within 10 seconds\./);
});

test("a failed file, or one of a deleted video, shows no future steps", () => {
  const jobs = [{ ...DONE, kind: "probe", state: "failed", error: { reason: "No film." } }];
  const failed = progressOf(video({ status: "failed", failure: { reason: "No film." } }, jobs), "u");
  assert.deepEqual(steps(failed), ["Uploaded: done", "Received: done", "Probe: failed (No film.)"]);
  assert.deepEqual([failed.isOver, failed.failure], [true, undefined]); // its step states the failure
  const deleted = progressOf(video({ status: "deleted" }, [{ ...DONE, kind: "probe" }]), "u");
  assert.deepEqual(steps(deleted), ["Uploaded: done", "Received: done", "Probe: done"]);
  assert.equal(deleted.isOver, true);
});

test("jobs of the previous file do not affect the new one, and a later file replaces it", () => {
  const old = [{ ...DONE, kind: "probe", queuedAt: 5 }];
  assert.ok(steps(progressOf(video({}, old), "u")).includes("Probe: waiting"));
  assert.ok(steps(progressOf(video({ source: { uploadId: "t", arrivedAt: 1 } }), "u")).includes("Received: running"));
  assert.equal(progressOf(video({ source: { uploadId: "v", arrivedAt: 10 } }), "u").isReplaced, true);
});

const QUOTA = new Problem({ status: 429, title: "Quota exceeded", detail: "The daily quota is used up.", retryAfter: 7000 });
const row = (upload, onRemove = () => undefined) => html`<${Row} upload=${upload} takesFocus=${false} onRemove=${onRemove} />`;
const action = (root) => elements(root, "button")[0].textContent;

test("a failed upload shows the reason and the time of the next attempt, and one button pauses, resumes and retries", async () => {
  new Storage(() => undefined); // each PUT remains pending
  service();
  const upload = drafted({ state: "failed", error: QUOTA });
  const root = await mount(row(upload));
  assert.match(textsByRole(root, "alert")[0], /^Quota exceeded.*Try again in 2 hours\./);
  const labels = [action(root)];
  for (const state of ["sending", "paused", "waiting"]) {
    Object.assign(upload, { state, error: null });
    unmount(root);
    const drawn = await mount(row(upload));
    labels.push(action(drawn));
    unmount(drawn);
  }
  assert.deepEqual(labels, ["Try again", "Pause", "Resume", "Pause"]);
});

test("an upload that cannot be retried shows the reason in one line, and can only be removed", async () => {
  const errors = [{ pointer: "/fileSize", detail: "must be at most 500000000000" }];
  const upload = drafted({ state: "failed", videoId: "v", isNew: false, error: new Problem({ status: 422, title: "Invalid content", detail: "See errors", errors }) });
  const root = await mount(row(upload));
  after(() => unmount(root));
  assert.deepEqual(textsByRole(root, "alert"), ["Invalid content. Must be at most 500000000000."]);
  assert.deepEqual(elements(root, "button").map(({ textContent }) => textContent), ["Remove"]);
});

test("the details of a video can be edited while its file is uploaded", async () => {
  new Storage(() => undefined);
  const video = { videoId: "v", title: "Ride", tags: ["a"], visibility: "private", metadata: {}, version: 1, status: "uploaded" };
  const requests = service({ "GET v": { body: video }, "PATCH v": ({ body }) => ({ body: { ...video, ...body } }), "GET tags": { body: { items: [], nextCursor: null } } });
  const upload = drafted({ state: "paused", videoId: "v", uploadId: "u" });
  const root = await mount(row(upload));
  after(() => unmount(root));
  await click(root, "Edit details");
  await settle();
  const form = dialog(root, "Edit video");
  await type(form, "Title", "Night ride");
  await act(elements(form, "form")[0], "submit");
  await settle();
  assert.deepEqual(requests.find(({ method }) => method === "PATCH").body, { title: "Night ride" });
  assert.deepEqual(upload.details, { title: "Night ride", category: "", tags: "a", visibility: "private" });
  assert.equal(upload.state, "paused");
  assert.deepEqual(elements(root, "dialog"), []);
});

test("an upload is cancelled after a confirmation, and its row disappears", async () => {
  const requests = service({ "DELETE u": { status: 204 }, "DELETE v": { status: 204 } });
  const upload = drafted({ state: "paused", videoId: "v", uploadId: "u" });
  let removed = 0;
  const root = await mount(row(upload, () => (removed += 1)));
  await click(root, "Cancel");
  const asking = dialog(root, "Cancel this upload?");
  assert.match(asking.textContent, /Also delete the video/);
  await click(asking, "Cancel upload");
  assert.equal(removed, 1);
  assert.ok(requests.some(({ method, path }) => method === "DELETE" && path.includes("/u")));
  unmount(root);
});

test("a draft that the service rejects marks its invalid fields, and the first one gets the focus", async () => {
  const errors = [{ pointer: "/title", detail: "must not be empty" }, { pointer: "/tags/1", detail: "must have at most 64 characters, not 65" }];
  const upload = drafted({ state: "draft", details: { title: " ", category: "", tags: "short, xxx", visibility: "private" }, error: new Problem({ status: 422, title: "", detail: "", errors }) });
  const root = await mount(html`<${Draft} upload=${upload} onSend=${() => undefined} onRemove=${() => undefined} />`);
  assert.equal(description(root, "Title"), "Must not be empty.");
  assert.match(description(root, "Tags"), /“xxx”: must have at most 64 characters, not 65\.$/);
  assert.equal(focused(root), "Title");
  unmount(root);
});

test("closing the page during an upload, or with a draft, asks for confirmation", async () => {
  const asks = () => {
    const event = new Event("beforeunload", { cancelable: true });
    dispatchEvent(event);
    return event.defaultPrevented;
  };
  assert.ok(!asks());
  const upload = drafted({ state: "draft" });
  assert.ok(asks());
  forget([upload]);
  assert.ok(!asks());
});

test("signing out during an upload asks for confirmation", async () => {
  drafted({ state: "sending", loaded: 33 * MB });
  const root = await mount(html`<${Header} user=${{ subject: "alice", isAdmin: false }} />`);
  assert.ok(elements(root, "a").some(({ textContent }) => textContent.trim() === "Uploading, 33%"));
  await act(field(root, "Account: alice"), "click");
  await click(root, "Sign out");
  const asking = dialog(root, "Sign out during an upload?");
  button(asking, "Sign out and cancel uploads");
  await click(asking, "Stay signed in");
  assert.deepEqual(elements(root, "dialog"), []);
  assert.equal(all().length, 1);
  unmount(root);
});
