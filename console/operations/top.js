// Most viewed videos.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { count, time } from "../core/formats.js";
import { Empty, Failure, Field, Loading } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { Chart, Panel } from "./panel.js";

const TEXT = texts.operations.top;
/** Labels, shared with the same lists of the library. */
const LABELS = texts.library.controls;

/** @typedef {import("../core/api.js").Schemas["TopVideo"]} TopVideo */
/** @typedef {"hour" | "day" | "week" | "month"} Span */
/** @typedef {"-views" | "-rise" | "-viewCount"} Sort */

/** @type {Span[]} */
const SPANS = ["hour", "day", "week", "month"];
/** Sort orders. `of` returns a video's numbers for `columns`, starting with the one that is sorted by.
 * @type {Record<Sort, { name: string, caption: string, columns: string[], of: (video: TopVideo) => number[] }>} */
const SORTS = {
  "-views": { name: LABELS.mostViews, caption: TEXT.mostViewsCaption, columns: [texts.fields.viewCount, TEXT.before, TEXT.rise, TEXT.ever], of: ({ views, viewsBefore, rise, viewCount }) => [views, viewsBefore, rise, viewCount] },
  "-rise": { name: LABELS.fastestRising, caption: TEXT.largestRiseCaption, columns: [TEXT.rise, texts.fields.viewCount, TEXT.before, TEXT.ever], of: ({ views, viewsBefore, rise, viewCount }) => [rise, views, viewsBefore, viewCount] },
  "-viewCount": { name: LABELS.mostViewsEver, caption: TEXT.mostViewsEverCaption, columns: [TEXT.ever, texts.fields.viewCount, TEXT.before, TEXT.rise], of: ({ views, viewsBefore, rise, viewCount }) => [viewCount, views, viewsBefore, rise] },
};

export default function Top() {
  const [span, setSpan] = useState("day");
  const [sort, setSort] = useState("-views");
  const [text, setText] = useState("");
  const [category, setCategory] = useState("");
  const loaded = useLoad(async (signal) => {
    const query = { window: /** @type {Span} */ (span), sort: /** @type {Sort} */ (sort), category: category || undefined };
    return (await ask(api.GET("/v1/top", { params: { query }, signal }))).data;
  }, [span, sort, category]);
  const { columns, of, caption } = SORTS[/** @type {Sort} */ (sort)];
  const bars = (loaded.value?.items ?? []).map((video) => {
    const numbers = of(video);
    return { key: video.videoId, name: video.title, href: hrefTo(["videos", video.videoId]), value: numbers[0] ?? 0, cells: numbers.map(count) };
  });
  const { value } = loaded;
  return html`<${Panel} title=${TEXT.title} refresh=${loaded.reload}>
    <form class="panel-form" onSubmit=${(/** @type {SubmitEvent} */ event) => event.preventDefault()}>
      <${Field} label=${texts.common.period} kind="select" value=${span} onInput=${setSpan}>
        ${SPANS.map((name) => html`<option value=${name}>${LABELS.windows[name]}</option>`)}
      <//>
      <${Field} label=${texts.common.sortBy} kind="select" value=${sort} onInput=${setSort}>
        ${Object.entries(SORTS).map(([key, { name: label }]) => html`<option value=${key}>${label}</option>`)}
      <//>
      <${Field} label=${texts.fields.category} value=${text} onInput=${setText} onChange=${() => setCategory(text.trim())} autocomplete="off" maxlength="100" />
    </form>
    ${loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />` : !value && html`<${Loading} />`}
    ${value && !loaded.error && html`
      ${bars.length ? html`<${Chart} caption=${caption} columns=${[texts.common.video, ...columns]} bars=${bars} />`
        : html`<${Empty}>${TEXT.none}<//>`}
      <p class="hint">${value.computedAt ? TEXT.computed(time(value.computedAt)) : TEXT.notComputed}</p>`}
  <//>`;
}
