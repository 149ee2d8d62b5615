// The state of the service at a glance: numbers, queues, the search index, webhooks, and what needs an administrator.
//
// All of it is one response, of which each part can be missing: the others are shown then.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { useInterval, useLoad } from "../core/load.js";
import { lookUp } from "../core/lookup.js";
import { hrefTo } from "../core/route.js";
import { count, countOf, formatRange, size, time } from "../core/words.js";
import { Empty, Failure, Icon, Status, Time, UserText } from "../design/parts.js";
import { Sparkline } from "../design/sparkline.js";
import Causes from "./causes.js";
import { Panel } from "./panel.js";

/** @typedef {import("../core/api.js").Schemas["OperationsState"]} State */

const PAUSE_MS = 30_000;
/** Seconds after which the index and a webhook are late, as in the alarms. */
const LATE = 600;
const HOUR = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "numeric", minute: "2-digit" });
/** @type {["ready", "processing", "uploaded", "failed", "deleted"]} */
const STATUSES = ["ready", "processing", "uploaded", "failed", "deleted"];
/** What the messages of a queue are for. @type {Record<string, string>} */
const QUEUES = {
  arrivals: "New files", probe: "Read files", thumbnails: "Thumbnails", transcode: "Transcoding", purge: "Purge deleted videos",
  aggregates: "Totals and lists", tallies: "Views and ratings", reverts: "Large reverts", deliveries: "Webhooks",
};
/** What a comparison compares. @type {Record<string, string>} */
const KINDS = {
  entries: "List entries of video", ratings: "Ratings of video", reservations: "Unique values of video", marker: "Counted state of video",
  views: "Views of video", user: "Totals of user", "tag-count": "Count of tag", service: "Totals of the service", video: "Video",
};

export default function Overview() {
  const loaded = useLoad(async (signal) => (await ask(api.GET("/v1/operations", { signal }))).data, []);
  useInterval(loaded.reload, PAUSE_MS, true);
  const { value: state, error, reload } = loaded;
  return html`
    <div class="overview-head">
      <p class="hint">${state ? html`Updated <${Time} at=${state.at * 1000} />, every 30 seconds.` : !error && "Loading the state of the service …"}</p>
      <button type="button" class="quiet" onClick=${reload}><${Icon} name="refresh-cw" />Refresh</button>
    </div>
    <${Failure} error=${error} retry=${reload} />
    ${(state || !error) && html`<div class="tiles">
      <${Part} title="Videos" state=${state} name="totals" draw=${Videos} />
      <${Part} title="Uploads" state=${state} name="totals" draw=${Uploads} />
      <${Part} title="Views" state=${state} name="views" draw=${Views} none="The rankings have not run yet." />
      <${Part} title="Search index" state=${state} name="index" draw=${Index} none="No index is published yet." />
      <${Part} title="Late webhooks" state=${state} name="webhooks" draw=${Webhooks} />
      <${Part} title="Totals check" state=${state} name="comparison" draw=${Comparison} none=${NEVER_CHECKED} />
      <${Part} title="Queues" state=${state} name="queues" draw=${Queues} class="tile-wide" />
      <${Part} title="Causes of failed jobs" state=${state} name="failures" draw=${Causes} class="tile-wide" reload=${reload} />
    </div>`}`;
}

const NEVER_CHECKED = html`No check yet. Run <code>python -m tools reconcile</code>.`;

/** One part of the state, or why it is not there. `none` stands for a part that does not exist yet.
 * @param {{ title: string, state: State | null, name: Exclude<keyof State, "at" | "unavailable">, draw: (props: any) => unknown, none?: unknown,
 *   class?: string, reload?: () => void }} props */
function Part({ title, state, name, draw, none, class: kind = "", reload }) {
  const part = state?.[name];
  return html`<${Panel} title=${title} class=${`tile ${kind}`}>
    ${!state ? html`<div class="skeleton" aria-hidden="true"><span>${"\u00a0"}</span><span>${"\u00a0"}</span><span>${"\u00a0"}</span></div>`
      : part ? html`<${draw} part=${part} state=${state} reload=${reload} />`
        : state.unavailable.includes(name) ? html`<p class="hint"><${Icon} name="circle-alert" /> This part could not be read. The next update tries again.</p>`
          : html`<p class="hint">${none}</p>`}
  <//>`;
}

/** @param {{ part: NonNullable<State["totals"]> }} props */
function Videos({ part: { videos, bytes, duration: length } }) {
  return html`<p class="figure"><strong>${count(videos.total)}</strong> <span class="hint">${size(bytes)}, ${countOf(Math.round(length / 3_600_000), "hour")}</span></p>
    <ul class="statuses">${STATUSES.map((status) => html`<li key=${status}>
      <a href=${hrefTo([], { status })}><${Status} of=${status} /></a><span class="amount">${count(videos[status])}</span>
    </li>`)}</ul>`;
}

/** @param {{ part: NonNullable<State["totals"]> }} props */
function Uploads({ part: { uploads } }) {
  return html`<${Course} hours=${uploads} noun="file" />`;
}

/** @param {{ part: NonNullable<State["views"]> }} props */
function Views({ part: { hours, computedAt } }) {
  return html`<${Course} hours=${hours} noun="view" /><p class="hint">Computed <${Time} at=${computedAt * 1000} />.</p>`;
}

