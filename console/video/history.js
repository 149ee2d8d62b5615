// History of a video: the timeline of its entries, past versions, and the comparison of two versions.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useInterval, usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Empty, Icon, LoadMore } from "../design/parts.js";
import { listEntries } from "../history/requests.js";
import Compare, { VersionForm, AsOfForm } from "../history/compare.js";
import { keyOf, Timeline } from "../history/entries.js";
import Revert from "../history/revert.js";
import PastVideo from "../history/past-video.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.history;

/** @typedef {import("../screens/video.js").PartProps} PartProps @typedef {import("../history/requests.js").Entry} Entry */

const PERIOD_MS = 1500;
/** Number of polls for the entry of the current version after which only every tenth is sent. */
const FAST_POLLS = 20;

/** Maximum number of fields in a revert request. */
const MAX_FIELDS = 100;

/** @param {PartProps} props */
export default function History(props) {
  const { video, etag, route, changed } = props;
  const [wanted, setWanted] = useState(/** @type {import("../history/revert.js").RevertRequest | null} */ (null));
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  const [version, asOf, from, until] = ["version", "asOf", "from", "to"].map((name) => parseNumber(route.query.get(name)));
  const place = `${version} ${asOf} ${from} ${until}`;
  const last = useRef(place);
  useLayoutEffect(() => {
    if (last.current === place) return;
    last.current = place;
    panel.current?.querySelector("h2")?.focus(); // the link that had the focus was removed
  }, [place]);
  return html`<div class="history" ref=${panel}>
    ${version || asOf ? html`<${PastVideo} key=${place} video=${video} version=${version} asOf=${asOf} onRevert=${setWanted} />`
      : from ? html`<${Compare} key=${place} video=${video} from=${from} until=${until} onRevert=${setWanted} />`
        : html`<${Entries} video=${video} onRevert=${setWanted} />`}
    ${wanted && html`<${Revert} video=${video} etag=${etag} changed=${changed} wanted=${wanted} onClose=${() => setWanted(null)} />`}
  </div>`;
}

/** @param {string | null} text */
function parseNumber(text) {
  return text && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined;
}

/** @param {{ video: PartProps["video"], onRevert: (wanted: import("../history/revert.js").RevertRequest) => void }} props */
function Entries({ video: { videoId, version }, onRevert }) {
  const [order, setOrder] = useState(/** @type {"desc" | "asc"} */ ("desc"));
  /** Selected versions, at most two, the latest selection last. */
  const [picked, setPicked] = useState(/** @type {number[]} */ ([]));
  /** Number of polls for the entry of a version. */
  const polls = useRef({ version, number: 0 });
  if (polls.current.version !== version) polls.current = { version, number: 0 };
  const shown = useRef(order);
  shown.current = order;
  const read = (/** @type {string | undefined} */ cursor, /** @type {AbortSignal | undefined} */ signal) =>
    listEntries(videoId, { limit: 25, order, cursor }, signal);
  const pages = usePages(read, [videoId, order]);

  // The entry of a change appears after a short delay.
  const isBehind = order === "desc" && !pages.isLoading && !pages.error
    && !pages.items.some(({ entity, version: made = 0 }) => entity === "video" && made >= version);
  useInterval(() => {
    const number = ++polls.current.number;
    if (number > FAST_POLLS && number % 10) return;
    read(undefined, undefined).then(({ items }) => shown.current === order && pages.change((before) => {
      const known = new Set(before.map(keyOf));
      return [...items.filter((entry) => !known.has(keyOf(entry))), ...before];
    }), () => undefined); // the next poll retries
  }, PERIOD_MS, isBehind);

  const pick = (/** @type {number} */ number) =>
    setPicked(picked.includes(number) ? picked.filter((other) => other !== number) : [...picked.slice(-1), number]);
  const more = (/** @type {Entry} */ { entity, version: made, changes, by }) => entity === "video" && made && html`
    <span class="version">${TEXT.version(made)}</span>
    ${by.id !== "unknown" && html`
      <a href=${hrefTo(["videos", videoId], { tab: "history", version: String(made) })} aria-label=${TEXT.viewVersion(made)}>${TEXT.view}</a>
      ${made === 1 ? made < version && html`<button type="button" class="quiet" aria-label=${TEXT.revertToVersion(1)} onClick=${() => onRevert({ toVersion: 1 })}><${Icon} name="undo-2" />${TEXT.revertToThis}</button>`
        : changes.length > 0 && changes.length <= MAX_FIELDS && html`<button type="button" class="quiet" aria-label=${TEXT.revertChange(made)}
          onClick=${() => onRevert({ toVersion: made - 1, fields: changes.map(({ field }) => field) })}><${Icon} name="undo-2" />${TEXT.revert}</button>`}
      ${version > 1 && html`<label><input type="checkbox" aria-label=${TEXT.compareVersion(made)} checked=${picked.includes(made)} onChange=${() => pick(made)} /> ${TEXT.compare}</label>`}`}`;

  return html`<div class="above">
      <h2 tabindex="-1">${texts.video.tabs.history}</h2>
      <button type="button" class="quiet" onClick=${() => setOrder(order === "desc" ? "asc" : "desc")}>
        <${Icon} name=${order === "desc" ? "arrow-up" : "arrow-down"} />${order === "desc" ? texts.common.oldestFirst : texts.common.newestFirst}</button>
    </div>
    ${isBehind && polls.current.number < FAST_POLLS && html`<p class="hint" role="status">${TEXT.latestLater}</p>`}
    ${pages.isDone && !pages.items.length && html`<${Empty}>${texts.common.noHistory}<//>`}
    <${Timeline} entries=${pages.items} order=${order} more=${more} />
    <${LoadMore} pages=${pages} />
    ${version > 1 && html`<details class="folded"><summary>${TEXT.findAVersion}</summary><div class="questions">
      <${VersionForm} videoId=${videoId} present=${version} picked=${[]} />
      <${AsOfForm} videoId=${videoId} />
    </div></details>`}
    <${ComparisonBar} videoId=${videoId} picked=${picked} clear=${() => setPicked([])} />`;
}

/** Sticky bar with the selected versions. @param {{ videoId: string, picked: number[], clear: () => void }} props */
function ComparisonBar({ videoId, picked, clear }) {
  const [from, until] = [...picked].sort((one, other) => one - other);
  if (from === undefined) return null;
  return html`<div class="selected compared" role="group" aria-label=${TEXT.compared}>
    <strong role="status">${until === undefined ? TEXT.oneChosen(from) : TEXT.twoChosen(from, until)}</strong>
    <a class="button primary" href=${hrefTo(["videos", videoId], { tab: "history", from: String(from), to: until === undefined ? "" : String(until) })}>
      <${Icon} name="git-compare" />${until === undefined ? TEXT.compareCurrent : TEXT.compare}</a>
    <button type="button" class="quiet" onClick=${clear}><${Icon} name="x" />${TEXT.clear}</button>
  </div>`;
}
