// Who watched the video, for its owner: by hour or day as bars and as a table, and what did not count.

import { html } from "htm/preact";
import { useId, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { count, countOf, date, duration } from "../core/words.js";
import { Failure, Loading } from "../design/parts.js";

/**
 * @typedef {import("../core/api.js").Schemas["ViewHistory"]} History
 * @typedef {import("../core/api.js").Schemas["ViewExplanation"]} Explanation
 * @typedef {History["items"][number]} Bucket
 * @typedef {"hour" | "day"} Granularity
 */

const HOUR = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "numeric", minute: "2-digit" });
const SPANS = { hour: "24 hours", day: "30 days" };
const HEIGHT = 100;
const WIDTH = 300;

/** @param {{ video: import("../screens/video.js").Video }} props */
export default function Views({ video: { videoId } }) {
  const [granularity, setGranularity] = useState(/** @type {Granularity} */ ("day"));
  const name = useId();
  const path = { videoId };
  const history = useLoad(async (signal) => {
    const query = { granularity, tz: Intl.DateTimeFormat().resolvedOptions().timeZone };
    return (await ask(api.GET("/v1/videos/{videoId}/views", { params: { path, query }, signal }))).data;
  }, [videoId, granularity]);
  const explanation = useLoad(
    async (signal) => (await ask(api.GET("/v1/videos/{videoId}/views/explain", { params: { path }, signal }))).data, [videoId],
  );
  const again = () => {
    history.reload();
    explanation.reload();
  };
  return html`<section class="views">
    <h2>Views</h2>
    <fieldset class="spans">
      <legend class="unseen">Time</legend>
      ${Object.entries(SPANS).map(([value, label]) => html`<label>
        <input type="radio" name=${name} checked=${value === granularity} onChange=${() => setGranularity(/** @type {Granularity} */ (value))} />
        ${label}
      </label>`)}
    </fieldset>
    <${Failure} error=${history.error ?? explanation.error} retry=${again} />
    <div class="chart">
      ${history.value ? html`<${Bars} history=${history.value} />` : history.isLoading && html`<${Loading} what="Loading views" />`}
    </div>
    ${history.value && history.value.total > 0 && html`<${Table} history=${history.value} />`}
    ${explanation.value && html`<${Explained} explanation=${explanation.value} />`}
    <button type="button" onClick=${again}>Refresh</button>
  </section>`;
}

/** @param {{ history: History }} props */
function Bars({ history: { items, granularity, total } }) {
  if (!total) return html`<p class="none">No views in the last ${SPANS[granularity]}.</p>`;
  const most = Math.max(1, ...items.map(({ views }) => views));
  const step = WIDTH / items.length;
  const [first, last] = [items[0], items.at(-1)];
  const peak = items.find(({ views }) => views === most);
  const summary = `${countOf(total, "view")} in the last ${SPANS[granularity]}.${peak ? ` Peak: ${count(most)}, ${when(peak, granularity)}.` : ""}`;
  return html`<figure>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT + 1}`} role="img" aria-label=${summary} preserveAspectRatio="none">
      ${items.map(({ views }, index) => {
        const height = views ? Math.max(2, (HEIGHT * views) / most) : 0;
        return html`<rect x=${index * step + step * 0.1} y=${HEIGHT - height} width=${step * 0.8} height=${height} />`;
      })}
      <line x1="0" x2=${WIDTH} y1=${HEIGHT} y2=${HEIGHT} />
    </svg>
    <figcaption>
      <span>${first && when(first, granularity)}</span>
      <strong>${countOf(total, "view")}</strong>
      <span>${last && when(last, granularity)}</span>
    </figcaption>
  </figure>`;
}

/** @param {{ history: History }} props */
function Table({ history: { items, granularity } }) {
  const isWatched = items.some(({ watchedMs }) => watchedMs > 0);
  return html`<details class="folded">
    <summary>Show as table</summary>
    <table>
      <thead><tr>
        <th scope="col">${granularity === "hour" ? "Hour from" : "Day"}</th><th scope="col">Views</th>
        ${isWatched && html`<th scope="col">Watched</th>`}
      </tr></thead>
      <tbody>${[...items].reverse().map((bucket) => html`<tr key=${bucket.from}>
        <th scope="row">${when(bucket, granularity)}</th><td>${count(bucket.views)}</td>
        ${isWatched && html`<td>${duration(bucket.watchedMs)}</td>`}
      </tr>`)}</tbody>
    </table>
  </details>`;
}

/** @param {{ explanation: Explanation }} props */
function Explained({ explanation: { counted: did, notCounted, rules } }) {
  const broken = rules.filter(({ rule }) => notCounted[rule] > 0);
  return html`<div class="explained">
    <p>Last 24 hours: ${countOf(did.total, "view")} counted, ${notCounted.total ? `${count(notCounted.total)} excluded:` : "none excluded."}</p>
    ${broken.length > 0 && html`<ul>${broken.map(({ rule, because }) => html`<li key=${rule}>${count(notCounted[rule])}: ${because}</li>`)}</ul>`}
  </div>`;
}

/** @param {Bucket} bucket @param {Granularity} granularity */
function when({ from }, granularity) {
  return granularity === "hour" ? HOUR.format(from * 1000) : date(from);
}
