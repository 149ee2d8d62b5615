// Videos with failed jobs: the reasons, and buttons to retry one job or all jobs of the shown videos.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useInterval, usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { time } from "../core/formats.js";
import { Empty, Failure, Loading, PendingChanges, Status, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { nameOf } from "../video/names.js";
import { Panel, ShowMore, usePendingChanges, VideoRow } from "./panel.js";

const TEXT = texts.operations.failed;

/** @typedef {import("../core/api.js").Schemas["Job"]} Job */
/** @typedef {import("../core/api.js").Schemas["VideoSummary"]} Summary */
/** Loaded jobs of a video. `isWatched` is true after one of them was retried on this page.
 * @typedef {{ jobs?: Job[], error?: unknown, isWatched?: boolean }} VideoJobs */
/** Progress of retrying all. `permanent` counts videos whose source file is the cause.
 * @typedef {{ all: number, done: number, retried: number, permanent: number, refused: number, error?: unknown, isOver: boolean }} Run */

const PAUSE_MS = 3000;

/** @param {import("../screens/operations.js").PanelProps} props */
export default function FailedJobs({ changes }) {
  const pages = usePages(async (cursor, signal) => {
    const query = { status: /** @type {const} */ ("failed"), limit: 12, cursor };
    const { data } = await ask(api.GET("/v1/videos", { params: { query }, signal }));
    return { ...data, items: /** @type {Summary[]} */ (data.items) };
  }, [], { key: ({ videoId }) => videoId });
  const { known, read, retry, isWatching, poll } = useJobs();
  useInterval(poll, PAUSE_MS, isWatching);
  usePendingChanges(changes, pages, (videoIds) => videoIds.forEach((videoId) => known[videoId] && void read(videoId)));
  const { run, start, stop } = useRun(read, retry);
  return html`<${Panel} title=${TEXT.title} class="panel-wide" refresh=${pages.reload}>
    <${PendingChanges} pages=${pages} />
    ${pages.items.length > 0 && html`<div class="panel-run">
      ${run && !run.isOver
        ? html`<button type="button" onClick=${stop}>${texts.common.stop}</button>`
        : html`<button type="button" onClick=${() => start(pages.items)}>${TEXT.retryAll}</button>`}
      ${run && html`<${Progress} run=${run} />`}
    </div>`}
    ${run?.error && html`<${Failure} error=${run.error} />`}
    ${pages.isDone && !pages.items.length && html`<${Empty}>${TEXT.none}<//>`}
    <ul class="panel-rows">
      ${pages.items.map((video) => html`<${VideoRow} key=${video.videoId} video=${video} onVisible=${() => void read(video.videoId)}>
        <${Jobs} title=${video.title} known=${known[video.videoId]} retry=${(/** @type {Job} */ job) => retry(job)}
          reload=${() => void read(video.videoId)} />
      <//>`)}
    </ul>
    <${ShowMore} pages=${pages} />
  <//>`;
}

/** @param {{ run: Run }} props */
function Progress({ run: { all, done, retried, permanent, refused, isOver } }) {
  const results = [
    TEXT.retried(retried),
    permanent && TEXT.permanent(permanent),
    refused && TEXT.refused(refused),
  ].filter(Boolean).join(", ");
  return html`<label class="panel-progress">
    <progress max=${all} value=${done}></progress>
    <span role="status">${(isOver ? TEXT.done : TEXT.retrying)(done, all, results)}</span>
  </label>`;
}

/** @param {{ title: string, known?: VideoJobs, retry: (job: Job) => Promise<unknown>, reload: () => void }} props */
function Jobs({ title, known, retry, reload }) {
  if (!known?.jobs) return known?.error ? html`<${Failure} error=${known.error} retry=${reload} />` : html`<${Loading} what=${texts.operations.loadingReason} />`;
  const shown = known.jobs.filter(({ state }) => state === "failed" || known.isWatched);
  return html`
    ${!shown.length && html`<p class="hint">${TEXT.noJob}</p>`}
    ${shown.map((job) => html`<div class="panel-job" key=${job.kind}>
      <p><${UserText}>${nameOf(job.kind)}<//> <${Status} of=${job.state} />
        ${job.state === "running" && html` ${job.progress} %`}</p>
      ${job.state === "failed" && html`
        <p class="panel-reason"><${UserText}>${job.error?.reason ?? TEXT.noReason}<//></p>
        <p class="hint">${TEXT.attempts(job.attempts, time(job.error?.at ?? job.updatedAt))}${job.error?.final && ` ${texts.common.sourceIsCause}`}</p>
        ${job.error?.final
          ? html`<a class="button" href=${hrefTo(["upload"], { video: job.videoId })} aria-label=${TEXT.uploadAnotherFor(title)}>${texts.common.uploadAnother}</a>`
          : html`<button type="button" aria-label=${TEXT.retryItem(nameOf(job.kind), title)}
              onClick=${() => retry(job).catch(() => undefined)}>${texts.common.retry}</button>`}`}
    </div>`)}
    <${Failure} error=${known.error} />`;
}

/** Jobs of videos, each loaded by `read`. */
function useJobs() {
  const [known, setKnown] = useState(/** @type {Record<string, VideoJobs>} */ ({}));
  const isPolling = useRef(false);
  /** Number of retries by video. A response to a request from before a retry would show the old state of the job. */
  const retries = useRef(/** @type {Record<string, number>} */ ({}));
  const set = (/** @type {string} */ videoId, /** @type {VideoJobs} */ more) =>
    setKnown((before) => ({ ...before, [videoId]: { ...before[videoId], ...more } }));

  /** @param {string} videoId @returns {Promise<Job[]>} */
  const read = async (videoId) => {
    const before = retries.current[videoId];
    try {
      const { data } = await ask(api.GET("/v1/videos/{videoId}/jobs", { params: { path: { videoId } } }));
      if (retries.current[videoId] !== before) return read(videoId);
      set(videoId, { jobs: data.items, error: null });
      return data.items;
    } catch (error) {
      set(videoId, { error });
      throw error;
    }
  };
  /** @param {Job} job */
  const retry = async ({ videoId, kind }) => {
    try {
      const { data } = await ask(api.POST("/v1/videos/{videoId}/jobs/{kind}/retry", { params: { path: { videoId, kind } } }));
      retries.current[videoId] = (retries.current[videoId] ?? 0) + 1;
      setKnown((before) => {
        const jobs = before[videoId]?.jobs?.map((job) => (job.kind === kind ? data : job));
        return { ...before, [videoId]: { jobs, error: null, isWatched: true } };
      });
    } catch (error) {
      set(videoId, { error });
      throw error;
    }
  };
  const open = Object.entries(known).filter(([, { jobs, isWatched }]) => isWatched && jobs?.some(isOpen));
  /** Poll the retried jobs, one video after another. */
  const poll = async () => {
    if (isPolling.current) return;
    isPolling.current = true;
    for (const [videoId] of open) await read(videoId).catch(() => undefined); // `read` shows the error; the next poll retries
    isPolling.current = false;
  };
  return {
    known, retry, poll, isWatching: open.length > 0,
    read: (/** @type {string} */ videoId) => read(videoId).catch(() => /** @type {Job[] | null} */ (null)),
  };
}

/** @param {Job} job */
function isOpen({ state }) {
  return state === "queued" || state === "running";
}

/** State of the run that retries the failed jobs of all shown videos.
 * @param {(videoId: string) => Promise<Job[] | null>} read @param {(job: Job) => Promise<unknown>} retry */
function useRun(read, retry) {
  const [run, setRun] = useState(/** @type {Run | null} */ (null));
  const stopping = useRef(new AbortController());
  const stop = () => stopping.current.abort();
  useEffect(() => stop, []);
  /** @param {Summary[]} videos */
  const start = (videos) => {
    stopping.current = new AbortController();
    return retryAll(videos, { read, retry, show: setRun, signal: stopping.current.signal });
  };
  return { run, start, stop };
}

/** Retry the failed jobs of videos one after another until `signal` is aborted, and report each state of the run to `show`.
 * @param {Pick<Summary, "videoId">[]} videos
 * @param {{ read: (videoId: string) => Promise<Job[] | null>, retry: (job: Job) => Promise<unknown>, show: (run: Run) => void,
 *   signal: AbortSignal }} options */
export async function retryAll(videos, { read, retry, show, signal }) {
  /** @type {Run} */
  let now = { all: videos.length, done: 0, retried: 0, permanent: 0, refused: 0, isOver: false };
  const update = (/** @type {Partial<Run>} */ more) => show((now = { ...now, ...more }));
  update({});
  let isBlocked = false;
  for (const { videoId } of videos) {
    if (signal.aborted || isBlocked) break;
    const failed = (await read(videoId))?.filter(({ state }) => state === "failed");
    const retryable = failed?.filter(({ error }) => !error?.final) ?? [];
    let isRefused = !failed;
    for (const job of retryable) {
      try {
        await retry(job);
        update({ retried: now.retried + 1 });
      } catch (error) {
        isRefused = true;
        // Without a connection, or over the daily job limit, all other jobs would also fail.
        if (!(error instanceof Problem) || [0, 429, 503].includes(error.status)) {
          isBlocked = true;
          update({ error });
          break;
        }
      }
    }
    update({
      done: now.done + 1,
      permanent: now.permanent + (failed?.length && !retryable.length ? 1 : 0),
      refused: now.refused + (isRefused ? 1 : 0),
    });
  }
  update({ isOver: true });
}
