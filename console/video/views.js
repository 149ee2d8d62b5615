// Views of a video for its owner: the total with a sparkline, and collapsed below it a table and the reasons of excluded views.

import { html } from "htm/preact";
import { useId, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { asSentence, count, date, duration } from "../core/formats.js";
import { Failure, Icon, Loading } from "../design/parts.js";
import { Sparkline } from "../design/sparkline.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.views;

/**
 * @typedef {import("../core/api.js").Schemas["ViewHistory"]} History
 * @typedef {History["items"][number]} Bucket
 * @typedef {"hour" | "day"} Granularity
 */

const HOUR = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "numeric", minute: "2-digit" });
const SPANS = TEXT.spans;

/** @param {{ video: import("../screens/video.js").Video }} props */
export default function Views({ video: { videoId } }) {
  const [granularity, setGranularity] = useState(/** @type {Granularity} */ ("day"));
  const [isOpen, setOpen] = useState(false);
  const name = useId();
  const history = useLoad(async (signal) => {
    const query = { granularity, tz: Intl.DateTimeFormat().resolvedOptions().timeZone };
    return (await ask(api.GET("/v1/videos/{videoId}/views", { params: { path: { videoId }, query }, signal }))).data;
  }, [videoId, granularity]);
  return html`<section class="views">
    <div class="above">
      <h2>${texts.fields.viewCount}</h2>
      <fieldset class="spans">
        <legend class="visually-hidden">${TEXT.time}</legend>
        ${Object.entries(SPANS).map(([value, label]) => html`<label>
          <input type="radio" class="visually-hidden" name=${name} checked=${value === granularity} onChange=${() => setGranularity(/** @type {Granularity} */ (value))} />
          <span>${label}</span>
        </label>`)}
      </fieldset>
    </div>
    <${Failure} error=${history.error} retry=${history.reload} />
    <div class="time-series">${history.value ? html`<${TimeSeries} history=${history.value} />` : history.isLoading && html`<${Loading} what=${TEXT.loading} />`}</div>
    <details class="folded" onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
      <summary>${TEXT.excluded}</summary>
      ${isOpen && html`<${ExcludedViews} videoId=${videoId} />`}
      ${isOpen && history.value && history.value.total > 0 && html`<${Table} history=${history.value} />`}
      <button type="button" class="quiet" onClick=${history.reload}><${Icon} name="refresh-cw" />${texts.common.refresh}</button>
    </details>
  </section>`;
}

/** Total and sparkline of a period. @param {{ history: History }} props */
function TimeSeries({ history: { items, granularity, total } }) {
  const most = Math.max(1, ...items.map(({ views }) => views));
  const peak = items.find(({ views }) => views === most);
  if (!total) return html`<p class="hint">${TEXT.none(SPANS[granularity])}</p>`;
  const summary = peak ? TEXT.summaryWithPeak(total, SPANS[granularity], count(most), formatBucket(peak, granularity)) : TEXT.summary(total, SPANS[granularity]);
  return html`<${Sparkline} counts=${items.map(({ views }) => views)} time=${TEXT.inTheLast(SPANS[granularity])} label=${summary} />`;
}

/** @param {{ history: History }} props */
function Table({ history: { items, granularity } }) {
  const isWatched = items.some(({ watchedMs }) => watchedMs > 0);
  return html`<div class="table" role="region" tabindex="0" aria-label=${TEXT.byTime}><table>
    <thead><tr>
      <th scope="col">${granularity === "hour" ? TEXT.hour : TEXT.day}</th><th scope="col" class="amount">${texts.fields.viewCount}</th>
      ${isWatched && html`<th scope="col" class="amount">${TEXT.watched}</th>`}
    </tr></thead>
    <tbody>${[...items].reverse().map((bucket) => html`<tr key=${bucket.from}>
      <th scope="row">${formatBucket(bucket, granularity)}</th><td class="amount">${count(bucket.views)}</td>
      ${isWatched && html`<td class="amount">${duration(bucket.watchedMs)}</td>`}
    </tr>`)}</tbody>
  </table></div>`;
}

/** Views of the last day that were not counted, by reason. @param {{ videoId: string }} props */
function ExcludedViews({ videoId }) {
  const { value, error, isLoading, reload } = useLoad(
    async (signal) => (await ask(api.GET("/v1/videos/{videoId}/views/explain", { params: { path: { videoId } }, signal }))).data, [videoId],
  );
  if (!value) return error ? html`<${Failure} error=${error} retry=${reload} />` : isLoading && html`<${Loading} />`;
  const { counted: did, notCounted, rules } = value;
  const broken = rules.filter(({ rule }) => notCounted[rule] > 0);
  return html`<div class="explained">
    <p>${notCounted.total ? TEXT.countedSome(did.total, notCounted.total) : TEXT.countedAll(did.total)}</p>
    ${broken.length > 0 && html`<ul>${broken.map(({ rule, because }) => html`<li key=${rule}>${count(notCounted[rule])}: ${asSentence(because)}</li>`)}</ul>`}
  </div>`;
}

/** @param {Bucket} bucket @param {Granularity} granularity */
function formatBucket({ from }, granularity) {
  return granularity === "hour" ? HOUR.format(from * 1000) : date(from);
}
