// Failed jobs by cause, with a button to retry them if that can help.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { hrefTo } from "../core/route.js";
import { asSentence, count } from "../core/formats.js";
import { Empty, Failure, Icon, Time, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { nameOf } from "../video/names.js";

const TEXT = texts.operations.causes;

/**
 * @typedef {import("../core/api.js").Schemas["Failures"]} Failures
 * @typedef {Failures["causes"][number]} Cause
 * @typedef {{ done: number, retried: number, error?: unknown, isOver: boolean }} Run
 */

const SHOWN = 3;

/** @param {{ part: Failures, reload: () => void }} props */
export default function Causes({ part: { examined, more, causes }, reload }) {
  if (!causes.length) return html`<${Empty} icon="circle-check">${TEXT.none}<//>`;
  return html`<ul class="causes">${causes.map((cause) => html`<${Row} key=${`${cause.kind} ${cause.action} ${cause.reason}`} cause=${cause} reload=${reload} />`)}</ul>
    ${more && html`<p class="hint">${TEXT.examined(examined)}</p>`}`;
}

/** @param {{ cause: Cause, reload: () => void }} props */
function Row({ cause: { kind, reason, action, count: number, latestAt, jobs }, reload }) {
  const [run, setRun] = useState(/** @type {Run | null} */ (null));
  const stopping = useRef(new AbortController());
  useEffect(() => () => stopping.current.abort(), []);
  const start = async () => {
    stopping.current = new AbortController();
    await retryJobs(jobs, { show: setRun, signal: stopping.current.signal });
    if (!stopping.current.signal.aborted) reload();
  };
  const isBusy = run && !run.isOver;
  return html`<li class="cause">
    <p class="figure"><strong>${count(number)}</strong> <${UserText}>${nameOf(kind)}<//> <span class="hint">${TEXT.latest(html`<${Time} at=${latestAt * 1000} />`)}</span></p>
    <p><${UserText}>${asSentence(reason)}<//></p>
    <p class="hint">${jobs.slice(0, SHOWN).map(({ videoId }, index) => html`<a key=${videoId} href=${hrefTo(["videos", videoId])}>${TEXT.video(index + 1)}</a> `)}
      ${jobs.length > SHOWN && TEXT.andMore(jobs.length - SHOWN)}</p>
    ${action === "upload"
      ? html`<p class="hint"><${Icon} name="circle-alert" /> ${TEXT.sourceIsCause}</p>`
      : html`<div class="actions">
          <button type="button" disabled=${isBusy} aria-label=${TEXT.retryItem(number, nameOf(kind))} onClick=${start}><${Icon} name="refresh-cw" />${TEXT.retry(number)}</button>
          <span role="status">${run && (run.isOver ? TEXT.done : TEXT.retrying)(run.retried, jobs.length)}</span>
        </div>`}
    ${run?.error && html`<${Failure} error=${run.error} />`}
  </li>`;
}

/** Retry jobs one after another until `signal` is aborted, and report each state of the run to `show`.
 *
 * Skips a job that can no longer be retried. Ends at an error that the other jobs would also get, such as 429.
 * @param {Cause["jobs"]} jobs @param {{ show: (run: Run) => void, signal: AbortSignal }} options */
export async function retryJobs(jobs, { show, signal }) {
  /** @type {Run} */
  let now = { done: 0, retried: 0, isOver: false };
  const update = (/** @type {Partial<Run>} */ more) => signal.aborted || show((now = { ...now, ...more }));
  update({});
  for (const { videoId, kind } of jobs) {
    if (signal.aborted) return;
    try {
      await ask(api.POST("/v1/videos/{videoId}/jobs/{kind}/retry", { params: { path: { videoId, kind } }, signal }));
      update({ retried: now.retried + 1 });
    } catch (error) {
      if (!(error instanceof Problem) || [0, 429, 503].includes(error.status)) {
        update({ error });
        break;
      }
    }
    update({ done: now.done + 1 });
  }
  update({ isOver: true });
}
