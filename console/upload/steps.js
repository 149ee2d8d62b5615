// Steps of processing after an upload.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useInterval, useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Failure, Loading, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { JOBS } from "../video/schema.js";
import { nameOf } from "../video/names.js";
import { humanize } from "../video/sentences.js";

const TEXT = texts.upload.steps;

/**
 * @typedef {import("../core/api.js").Schemas["FetchedVideo"]} Video
 * @typedef {import("../core/api.js").Schemas["Job"]} Job
 * @typedef {"done" | "running" | "waiting" | "failed"} State
 * @typedef {{ name: string, state: State, note?: string | undefined }} Step
 */

/** Milliseconds between two polls: FAST_POLL_MS in the first minute, then SLOW_POLL_MS. */
const FAST_POLL_MS = 1_500, SLOW_POLL_MS = 5_000, FAST_PERIOD_MS = 60_000;
const WORDS = TEXT.states;
const MARKS = { done: "✓", running: "…", waiting: "○", failed: "✕" };
/** @type {Record<Job["state"], State>} */
const STATES = { queued: "waiting", running: "running", done: "done", failed: "failed" };
const RENDITION = "transcode.";

/** @param {{ upload: import("./list.js").Upload, onPoster: (url: string) => void, onDismiss: () => void }} props */
export default function Steps({ upload, onPoster, onDismiss }) {
  const videoId = upload.videoId ?? "", uploadId = upload.uploadId ?? "";
  const loaded = useLoad(async (signal) => {
    const params = { path: { videoId } };
    const [{ data: video }, { data: why }] = await Promise.all([
      ask(api.GET("/v1/videos/{videoId}", { params: { ...params, query: { include: ["jobs"] } }, signal })),
      ask(api.GET("/v1/videos/{videoId}/why-not-ready", { params, signal })),
    ]);
    return { video: /** @type {Video} */ (video), reason: why.reason };
  }, [videoId, uploadId]);
  const seen = loaded.value && progressOf(loaded.value.video, uploadId);
  const isGone = loaded.error instanceof Problem && loaded.error.status === 404;
  const isOver = isGone || (seen?.isOver ?? false);
  const [since] = useState(() => performance.now());
  useInterval(() => loaded.isLoading || loaded.reload(), performance.now() - since < FAST_PERIOD_MS ? FAST_POLL_MS : SLOW_POLL_MS, !isOver);

  const poster = seen?.poster;
  useEffect(() => void (poster && onPoster(poster)), [poster]);
  const wasGoing = useRef(false);
  useEffect(() => {
    if (seen && !isOver) wasGoing.current = true;
    if (seen?.isOver && wasGoing.current) announceText(`${upload.details.title.slice(0, 80)}: ${seen.end}`);
  }, [seen === null, isOver]);

  const actions = html`<div class="actions">
    ${seen?.hasFailed && html`<a class="button primary" href=${hrefTo(["upload"], { video: videoId })}>${texts.common.uploadAnother}</a>`}
    <a class=${`button ${seen?.isReady ? "primary" : ""}`} href=${hrefTo(["videos", videoId])}>${TEXT.viewVideo}</a>
    <button type="button" onClick=${onDismiss}>${TEXT.dismiss}</button>
  </div>`;
  if (!seen || isGone) return html`${loaded.error ? html`<${Failure} error=${loaded.error} />` : html`<${Loading} />`}${actions}`;
  return html`<ol class="steps">
      ${seen.steps.map(({ name, state, note }) => html`<li key=${name} class=${state}>
        <span class="mark" aria-hidden="true">${MARKS[state]}</span>
        <span>${name}: ${WORDS[state]}${note && html`<span class="note">${note}</span>`}</span>
      </li>`)}
    </ol>
    ${!isOver && seen.hasArrived && html`<p class="soft">${humanize(loaded.value?.reason ?? "")}</p>`}
    ${seen.isReplaced && html`<p class="soft">${TEXT.replaced}</p>`}
    ${seen.isDeleted && html`<p>${TEXT.deletedHint}</p>`}
    ${seen.failure && html`<p class="fault">${seen.failure}</p>`}
    ${actions}`;
}

/** Return the progress of a video in processing the file of an upload.
 * @param {Video} video
 * @param {string} uploadId */
export function progressOf(video, uploadId) {
  const { source, status } = video;
  const hasArrived = (source?.uploadId ?? "") >= uploadId; // later uploads have higher ids
  // Jobs queued before the file arrived belong to the previous file.
  const jobs = hasArrived ? (video.included?.jobs ?? []).filter(({ queuedAt }) => queuedAt >= (source?.arrivedAt ?? 0)) : [];
  const isReady = hasArrived && status === "ready";
  const hasFailed = status === "failed" && (hasArrived || !source);
  const isDeleted = status === "deleted";
  const renditions = jobs.filter(({ kind }) => kind.startsWith(RENDITION)).sort((one, other) => other.kind.localeCompare(one.kind, undefined, { numeric: true }));
  /** @type {Step[]} */
  const steps = [
    { name: TEXT.uploaded, state: "done" },
    { name: TEXT.received, state: hasArrived ? "done" : hasFailed ? "failed" : "running" },
    ...Object.entries(JOBS).flatMap(([kind, { isAlways }]) => {
      const job = jobs.find((job) => job.kind === kind);
      return job || isAlways ? [stepOf(nameOf(kind), job)] : [];
    }),
    ...(renditions.length ? renditions.map((job) => stepOf(nameOf(job.kind), job)) : [stepOf(texts.fields.resolutions, undefined)]),
    { name: TEXT.ready, state: isReady ? "done" : "waiting" },
  ];
  const reason = video.failure?.reason;
  return {
    // After a failure or a deletion, the remaining steps never run.
    steps: hasFailed || isDeleted ? steps.filter(({ state }) => state === "done" || state === "failed") : steps,
    isReady,
    hasArrived,
    hasFailed,
    isDeleted,
    end: isReady ? TEXT.endReady : isDeleted ? TEXT.endDeleted : TEXT.endFailed,
    isReplaced: (source?.uploadId ?? "") > uploadId,
    isOver: hasFailed || isDeleted || (isReady && jobs.length > 0 && jobs.every(({ state }) => ["done", "failed"].includes(state))),
    failure: hasFailed && steps.every(({ note }) => note !== reason) ? reason : undefined,
    poster: hasArrived && jobs.some(({ kind, state }) => kind === "poster" && state === "done") ? posterOf(video) : undefined,
  };
}

/** @param {string} name @param {Job | undefined} job
 * @returns {Step} */
function stepOf(name, job) {
  if (!job) return { name, state: "waiting" };
  if (job.error && job.state !== "done") return { name, state: STATES[job.state], note: job.error.reason };
  const note = job.state === "running" && job.progress ? `${job.progress} %` : undefined;
  return { name, state: STATES[job.state], note };
}

/** @param {Video} video */
function posterOf({ thumbnails }) {
  return (thumbnails["poster-320.webp"] ?? thumbnails["poster"])?.url;
}
