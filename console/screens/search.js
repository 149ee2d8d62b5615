// Search results. The search text is typed in the header; text and filters are in the URL.

import { html } from "htm/preact";
import { useMemo, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useInterval, usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { formatClock, duration, time } from "../core/formats.js";
import { Empty, Failure, Icon, Loading, LoadMore, Poster, Time, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName } from "../video/names.js";

const TEXT = texts.search;

/**
 * @typedef {import("../core/api.js").Schemas["FoundVideo"]} Found
 * @typedef {import("../core/api.js").Schemas["Facets"]} Facets
 * @typedef {{ q: string, category: string, tag: string }} Choice
 */

const PAGE = 25;
const MAX_SHOWN = 12;
/** Milliseconds between two searches while the index is behind. */
const POLL_MS = 2000;
/** Titles of the facets that can be selected, by query parameter. @type {Record<"category" | "tag", string>} */
const CHOICES = { category: TEXT.categories, tag: texts.fields.tags };

/** @param {{ route: import("../core/route.js").Route }} props */
export default function Search({ route }) {
  const choice = useMemo(() => parseChoices(route.query), [route]);
  return html`<h1 tabindex="-1">${TEXT.title}</h1>
    <p class="hint search-help">${TEXT.help}</p>
    ${choice.q.trim() ? html`<${Results} key=${address(choice)} choice=${choice} />` : html`<${Empty} icon="search"><p>${TEXT.empty}</p><//>`}`;
}

/** @param {{ choice: Choice }} props */
function Results({ choice }) {
  const [about, setAbout] = useState(/** @type {{ total: number, complete: boolean, asOf: number, facets: Facets } | null} */ (null));
  const pages = usePages(async (cursor, signal) => {
    const { q, category, tag } = choice;
    const query = { q, category: category || undefined, tag: tag || undefined, limit: PAGE, cursor };
    const facets = /** @type {("category" | "tag" | "year")[]} */ (cursor ? [] : ["category", "tag", "year"]);
    const { data } = await ask(api.GET("/v1/search", { params: { query: { ...query, facets: facets.length ? facets : undefined } }, signal }));
    if (!cursor) setAbout({ total: data.total, complete: data.complete, asOf: data.asOf, facets: data.facets ?? {} });
    return { items: /** @type {Found[]} */ (data.items), nextCursor: data.nextCursor };
  }, [], { key: ({ video }) => video.videoId });
  // A new instance of the search function returns 503 until it has read recent changes.
  const isRefused = pages.error instanceof Problem && pages.error.status === 503;
  const poll = () => {
    if (isRefused) pages.more(); // repeats the request
    else if (pages.items.length <= PAGE) pages.reload();
    else void pages.check().catch(() => undefined); // a reload would discard further pages
  };
  const isBehind = isRefused || (about !== null && !about.complete && !pages.error);
  useInterval(poll, POLL_MS, isBehind && !pages.isLoading);
  if (!about) {
    const fault = pages.error instanceof Problem ? pages.error.on("q") : undefined; // a retry cannot help
    return fault ? html`<p class="fault" role="alert">${fault}</p>` : pages.error && !isRefused ? html`<${Failure} error=${pages.error} retry=${pages.reload} />` : html`<${Loading} what=${TEXT.searching} />`;
  }
  const { total, complete, asOf, facets } = about;
  return html`<p class="hint tally" role="status">${texts.common.asOf(total ? texts.common.videoCount(total) : texts.common.noVideos, time(asOf / 1000))}</p>
    ${!complete && html`<p class="notice" role="status">${TEXT.indexBehind}</p>`}
    <div class="found">
      <${Choices} choice=${choice} facets=${facets} />
      <div>
        ${!total && html`<${Empty} icon="search"><p>${TEXT.noMatch}</p><//>`}
        <ol class="results" aria-label=${texts.common.videos}>
          ${pages.items.map((item) => html`<li key=${item.video.videoId}><${Result} ...${item} /></li>`)}
        </ol>
        <${LoadMore} pages=${pages} />
      </div>
    </div>`;
}

/** Facets: values of the found videos, with counts. @param {{ choice: Choice, facets: Facets }} props */
function Choices({ choice, facets }) {
  const years = facets.year ?? [];
  return html`<nav class="facets" aria-label=${texts.library.controls.filters}>
    ${/** @type {["category" | "tag", string][]} */ (Object.entries(CHOICES)).map(([name, title]) => {
      const values = (facets[name] ?? []).slice(0, MAX_SHOWN);
      if (!values.length && !choice[name]) return null;
      return html`<section><h2>${title}</h2><ul>
        ${choice[name] && html`<li><a class="button" href=${address({ ...choice, [name]: "" })} aria-label=${TEXT.removeFilter(choice[name])}><${UserText}>${choice[name]}<//><${Icon} name="x" /></a></li>`}
        ${!choice[name] && values.map(({ value, count }) => html`<li>
          <a href=${address({ ...choice, [name]: String(value) })}><${UserText}>${value}<//></a> <span class="hint">${count}</span>
        </li>`)}
      </ul></section>`;
    })}
    ${years.length > 0 && html`<section><h2>${TEXT.years}</h2><ul>${years.slice(0, MAX_SHOWN).map(({ value, count }) => html`<li>${value} <span class="hint">${count}</span></li>`)}</ul></section>`}
  </nav>`;
}

/** @param {Found} props */
function Result({ video, highlights = [], quote }) {
  const title = highlights.find(({ field }) => field === "title");
  const others = highlights.filter(({ field }) => field !== "title");
  return html`<article class="result">
    <a class="frame" href=${hrefTo(["videos", video.videoId])} tabindex="-1" aria-hidden="true">
      <${Poster} url=${video.poster} of=${video} />
      ${video.duration !== undefined && html`<span class="length">${duration(video.duration)}</span>`}
    </a>
    <div>
      <h2><a href=${hrefTo(["videos", video.videoId])}><${UserText}>${title ? highlight(title.text, title.ranges) : video.title}<//></a></h2>
      <p class="hint"><${UserText}>${video.userId}<//> · <${Time} at=${video.createdAt * 1000} /></p>
      ${quote && html`<p><a class="quote" href=${hrefTo(["videos", video.videoId], { t: String(quote.start / 1000), captions: quote.language })}>
        <span class="at">${formatClock(quote.start)}</span> <q lang=${quote.language}><${UserText}>${highlight(quote.text, quote.ranges)}<//></q>
        <span class="hint"> ${languageName(quote.language)}</span></a></p>`}
      ${others.map(({ field, text, ranges }) => html`<p><span class="visually-hidden">${field}: </span><${UserText}>${highlight(text, ranges)}<//></p>`)}
    </div>
  </article>`;
}

/** Mark the matching ranges of a text. The API counts code points, JavaScript strings count UTF-16 units.
 * @param {string} text @param {number[][]} ranges */
export function highlight(text, ranges) {
  const characters = [...text];
  let at = 0;
  const parts = ranges.flatMap(([start = 0, end = 0]) => {
    const before = characters.slice(at, start).join("");
    at = end;
    return [before, html`<mark>${characters.slice(start, end).join("")}</mark>`];
  });
  return [...parts, characters.slice(at).join("")];
}

/** @param {URLSearchParams} query @returns {Choice} */
function parseChoices(query) {
  return { q: query.get("q") ?? "", category: query.get("category") ?? "", tag: query.get("tag") ?? "" };
}

/** @param {Choice} choice */
function address(choice) {
  return hrefTo(["search"], choice);
}
