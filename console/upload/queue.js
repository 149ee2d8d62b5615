// Actions on uploads: select, submit, pause, resume, cancel.

import { api, ask } from "../core/api.js";
import { texts } from "../texts/index.js";
import { add, all, update, forget } from "./list.js";
import { abort, create, send } from "./send.js";

const TEXT = texts.upload.faults;

/** @typedef {import("./list.js").Upload} Upload */

/** Maximum number of concurrent uploads. */
const MAX_CONCURRENT = 2;
/** Content types that the API accepts (`NewUpload` in its OpenAPI document). Checked first, so that other files create no video. */
const TYPES = /^(video\/[a-z0-9][a-z0-9.+-]{0,99}|application\/(octet-stream|mp4|mxf|x-matroska))$/;
const MAX_BYTES = 500e9;
const GENERIC_TYPE = "application/octet-stream";
/** Extensions of video files to which some systems assign no type or a wrong one. */
const EXTENSIONS = ["mkv", "mxf", "flv", "avi", "wmv", "ts", "m2ts", "mts", "ogv", "vob"];
/** `accept` attribute of file inputs. */
export const ACCEPTED = ["video/*", ...EXTENSIONS.map((name) => `.${name}`)].join();

/** Add files as drafts. A file of an interrupted upload resumes it instead, unless that upload is for another video than `video`.
 * @param {Iterable<File>} files
 * @param {string} subject
 * @param {{ videoId: string, title: string }} [video] whose file is replaced; without it, each file creates a video
 * @returns {string[]} errors of the files that were not added */
export function addFiles(files, subject, video) {
  const faults = [];
  for (const file of files) {
    const before = all().find((upload) => upload.state === "interrupted" && isSame(upload, file)
      && (!video || upload.videoId === video.videoId));
    const fault = before ? attachFile(before, file) : faultOf(file);
    if (fault) faults.push(`${file.name}: ${fault}`);
    if (before || fault) continue;
    const { name, size, lastModified } = file;
    add({
      subject, file, state: "draft",
      about: { name, size, lastModified, type: typeOf(file) },
      details: { title: video?.title ?? titleOf(name), category: "", tags: "", visibility: "private" },
      isNew: !video,
      videoId: video?.videoId ?? null,
    });
  }
  return faults;
}

/** Change fields of a draft's video.
 * @param {Upload} upload
 * @param {Partial<import("./list.js").Details>} details */
export function updateDraft(upload, details) {
  upload.details = { ...upload.details, ...details };
  upload.key = crypto.randomUUID(); // an idempotency key must not be reused for other content
  update();
}

/** Set the fields of an unfinished upload after its video was edited.
 * @param {Upload} upload
 * @param {import("./list.js").Details} details */
export function setDetails(upload, details) {
  upload.details = details;
  update();
}

/** Submit a draft. Creates its video at once, so that the user sees errors before the transfer.
 * @param {Upload} upload */
export async function submit(upload) {
  upload.state = "creating";
  upload.error = null;
  upload.stop = new AbortController();
  update();
  const { signal } = upload.stop;
  upload.run = create(upload, signal);
  try {
    await upload.run;
    if (!signal.aborted) upload.state = "waiting";
  } catch (error) {
    if (signal.aborted) return;
    upload.state = "draft";
    upload.error = error;
  }
  update();
  startWaiting();
}

/** Pause an upload. S3 keeps the parts that it has received. @param {Upload} upload */
export function pause(upload) {
  upload.state = "paused";
  upload.trouble = null;
  upload.stop.abort();
  update();
  startWaiting();
}

/** Resume a paused or failed upload. @param {Upload} upload */
export function resume(upload) {
  if (upload.state === "failed") upload.plan = null; // the progress is read again
  upload.state = "waiting";
  upload.error = null;
  update();
  startWaiting();
}

/** Resume an interrupted upload with its file. Returns an error message if it is another file.
 * @param {Upload} upload
 * @param {File} file */
export function attachFile(upload, file) {
  if (!isSame(upload, file)) return TEXT.differentFile(upload.about.name);
  upload.file = file;
  resume(upload);
  return undefined;
}

/** Cancel an upload. Resolves to false if it was already complete. Throws Problem.
 * @param {Upload} upload
 * @param {boolean} withVideo whether to delete its video, too */
export async function cancel(upload, withVideo) {
  if (upload.state !== "interrupted") pause(upload);
  await upload.run.catch(() => undefined);
  const isGone = await abort(upload);
  if (isGone) {
    const { videoId } = upload;
    if (withVideo && videoId) await ask(api.DELETE("/v1/videos/{videoId}", { params: { path: { videoId } } }));
    forget([upload]);
  } else {
    upload.state = "sent";
    update();
  }
  return isGone;
}

/** Start waiting uploads, up to MAX_CONCURRENT concurrent ones. */
function startWaiting() {
  const free = MAX_CONCURRENT - all().filter(({ state }) => state === "sending").length;
  for (const upload of all().filter(({ state }) => state === "waiting").slice(0, free)) start(upload);
}

/** @param {Upload} upload */
function start(upload) {
  const stop = new AbortController();
  const before = upload.run; // a paused request may still be in flight; the file must not be sent twice concurrently
  upload.state = "sending";
  upload.stop = stop;
  upload.run = before.catch(() => undefined).then(() => send(upload, stop.signal)).then(
    () => {
      upload.state = "sent";
      upload.loaded = upload.about.size;
      upload.file = null;
    },
    (error) => {
      if (stop.signal.aborted) return;
      upload.state = "failed";
      upload.error = error;
    },
  ).finally(() => {
    upload.trouble = null;
    update();
    startWaiting();
  });
  update();
}

/** @param {File} file */
function faultOf(file) {
  if (!file.size) return TEXT.emptyFile;
  if (file.size > MAX_BYTES) return TEXT.tooLarge;
  if (!TYPES.test(typeOf(file))) return TEXT.notAVideo(file.type);
  return undefined;
}

/** Return the content type to send. For types that browsers do not know, it is generic; the service probes the file itself.
 * @param {File} file */
function typeOf({ name, type }) {
  const given = type.toLowerCase().split(";")[0]?.trim() ?? "";
  const isNamed = EXTENSIONS.includes(name.split(".").at(-1)?.toLowerCase() ?? "");
  return !given || (isNamed && !TYPES.test(given)) ? GENERIC_TYPE : given;
}

/** @param {Upload} upload @param {File} file */
function isSame({ about }, { name, size, lastModified }) {
  return about.name === name && about.size === size && about.lastModified === lastModified;
}

/** Return a title for a file name, such as `Summer 2026` for `Summer_2026.mp4`. @param {string} name */
function titleOf(name) {
  return name.replace(/\.[^.]{1,5}$/, "").replaceAll(/[_\s]+/g, " ").trim() || name;
}
