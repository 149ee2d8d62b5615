// Library as a table, with the columns that the user selected.

import { html } from "htm/preact";
import { hrefTo, navigate } from "../core/route.js";
import { count, duration } from "../core/formats.js";
import { Icon, Poster, Status, Time, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { hasOrders, sortOf, withOrder } from "./filters.js";
import { Select } from "./grid.js";
import { COLUMNS } from "./view.js";

const TEXT = texts.library.table;

/** @typedef {import("../screens/library.js").Summary} Summary */

/** @type {Record<string, (video: Summary) => unknown>} */
const CELLS = {
  status: ({ status }) => html`<${Status} of=${status} />`,
  visibility: ({ visibility }) => html`<${Status} of=${visibility} />`,
  created: ({ createdAt }) => html`<${Time} at=${createdAt * 1000} />`,
  duration: (video) => (video.duration === undefined ? "" : duration(video.duration)),
  views: ({ views, viewCount }) => (views ?? viewCount) === undefined ? "" : count(views ?? viewCount ?? 0),
  category: ({ category }) => category && html`<a href=${hrefTo([], { category })}><${UserText}>${category}<//></a>`,
  owner: ({ userId }) => html`<${UserText}>${userId}<//>`,
};
const NUMBERS = ["duration", "views"];
/** Sortable columns, with the API's name of each sort field. @type {Record<string, string>} */
const SORTS = { created: "createdAt", title: "title", duration: "duration", views: "viewCount" };

/** @param {{ items: Summary[], columns: string[], choice: import("./filters.js").Choice, selection: import("./selection.js").Selection,
 *   onOpen: (videoId: string) => void }} props */
export default function Table({ items, columns, choice, selection, onOpen }) {
  if (!items.length) return null;
  const shown = Object.keys(COLUMNS).filter((name) => columns.includes(name));
  const isAscending = choice.values.order === "asc";
  const sorted = choice.kind === "top" ? "" : sortOf(choice);
  const sortable = choice.kind === "top" ? [] : hasOrders(choice) ? Object.keys(SORTS) : ["created"];
  /** Sort by a column, or reverse its order: titles ascending first, all others descending. @param {string} name */
  const sort = (name) => navigate(withOrder(choice, SORTS[name] ?? "", SORTS[name] === sorted ? !isAscending : name === "title"));
  /** Return the heading of a column. @param {string} name @param {string | undefined} label */
  const heading = (name, label) => html`<th scope="col" key=${name} class=${NUMBERS.includes(name) ? "amount" : ""}
    aria-sort=${!sorted || SORTS[name] !== sorted ? undefined : isAscending ? "ascending" : "descending"}>
    ${sortable.includes(name) ? html`<button type="button" class="quiet" onClick=${() => sort(name)}>${label}
      ${SORTS[name] === sorted && html`<${Icon} name=${isAscending ? "arrow-up" : "arrow-down"} />`}</button>` : label}</th>`;
  return html`<div class="table library-table" role="region" aria-label=${texts.common.videos} tabindex="0"><table>
    <thead><tr>
      <th scope="col"><input type="checkbox" aria-label=${TEXT.selectAll} checked=${selection.isAll} indeterminate=${selection.selected.length > 0 && !selection.isAll}
        onChange=${selection.all} /></th>
      ${heading("title", texts.common.video)}
      ${shown.map((name) => heading(name, COLUMNS[name]))}
    </tr></thead>
    <tbody>${items.map((video) => html`<tr key=${video.videoId} aria-selected=${selection.has(video.videoId) ? "true" : undefined}>
      <td><${Select} video=${video} selection=${selection} /></td>
      <th scope="row"><a href=${hrefTo(["videos", video.videoId])} onClick=${() => onOpen(video.videoId)}>
        <${Poster} url=${video.poster} of=${video} /><${UserText} class="title">${video.title}<//></a></th>
      ${shown.map((name) => html`<td key=${name} class=${NUMBERS.includes(name) ? "amount" : ""}>${CELLS[name]?.(video)}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}