/** @param {{ hours: { from: number, count: number }[], noun: string }} props */
function Course({ hours, noun }) {
  const counts = hours.map((hour) => hour.count);
  const total = counts.reduce((sum, value) => sum + value, 0);
  const most = Math.max(0, ...counts);
  const peak = hours.find((hour) => hour.count === most && most > 0);
  const span = `in the last ${countOf(hours.length, "hour")}`;
  const label = `${countOf(total, noun)} ${span}.${peak ? ` Peak: ${count(most)} in the hour from ${HOUR.format(peak.from * 1000)}.` : ""}`;
  return html`<${Sparkline} counts=${counts} time=${span} label=${label} />
    ${peak && html`<p class="hint">Most: ${count(most)} from ${HOUR.format(peak.from * 1000)}</p>`}`;
}

/** @param {{ part: NonNullable<State["index"]> }} props */
function Index({ part: { videos, publishedAt, seconds } }) {
  return html`<p class="figure"><strong>${formatRange(seconds)}</strong> <span class="hint">old</span>
      <${Mark} isGood=${seconds < LATE} good="Current" bad="Behind" /></p>
    <p class="hint">${countOf(videos, "video")}, published <${Time} at=${publishedAt * 1000} /></p>`;
}

/** @param {{ part: NonNullable<State["webhooks"]> }} props */
function Webhooks({ part: { behind, more, items } }) {
  if (!behind) return html`<${Empty} icon="circle-check">${more ? "The examined webhooks have delivered everything." : "All changes are delivered."}<//>`;
  return html`<p class="figure"><strong>${count(behind)}${more && " or more"}</strong> <span class="hint">with undelivered changes</span></p>
    <ul class="rows">${items.map((item) => html`<li key=${item.webhookId}>
      <a href=${hrefTo(["webhooks", item.webhookId])}><${UserText}>${item.webhookId.slice(0, 8)}<//></a>
      <span>${formatRange(item.seconds)} late</span>
      ${item.failingSince && html`<span class="hint">failing since ${time(item.failingSince)}</span>`}
    </li>`)}</ul>`;
}

/** @param {{ part: NonNullable<State["comparison"]> }} props */
function Comparison({ part: { at, repairs, outcomes, findings } }) {
  const { found = 0, busy = 0, unreadable = 0, repaired = 0 } = outcomes;
  const open = found + busy + unreadable;
  const rest = [busy && `${count(busy)} changed during the check`, unreadable && `${count(unreadable)} unreadable`, repaired && `${count(repaired)} repaired`];
  return html`<p class="figure"><strong>${count(open)}</strong> <span class="hint">${open === 1 ? "total disagrees" : "totals disagree"}</span>
      <${Mark} isGood=${!open} good="Agree" bad="Disagree" /></p>
    <p class="hint">Checked <${Time} at=${at * 1000} />. ${rest.filter(Boolean).join(", ")}</p>
    ${findings.length > 0 && html`<ul class="rows">${findings.map((finding) => html`<li key=${`${finding.kind} ${finding.id}`}>
      <span>${lookUp(KINDS, finding.kind) ?? finding.kind}</span> <${UserText}>${finding.id}<//> <span class="hint">${finding.outcome}</span>
    </li>`)}</ul>`}
    ${open > 0 && !repairs && html`<p class="hint">Correct them with <code>python -m tools reconcile --repair</code>.</p>`}`;
}

/** @param {{ part: NonNullable<State["queues"]>, state: State }} props */
function Queues({ part, state: { jobs } }) {
  const open = new Map(jobs?.map((each) => [each.queue, each]));
  return html`<div class="table" role="region" tabindex="0" aria-label="Messages by queue"><table>
      <thead><tr>
        <th scope="col">Queue</th><th scope="col" class="amount">Waiting</th><th scope="col" class="amount">In progress</th>
        <th scope="col" class="amount">Open jobs</th><th scope="col" class="amount">Oldest job</th><th scope="col" class="amount">Failed messages</th>
      </tr></thead>
      <tbody>${part.map(({ name, waiting, delayed, inFlight, deadLetters }) => {
        const job = open.get(name);
        return html`<tr key=${name}>
          <th scope="row">${lookUp(QUEUES, name) ?? name}</th><td class="amount">${count(waiting + delayed)}</td><td class="amount">${count(inFlight)}</td>
          <td class="amount">${job ? `${count(job.open)}${job.more ? "+" : ""}` : "–"}</td><td class="amount">${job ? formatRange(job.oldestSeconds) : "–"}</td>
          <td class="amount">${deadLetters ? html`<strong class="bad">${count(deadLetters)}</strong>` : 0}</td>
        </tr>`;
      })}</tbody>
    </table></div>
    <p class="hint">Numbers of messages are approximate. ${part.some(({ deadLetters }) => deadLetters) && html`<code>make redrive</code> shows failed messages and queues them again.`}</p>`;
}

/** Whether something is as it should be. @param {{ isGood: boolean, good: string, bad: string }} props */
function Mark({ isGood, good, bad }) {
  return html`<span class=${`status status-${isGood ? "ready" : "failed"}`}>${isGood ? good : bad}</span>`;
}
