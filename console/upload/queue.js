// What people do with uploads: choose, send, pause, go on, cancel.

import { api, ask } from "../core/api.js";
import { texts } from "../texts/index.js";
import { add, all, update, forget } from "./list.js";
import { abort, create, send } from "./send.js";

const TEXT = texts.upload.faults;

/** @typedef {import("./list.js").Upload} Upload */

/** How many films are sent at a time. */
const AT_ONCE = 2;
/** What the API takes (`NewUpload` of its OpenAPI document): asked first, so that no video is created for anything else. */
const TYPES = /^(video\/[a-z0-9][a-z0-9.+-]{0,99}|application\/(octet-stream|mp4|mxf|x-matroska))$/;
const LARGEST = 500e9;
const ANY = "application/octet-stream";
/** Films that some systems have no type for, or a wrong one. */
const NAMES = ["mkv", "mxf", "flv", "avi", "wmv", "ts", "m2ts", "mts", "ogv", "vob"];
/** For the browser's dialog. */
export const ACCEPTED = ["video/*", ...NAMES.map((name) => `.${name}`)].join();

/** Put files into the list; those that are chosen again go on instead, unless that was for another video than `video`.
 * @param {Iterable<File>} files
 * @param {string} subject
 * @param {{ videoId: string, title: string }} [video] that gets a new film, instead of a new video for each
 * @returns {string[]} what is wrong with those that are not in it */
export function choose(files, subject, video) {
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

/** Change what a draft says of its video.
 * @param {Upload} upload
 * @param {Partial<import("./list.js").Details>} details */
export function describe(upload, details) {
  upload.details = { ...upload.details, ...details };
  upload.key = crypto.randomUUID(); // a key stands for one request
  update();
}

/** Note what was saved of the video of an upload that is under way.
 * @param {Upload} upload
 * @param {import("./list.js").Details} details */
export function revise(upload, details) {
  upload.details = details;
  update();
}

/** Begin with a draft: its video is created at once, so that what is wrong is seen while somebody looks.
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
  next();
}

/** Stop what is under way; parts that arrived stay. @param {Upload} upload */
export function pause(upload) {
  upload.state = "paused";
  upload.trouble = null;
  upload.stop.abort();
  update();
  next();
}

/** Go on with what was paused or has failed. @param {Upload} upload */
export function resume(upload) {
  if (upload.state === "failed") upload.plan = null; // ask how far it is before going on
  upload.state = "waiting";
  upload.error = null;
  update();
  next();
}

/** Go on with the file of an interrupted upload; what is wrong with it, if it is another.
 * @param {Upload} upload
 * @param {File} file */
export function attachFile(upload, file) {
  if (!isSame(upload, file)) return TEXT.differentFile(upload.about.name);
  upload.file = file;
  resume(upload);
  return undefined;
}

/** Give it up. Resolves to whether that was in time; throws Problem.
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

/** Begin with those whose turn it is. */
function next() {
  const free = AT_ONCE - all().filter(({ state }) => state === "sending").length;
  for (const upload of all().filter(({ state }) => state === "waiting").slice(0, free)) start(upload);
}

/** @param {Upload} upload */
function start(upload) {
  const stop = new AbortController();
  const before = upload.run; // what was paused may still wait for an answer: two must not send the same
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
    next();
  });
  update();
}

/** @param {File} file */
function faultOf(file) {
  if (!file.size) return TEXT.emptyFile;
  if (file.size > LARGEST) return TEXT.tooLarge;
  if (!TYPES.test(typeOf(file))) return TEXT.notAVideo(file.type);
  return undefined;
}

/** The type to announce. Browsers do not know all films: the service looks for itself what is in a file.
 * @param {File} file */
function typeOf({ name, type }) {
  const given = type.toLowerCase().split(";")[0]?.trim() ?? "";
  const isNamed = NAMES.includes(name.split(".").at(-1)?.toLowerCase() ?? "");
  return !given || (isNamed && !TYPES.test(given)) ? ANY : given;
}

/** @param {Upload} upload @param {File} file */
function isSame({ about }, { name, size, lastModified }) {
  return about.name === name && about.size === size && about.lastModified === lastModified;
}

/** Such as `Summer 2026` for `Summer_2026.mp4`. @param {string} name */
function titleOf(name) {
  return name.replace(/\.[^.]{1,5}$/, "").replaceAll(/[_\s]+/g, " ").trim() || name;
}
