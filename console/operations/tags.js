// Tags of published videos.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { count } from "../core/formats.js";
import { Empty } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { Chart, Panel, ShowMore } from "./panel.js";

const TEXT = texts.operations.tags;

const COLUMNS = [TEXT.tag, texts.common.videos];

export default function Tags() {
  const pages = usePages(async (cursor, signal) => {
    const query = { limit: 20, cursor };
    return (await ask(api.GET("/v1/tags", { params: { query }, signal }))).data;
  }, []);
  const bars = pages.items.map(({ tag, count: videos }) => ({
    key: tag, name: tag, href: hrefTo([], { tag }), value: videos, cells: [count(videos)],
  }));
  return html`<${Panel} title=${texts.fields.tags} refresh=${pages.reload}>
    ${bars.length > 0 && html`<${Chart} caption=${TEXT.caption} columns=${COLUMNS} bars=${bars} />`}
    ${pages.isDone && !bars.length && html`<${Empty}>${TEXT.none}<//>`}
    <${ShowMore} pages=${pages} />
  <//>`;
}
