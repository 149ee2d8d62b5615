// Overview of the service: totals, queues, the search index, webhooks, and causes of failures.
//
// One response contains all parts. Each part can be missing without affecting the others.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { useInterval, useLoad } from "../core/load.js";
import { lookUp } from "../core/lookup.js";
import { hrefTo } from "../core/route.js";
import { count, formatRange, size, time } from "../core/formats.js";
import { Empty, Failure, Icon, ShortId, Status, Time, UserText } from "../design/parts.js";
import { Sparkline } from "../design/sparkline.js";
import { texts } from "../texts/index.js";
import Causes from "./causes.js";
import { Panel } from "./panel.js";

const TEXT = texts.operations.overview;

/** @typedef {import("../core/api.js").Schemas["OperationsState"]} State */

const PAUSE_MS = 30_000;
/** Seconds after which the index or a webhook counts as late, the same as in the alarms. */
const LATE = 600;
const HOUR = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "numeric", minute: "2-digit" });
/** @type {["ready", "processing", "uploaded", "failed", "deleted"]} */
const STATUSES = ["ready", "processing", "uploaded", "failed", "deleted"];
/** Labels of queues. @type {Record<string, string>} */
const QUEUES = TEXT.queues;
/** Labels of the compared kinds. @type {Record<string, string>} */
const KINDS = TEXT.compared;
/** Labels of the outcomes of a comparison. @type {Record<string, string>} */
const OUTCOMES = TEXT.outcomes;

export default function Overview() {
  const loaded = useLoad(async (signal) => (await ask(api.GET("/v1/operations", { signal }))).data, []);
  useInterval(loaded.reload, PAUSE_MS, true);
  const { value: state, error, reload } = loaded;
  return html`
    <div class="overview-head">
      <p class="hint">${state ? TEXT.updated(html`<${Time} at=${state.at * 1000} />`) : !error && TEXT.loading}</p>
      <button type="button" class="quiet" onClick=${reload}><${Icon} name="refresh-cw" />${texts.common.refresh}</button>
    </div>
    <${Failure} error=${error} retry=${reload} />
    ${(state || !error) && html`<div class="tiles">
      <${Part} title=${texts.common.videos} state=${state} name="totals" draw=${Videos} />
      <${Part} title=${TEXT.uploads} state=${state} name="totals" draw=${Uploads} />
      <${Part} title=${texts.fields.viewCount} state=${state} name="views" draw=${Views} none=${TEXT.notRanked} />
      <${Part} title=${TEXT.searchIndex} state=${state} name="index" draw=${Index} none=${TEXT.noIndex} />
      <${Part} title=${TEXT.lateWebhooks} state=${state} name="webhooks" draw=${Webhooks} />
      <${Part} title=${TEXT.totalsCheck} state=${state} name="comparison" draw=${Comparison} none=${NEVER_CHECKED} />
      <${Part} title=${TEXT.queuesTitle} state=${state} name="queues" draw=${Queues} class="tile-wide" />
      <${Part} title=${TEXT.causesTitle} state=${state} name="failures" draw=${Causes} class="tile-wide" reload=${reload} />
    </div>`}`;
}

const NEVER_CHECKED = TEXT.neverChecked(html`<code>python -m tools reconcile</code>`);

/** One part of the state, or the reason why it is missing. `none` is the text for a part that does not exist yet.
 * @param {{ title: string, state: State | null, name: Exclude<keyof State, "at" | "unavailable">, draw: (props: any) => unknown, none?: unknown,
 *   class?: string, reload?: () => void }} props */
function Part({ title, state, name, draw, none, class: kind = "", reload }) {
  const part = state?.[name];
  return html`<${Panel} title=${title} class=${`tile ${kind}`}>
    ${!state ? html`<div class="skeleton" aria-hidden="true"><span>${"\u00a0"}</span><span>${"\u00a0"}</span><span>${"\u00a0"}</span></div>`
      : part ? html`<${draw} part=${part} state=${state} reload=${reload} />`
        : state.unavailable.includes(name) ? html`<p class="hint"><${Icon} name="circle-alert" /> ${TEXT.unavailable}</p>`
          : html`<p class="hint">${none}</p>`}
  <//>`;
}

/** @param {{ part: NonNullable<State["totals"]> }} props */
function Videos({ part: { videos, bytes, duration: length } }) {
  return html`<p class="figure"><strong>${count(videos.total)}</strong> <span class="hint">${TEXT.amount(size(bytes), Math.round(length / 3_600_000))}</span></p>
    <ul class="statuses">${STATUSES.map((status) => html`<li key=${status}>
      <a href=${hrefTo([], { status })}><${Status} of=${status} /></a><span class="amount">${count(videos[status])}</span>
    </li>`)}</ul>`;
}

/** @param {{ part: NonNullable<State["totals"]> }} props */
function Uploads({ part: { uploads } }) {
  return html`<${TimeSeries} hours=${uploads} label=${TEXT.files} />`;
}

