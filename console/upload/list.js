// The uploads of this page. They go on whatever screen is shown; what a reload must not lose is in sessionStorage.

import { useEffect, useState } from "preact/hooks";
import { onSession, user } from "../core/session.js";

/**
 * What tells a file from others.
 * @typedef {{ name: string, size: number, lastModified: number, type: string }} About
 *
 * What somebody typed of a new video.
 * @typedef {{ title: string, category: string, tags: string, visibility: "public" | "private" }} Details
 *
 * How the film goes: by one PUT, or in parts. A part with an `etag` has arrived.
 * @typedef {{ partNumber: number, size: number, url?: string, etag?: string }} Part
 * @typedef {{ url: string, headers: Record<string, string> } | { partSize: number, parts: Part[] }} Plan
 *
 * `draft`: not asked for yet. `creating`: its video is. `interrupted`: the page was loaded again, so the file has to be
 * chosen again.
 * @typedef {"draft" | "creating" | "waiting" | "sending" | "paused" | "interrupted" | "failed" | "sent"} State
 *
 * @typedef {object} Upload
 * @property {string} id
 * @property {string} key the Idempotency-Key of its video
 * @property {string} subject whose it is
 * @property {State} state
 * @property {About} about
 * @property {File | null} file
 * @property {boolean} isNew whether it has a video of its own, which it creates
 * @property {Details} details
 * @property {string | null} videoId
 * @property {string | null} uploadId
 * @property {Plan | null} plan
 * @property {number} loaded bytes that arrived or are on their way
 * @property {{ at: number, loaded: number }[]} samples of the last seconds, by `performance.now()`
 * @property {string | null} trouble why it waits, while it tries again by itself
 * @property {unknown} error why it failed
 * @property {AbortController} stop ends what is under way
 * @property {Promise<unknown>} run what is under way
 */

const KEPT = "uploads";
/** Milliseconds between two looks at how far they are. */
const GLANCE = 250;

/** @type {Set<() => void>} */
const listeners = new Set();

/** @type {Upload[]} */
let uploads = loadStored();

let isAsking = false;

/** @type {ReturnType<typeof setTimeout> | undefined} */
let glance;

onSession(() => {
  const subject = user()?.subject;
  const others = uploads.filter((upload) => upload.subject !== subject);
  if (others.length) forget(others); // nobody sees, or goes on with, what is somebody else's
});

/** All uploads, in the order in which they were chosen. */
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

/** End these uploads here, and remove them from the list.
 * @param {Upload[]} which */
export function forget(which) {
  for (const upload of which) upload.stop.abort();
  uploads = uploads.filter((upload) => !which.includes(upload));
  update();
}

/** Call this after each change of an upload. */
export function update() {
  const lasting = uploads.filter(({ state }) => state !== "draft");
  if (lasting.length) sessionStorage.setItem(KEPT, JSON.stringify(lasting.map(persist)));
  else sessionStorage.removeItem(KEPT);
  const shouldAsk = uploads.some(isLostWithPage);
  if (shouldAsk !== isAsking) (shouldAsk ? addEventListener : removeEventListener)("beforeunload", askBeforeUnload);
  isAsking = shouldAsk;
  show();
}

/** Call this when more bytes are on their way. */
export function updateProgress() {
  glance ??= setTimeout(show, GLANCE);
}

/** Whether leaving the page would break it off. @param {Upload} upload */
function isUnderWay({ state }) {
  return ["creating", "waiting", "sending", "paused"].includes(state);
}

/** Whether leaving the page would lose something of it: what was filled in, or what is being sent. @param {Upload} upload */
function isLostWithPage(upload) {
  return upload.state === "draft" || isUnderWay(upload);
}

/** All uploads; whoever uses this is drawn again when one changes. */
export function useUploads() {
  const [, setRound] = useState(0);
  useEffect(() => {
    const follow = () => setRound((round) => round + 1);
    listeners.add(follow);
    return () => void listeners.delete(follow);
  }, []);
  return uploads;
}

/** How far the uploads are that are under way, in percent; `null`: none is. And whether some wait for their files, and
 * whether leaving the page, or signing out, would lose something of any. */
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

function show() {
  clearTimeout(glance);
  glance = undefined;
  for (const listener of [...listeners]) listener();
}

/** @param {BeforeUnloadEvent} event */
function askBeforeUnload(event) {
  event.preventDefault();
}

/** What is kept of an upload: no URL, as whoever has one may upload with it. @param {Upload} upload */
function persist({ key, subject, about, isNew, details, videoId, uploadId, state }) {
  return { key, subject, about, isNew, details, videoId, uploadId, state: state === "sent" ? "sent" : "interrupted" };
}

/** @returns {Upload[]} */
function loadStored() {
  return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]").map(createEntry);
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
