// Owner's tools next to the player: the jobs of the file, the poster frame, and the views.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useInterval, useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Failure, Icon, Status, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { JOBS } from "./schema.js";
import { nameOf } from "./names.js";
import Posters from "./posters.js";
import { humanize } from "./sentences.js";
import Views from "./views.js";

const TEXT = texts.video.processing;

/**
 * @typedef {import("../screens/video.js").PartProps} PartProps
 * @typedef {import("../core/api.js").Schemas["Job"]} Job
 */

/** Milliseconds between two polls: RUNNING_POLL_MS while a job runs, IDLE_POLL_MS while a job may begin. */
const RUNNING_POLL_MS = 1500;
const IDLE_POLL_MS = 3000;
/** Milliseconds after opening the screen during which it waits for an uploaded file to arrive. */
const ARRIVAL_MS = 10 * 60_000;
const ORDER = Object.keys(JOBS);

/** @param {PartProps} props */
export default function Processing(props) {
  return props.isOwner ? html`<${OwnerSection} ...${props} />` : null;
}

/** @param {PartProps} props */
function OwnerSection(props) {
  const { video, changed } = props;
  const [pending, setPending] = useState(false);
  const made = useJobs(video, changed, pending);
  const jobs = made.value?.jobs;
  return html`<aside aria-label=${TEXT.ownerTools}>
    ${jobs && html`<${Jobs} video=${video} jobs=${jobs} reason=${made.value?.reason} reload=${made.reload} />`}
    <${Failure} error=${made.error} retry=${made.reload} />
    <${Posters} video=${video} job=${jobs?.find(({ kind }) => kind === "poster")} setPending=${setPending} />
    ${(video.status === "ready" || video.viewCount > 0) && html`<${Views} video=${video} />`}
  </aside>`;
}

/** Load the jobs of a video and the reason why it is not ready. Polls while jobs run or may begin.
 * @param {import("../screens/video.js").Video} video
 * @param {() => void} changed
 * @param {boolean} isPending whether a job is about to begin */
function useJobs(video, changed, isPending) {
  const { videoId, status } = video;
  const params = { path: { videoId } };
  const loaded = useLoad(async (signal) => {
    const [jobs, why] = await Promise.all([
      ask(api.GET("/v1/videos/{videoId}/jobs", { params, signal })),
      status === "ready" ? null : ask(api.GET("/v1/videos/{videoId}/why-not-ready", { params, signal })),
    ]);
    return { jobs: jobs.data.items.sort((one, other) => orderOf(one) - orderOf(other)), reason: why?.data.reason };
  }, [videoId]);

  const [opened] = useState(Date.now);
  const isOpen = isPending || Boolean(loaded.value?.jobs.some(({ state }) => state === "queued" || state === "running"));
  const isComing = status === "processing" || (status === "uploaded" && Date.now() - opened < ARRIVAL_MS);
  useInterval(() => {
    if (loaded.isLoading) return; // a reload would abort a slow request
    loaded.reload();
    if (!isOpen && status === "processing") changed(); // the last job is done, so the status changes soon
  }, isOpen || status === "processing" ? RUNNING_POLL_MS : IDLE_POLL_MS, isOpen || isComing);

  const states = loaded.value?.jobs.map(({ kind, state, attempt, inputHash }) => `${kind} ${state} ${attempt} ${inputHash}`).join();
  const before = useRef(states);
  useEffect(() => {
    if (before.current !== undefined && states !== undefined && states !== before.current) changed();
    before.current = states ?? before.current;
  }, [states]);
  const lastStatus = useRef(status);
  useEffect(() => {
    if (loaded.value) loaded.reload();
    if (lastStatus.current === "processing" && status === "ready") announceText(TEXT.ready);
    lastStatus.current = status;
  }, [status]);
  return loaded;
}

/** @param {Job} job */
function orderOf({ kind }) {
  return ORDER.includes(kind) ? ORDER.indexOf(kind) : ORDER.length;
}

/** State of all jobs in one line, which the user can open. It is open if a job has failed.
 * @param {{ video: import("../screens/video.js").Video, jobs: Job[], reason?: string, reload: () => void }} props */
function Jobs({ video, jobs, reason, reload }) {
  const failed = jobs.filter(({ state }) => state === "failed").length;
  const left = jobs.filter(({ state }) => state === "queued" || state === "running").length;
  const hasFailed = useRef(false);
  hasFailed.current ||= failed > 0; // it stays open during a retry
  // A failed job shows its own error. Without a file, the player shows the reason.
  const isNews = video.status !== "ready" && video.source && !failed && !left;
  if (!jobs.length && !isNews) return null;
  const [icon, text] = /** @type {[import("../design/icons.js").IconName, string]} */ (
    failed ? ["circle-x", TEXT.failed(failed)]
      : left ? ["loader-circle", TEXT.progress(jobs.length - left, jobs.length)]
        : ["circle-check", TEXT.done(jobs.length)]);
  return html`<section>
    ${jobs.length > 0 && html`<details class=${`folded ${failed ? "is-failed" : left ? "is-running" : ""}`} open=${hasFailed.current}>
      <summary><${Icon} name=${icon} /><h2>${TEXT.title}</h2><span class="hint" role="status">${text}</span></summary>
      <ul class="jobs">${jobs.map((job) => html`<${JobRow} key=${job.kind} job=${job} reload=${reload} />`)}</ul>
    </details>`}
    ${isNews && reason && html`<p class="reason">${humanize(reason)}</p>`}
  </section>`;
}

/** @param {{ job: Job, reload: () => void }} props */
function JobRow({ job, reload }) {
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const { videoId, kind, state, progress } = job;
  const name = nameOf(kind);
  const retry = async () => {
    setBusy(true);
    setError(null);
    try {
      await ask(api.POST("/v1/videos/{videoId}/jobs/{kind}/retry", { params: { path: { videoId, kind } } }));
      announceText(TEXT.retrying(name));
      reload();
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  return html`<li class="job">
    <span class="name"><bdi>${name}</bdi></span> <${Status} of=${state} />
    ${state === "running" && html`<progress max="100" value=${progress || undefined} aria-label=${TEXT.progressOf(name)}></progress>`}
    ${state === "queued" && job.attempts > 1 && html`<p class="hint">${TEXT.queuedAgain(job.attempts, html`<bdi>${job.error?.reason}</bdi>`)}</p>`}
    ${state === "failed" && html`
      <p class="fault"><bdi>${job.error?.reason}</bdi></p>
      ${job.error?.final
        ? html`<p class="hint">${texts.common.sourceIsCause}</p>
            <a class="button" href=${hrefTo(["upload"], { video: videoId })}>${texts.common.uploadAnother}</a>`
        : html`<button type="button" disabled=${isBusy} aria-label=${texts.common.retryOf(name)} onClick=${retry}>${texts.common.retry}</button>`}`}
    <${Failure} error=${error} />
  </li>`;
}