/** @param {{ part: NonNullable<State["views"]> }} props */
function Views({ part: { hours, computedAt } }) {
  return html`<${TimeSeries} hours=${hours} label=${texts.common.views} /><p class="hint">${TEXT.computed(html`<${Time} at=${computedAt * 1000} />`)}</p>`;
}

/** @param {{ hours: { from: number, count: number }[], label: (number: number) => string }} props */
function TimeSeries({ hours, label: numberOf }) {
  const counts = hours.map((hour) => hour.count);
  const total = counts.reduce((sum, value) => sum + value, 0);
  const most = Math.max(0, ...counts);
  const peak = hours.find((hour) => hour.count === most && most > 0);
  const label = peak ? TEXT.courseWithPeak(numberOf(total), hours.length, most, HOUR.format(peak.from * 1000)) : TEXT.course(numberOf(total), hours.length);
  return html`<${Sparkline} counts=${counts} time=${TEXT.span(hours.length)} label=${label} />
    ${peak && html`<p class="hint">${TEXT.most(most, HOUR.format(peak.from * 1000))}</p>`}`;
}

/** @param {{ part: NonNullable<State["index"]> }} props */
function Index({ part: { videos, publishedAt, seconds } }) {
  return html`<p class="figure"><strong>${formatRange(seconds)}</strong> <span class="hint">${TEXT.old}</span>
      <${Badge} isGood=${seconds < LATE} good=${TEXT.current} bad=${TEXT.behind} /></p>
    <p class="hint">${TEXT.published(videos, html`<${Time} at=${publishedAt * 1000} />`)}</p>`;
}

/** @param {{ part: NonNullable<State["webhooks"]> }} props */
function Webhooks({ part: { behind, more, items } }) {
  if (!behind) return html`<${Empty} icon="circle-check">${more ? TEXT.noneExaminedLate : TEXT.allDelivered}<//>`;
  return html`<p class="figure"><strong>${more ? TEXT.orMore(behind) : count(behind)}</strong> <span class="hint">${TEXT.undelivered}</span></p>
    <ul class="rows">${items.map((item) => html`<li key=${item.webhookId}>
      <a href=${hrefTo(["webhooks", item.webhookId])}><${ShortId} id=${item.webhookId} /></a>
      <span>${TEXT.late(formatRange(item.seconds))}</span>
      ${item.failingSince && html`<span class="hint">${TEXT.failingSince(time(item.failingSince))}</span>`}
    </li>`)}</ul>`;
}

/** @param {{ part: NonNullable<State["comparison"]> }} props */
function Comparison({ part: { at, repairs, outcomes, findings } }) {
  const { found = 0, busy = 0, unreadable = 0, repaired = 0 } = outcomes;
  const open = found + busy + unreadable;
  const rest = [busy && TEXT.changedMeanwhile(busy), unreadable && TEXT.unreadable(unreadable), repaired && TEXT.repaired(repaired)];
  return html`<p class="figure"><strong>${count(open)}</strong> <span class="hint">${TEXT.disagree(open)}</span>
      <${Badge} isGood=${!open} good=${TEXT.agree} bad=${TEXT.disagreeMark} /></p>
    <p class="hint">${TEXT.checked(html`<${Time} at=${at * 1000} />`)} ${rest.filter(Boolean).join(", ")}</p>
    ${findings.length > 0 && html`<ul class="rows">${findings.map((finding) => html`<li key=${`${finding.kind} ${finding.id}`}>
      <span>${lookUp(KINDS, finding.kind) ?? finding.kind}</span> <${UserText}>${finding.id}<//> <span class="hint">${lookUp(OUTCOMES, finding.outcome) ?? finding.outcome}</span>
    </li>`)}</ul>`}
    ${open > 0 && !repairs && html`<p class="hint">${TEXT.repair(html`<code>python -m tools reconcile --repair</code>`)}</p>`}`;
}

/** @param {{ part: NonNullable<State["queues"]>, state: State }} props */
function Queues({ part, state: { jobs } }) {
  const open = new Map(jobs?.map((each) => [each.queue, each]));
  return html`<div class="table" role="region" tabindex="0" aria-label=${TEXT.messages}><table>
      <thead><tr>
        <th scope="col">${TEXT.columns.queue}</th><th scope="col" class="amount">${TEXT.columns.waiting}</th><th scope="col" class="amount">${TEXT.columns.inProgress}</th>
        <th scope="col" class="amount">${TEXT.columns.open}</th><th scope="col" class="amount">${TEXT.columns.oldest}</th><th scope="col" class="amount">${TEXT.columns.failed}</th>
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
    <p class="hint">${TEXT.approximate} ${part.some(({ deadLetters }) => deadLetters) && TEXT.redrive(html`<code>make redrive</code>`)}</p>`;
}

/** Badge of a good or bad state. @param {{ isGood: boolean, good: string, bad: string }} props */
function Badge({ isGood, good, bad }) {
  return html`<span class=${`status status-${isGood ? "ready" : "failed"}`}>${isGood ? good : bad}</span>`;
}
