// Components of the panels.

import { html } from "htm/preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { hrefTo } from "../core/route.js";
import { Failure, Icon, Loading, Poster, Time, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.operations;

/** @typedef {import("../design/parts.js").Children} Children */
/** @typedef {import("../core/api.js").Schemas["VideoSummary"]} Summary */

/** @param {{ title: string, refresh?: () => void, class?: string, children?: Children }} props */
export function Panel({ title, refresh, class: name = "", children }) {
  const id = useId();
  return html`<section class=${`panel ${name}`} aria-labelledby=${id}>
    <div class="panel-head">
      <h2 id=${id}>${title}</h2>
      ${refresh && html`<button type="button" class="quiet" aria-label=${TEXT.refreshPanel(title)} onClick=${refresh}><${Icon} name="refresh-cw" />${texts.common.refresh}</button>`}
    </div>
    ${children}
  </section>`;
}

/** Apply feed entries to a list of videos. Added and removed videos are offered by PendingChanges.
 *
 * `onJobsChanged` is called with the ids of the listed videos whose jobs changed.
 * @param {import("../screens/operations.js").PanelProps["changes"]} changes
 * @param {import("../core/load.js").Pages<Summary>} pages @param {(videoIds: string[]) => void} onJobsChanged */
export function usePendingChanges(changes, pages, onJobsChanged) {
  useEffect(() => {
    if (!changes || changes.some(({ type }) => type.startsWith("video."))) pages.check().catch(() => undefined); // the next change retries it
    const worked = new Set(changes?.flatMap(({ type, videoId = "" }) => (type.startsWith("job.") ? [videoId] : [])));
    onJobsChanged(pages.items.map(({ videoId }) => videoId).filter((videoId) => worked.has(videoId)));
  }, [changes]);
}

/** Button that loads the next page. Automatic loading would push the next panel away.
 * @template T
 * @param {{ pages: import("../core/load.js").Pages<T> }} props */
export function ShowMore({ pages }) {
  if (pages.error) return html`<${Failure} error=${pages.error} retry=${pages.items.length ? pages.more : pages.reload} />`;
  if (pages.isLoading) return html`<${Loading} />`;
  return pages.isDone ? null : html`<div class="actions"><button type="button" onClick=${pages.more}>${TEXT.showMore}</button></div>`;
}

/** List item of a video: poster, title and owner, with `children` below. `onVisible` is called once it is visible.
 * @param {{ video: Summary, onVisible?: () => void, children?: Children }} props */
export function VideoRow({ video, onVisible, children }) {
  const row = useRef(/** @type {HTMLElement | null} */ (null));
  useVisible(row, onVisible);
  return html`<li class="panel-row" ref=${row}>
    <${Poster} url=${video.poster} of=${video} />
    <div class="panel-text">
      <a class="title" href=${hrefTo(["videos", video.videoId])}><${UserText}>${video.title}<//></a>
      <p class="panel-facts">
        <span>${texts.common.byUser(html`<a href=${hrefTo(["operations"], { user: video.userId })}><${UserText}>${video.userId}<//></a>`)}</span>
        <span>${TEXT.created(html`<${Time} at=${video.createdAt * 1000} />`)}</span>
      </p>
      ${children}
    </div>
  </li>`;
}

/** Call `onVisible` once, when an element becomes visible. This avoids requests for rows outside the viewport.
 * @param {{ current: HTMLElement | null }} element @param {() => void} [onVisible] */
function useVisible(element, onVisible) {
  const latest = useRef(onVisible);
  latest.current = onVisible;
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      latest.current?.();
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
}

/** Bar of a chart. `value` is its length; `cells` are the table's cells in the order of its columns; `href` is the link of its name.
 * @typedef {{ key: string, name: string, href?: string | undefined, value: number, cells: string[] }} Bar */

/** Bar chart that can be switched to a table.
 * @param {{ caption: string, columns: string[], bars: Bar[] }} props */
export function Chart({ caption, columns, bars }) {
  const [isTable, setIsTable] = useState(false);
  const longest = Math.max(1, ...bars.map(({ value }) => value));
  const choice = (/** @type {string} */ name, /** @type {boolean} */ isIt) => html`<button type="button"
    aria-pressed=${isTable === isIt ? "true" : "false"} onClick=${() => setIsTable(isIt)}>${name}</button>`;
  const link = (/** @type {Bar} */ { name, href }) => {
    const text = html`<${UserText}>${name}<//>`;
    return href ? html`<a href=${href}>${text}</a>` : text;
  };
  return html`<div>
    <div class="chart-choice" role="group" aria-label=${TEXT.chartChoice(caption)}>${choice(TEXT.chart, false)}${choice(TEXT.table, true)}</div>
    ${isTable ? html`<div class="chart-table" tabindex="0" role="region" aria-label=${caption}><table>
        <caption>${caption}</caption>
        <thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
        <tbody>${bars.map((bar) => html`<tr key=${bar.key}>
          <th scope="row">${link(bar)}</th>
          ${bar.cells.map((cell) => html`<td>${cell}</td>`)}
        </tr>`)}</tbody>
      </table></div>` : html`<ol class="bars" aria-label=${caption}>
        ${bars.map((bar) => html`<li key=${bar.key}>
          <span class="bar-name">${link(bar)}</span>
          <span class="bar-line"><span class="bar" style=${{ width: `${Math.max(0, bar.value) / longest * 100}%` }}></span></span>
          <span class="bar-value">${bar.cells[0]}</span>
        </li>`)}
      </ol>`}
  </div>`;
}
