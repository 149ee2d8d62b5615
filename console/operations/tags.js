// The tags of published videos.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { count } from "../core/words.js";
import { Empty } from "../design/parts.js";
import { Chart, Panel, ShowMore } from "./panel.js";

const COLUMNS = ["Tag", "Videos"];

export default function Tags() {
  const pages = usePages(async (cursor, signal) => {
    const query = { limit: 20, cursor };
    return (await ask(api.GET("/v1/tags", { params: { query }, signal }))).data;
  }, []);
  const bars = pages.items.map(({ tag, count: videos }) => ({
    key: tag, name: tag, href: hrefTo([], { tag }), value: videos, cells: [count(videos)],
  }));
  return html`<${Panel} title="Tags" refresh=${pages.reload}>
    ${bars.length > 0 && html`<${Chart} caption="Published videos by tag" columns=${COLUMNS} bars=${bars} />`}
    ${pages.isDone && !bars.length && html`<${Empty}>No published videos have tags.<//>`}
    <${ShowMore} pages=${pages} />
  <//>`;
}
