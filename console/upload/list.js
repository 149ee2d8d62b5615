// Uploads of this page, which continue on all screens. What must survive a reload is in sessionStorage.

import { useLayoutEffect, useState } from "preact/hooks";
import { onSession, user } from "../core/session.js";

/**
 * Identity of a file, to recognise it when it is selected again.
 * @typedef {{ name: string, size: number, lastModified: number, type: string }} About
 *
 * Typed fields of a new video.
 * @typedef {{ title: string, category: string, tags: string, visibility: "public" | "private" }} Details
 *
 * Upload by one PUT, or in parts. S3 has received each part that has an `etag`.
 * @typedef {{ partNumber: number, size: number, url?: string, etag?: string }} Part
 * @typedef {{ url: string, headers: Record<string, string> } | { partSize: number, parts: Part[] }} Plan
 *
 * `draft`: not yet submitted. `creating`: its video is being created. `interrupted`: the page was reloaded, so the user must
 * select the file again. `sent`: complete.
 * @typedef {"draft" | "creating" | "waiting" | "sending" | "paused" | "interrupted" | "failed" | "sent"} State
 *
 * @typedef {object} Upload
 * @property {string} id
 * @property {string} key Idempotency-Key of the request that creates its video
 * @property {string} subject id of the user
 * @property {State} state
 * @property {About} about
 * @property {File | null} file
 * @property {boolean} isNew whether it creates a video; false if it replaces the file of an existing one
 * @property {Details} details
 * @property {string | null} videoId
 * @property {string | null} uploadId
 * @property {Plan | null} plan
 * @property {number} loaded bytes sent, including those of unfinished requests
 * @property {{ at: number, loaded: number }[]} samples progress in the last seconds; `at` in milliseconds of `performance.now()`
 * @property {string | null} trouble message while it waits for an automatic retry
 * @property {unknown} error reason of a failure
 * @property {AbortController} stop aborts `run`
 * @property {Promise<unknown>} run current request or transfer
 */

const STORAGE_KEY = "uploads";
/** Minimum milliseconds between two updates of the shown progress. */
const UPDATE_MS = 250;

/** @type {Set<() => void>} */
const listeners = new Set();

/** @type {Upload[]} */
let uploads = loadStored();

let isGuarded = false;

/** @type {ReturnType<typeof setTimeout> | undefined} */
let updateTimer;

onSession(() => {
  const subject = user()?.subject;
  const others = uploads.filter((upload) => upload.subject !== subject);
  if (others.length) forget(others); // another user must not see or continue them
});

/** Return all uploads, in the order in which their files were selected. */
export function all() {
  return uploads;
}

/** @param {Partial<Upload> & Pick<Upload, "subject" | "about" | "state">} given
 * @returns {Upload} */
export function add(given) {
  const upload = createEntry(given);
  uploads = [...uploads, upload];
  update();
  return upload;
}

/** Abort uploads on this page, and remove them from the list.
 * @param {Upload[]} which */
export function forget(which) {
  for (const upload of which) upload.stop.abort();
  uploads = uploads.filter((upload) => !which.includes(upload));
  update();
}

/** Store and show all uploads. Call this after each change of one. */
export function update() {
  const submitted = uploads.filter(({ state }) => state !== "draft");
  if (submitted.length) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(submitted.map(persist)));
  else sessionStorage.removeItem(STORAGE_KEY);
  const mustGuard = uploads.some(isLostWithPage);
  if (mustGuard !== isGuarded) (mustGuard ? addEventListener : removeEventListener)("beforeunload", askBeforeUnload);
  isGuarded = mustGuard;
  notify();
}

/** Show the progress soon. Call this when more bytes were sent. */
export function updateProgress() {
  updateTimer ??= setTimeout(notify, UPDATE_MS);
}

/** Whether leaving the page would interrupt an upload. @param {Upload} upload */
function isUnderWay({ state }) {
  return ["creating", "waiting", "sending", "paused"].includes(state);
}

/** Whether leaving the page would lose typed fields or an unfinished transfer. @param {Upload} upload */
function isLostWithPage(upload) {
  return upload.state === "draft" || isUnderWay(upload);
}

/** Return all uploads. The component renders again when one changes. */
export function useUploads() {
  const [, setRound] = useState(0);
  useLayoutEffect(() => {
    const follow = () => setRound((round) => round + 1);
    listeners.add(follow);
    return () => void listeners.delete(follow);
  }, []);
  return uploads;
}

/** Return the total progress of unfinished uploads.
 *
 * `percent` is null without any, `isInterrupted` is whether one waits for its file, and `isAtRisk` is whether leaving the page or
 * signing out would lose one. */
export function useProgress() {
  const listed = useUploads();
  const busy = listed.filter(isUnderWay);
  const size = busy.reduce((sum, { about }) => sum + about.size, 0);
  const loaded = busy.reduce((sum, upload) => sum + upload.loaded, 0);
  return {
    percent: busy.length ? Math.floor((loaded / size) * 100) : null,
    isInterrupted: listed.some(({ state }) => state === "interrupted"),
    isAtRisk: listed.some(isLostWithPage),
  };
}

function notify() {
  clearTimeout(updateTimer);
  updateTimer = undefined;
  for (const listener of [...listeners]) listener();
}

/** @param {BeforeUnloadEvent} event */
function askBeforeUnload(event) {
  event.preventDefault();
}

/** Return the part of an upload to store. Omits presigned URLs, which are credentials. @param {Upload} upload */
function persist({ key, subject, about, isNew, details, videoId, uploadId, state }) {
  return { key, subject, about, isNew, details, videoId, uploadId, state: state === "sent" ? "sent" : "interrupted" };
}

/** @returns {Upload[]} */
function loadStored() {
  return JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "[]").map(createEntry);
}

/** @param {Partial<Upload> & Pick<Upload, "subject" | "about" | "state">} given
 * @returns {Upload} */
function createEntry(given) {
  return {
    id: crypto.randomUUID(),
    key: crypto.randomUUID(),
    file: null,
    isNew: true,
    details: { title: "", category: "", tags: "", visibility: "private" },
    videoId: null,
    uploadId: null,
    plan: null,
    loaded: 0,
    samples: [],
    trouble: null,
    error: null,
    stop: new AbortController(),
    run: Promise.resolve(),
    ...given,
  };
}
