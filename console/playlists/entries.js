// Entries of a playlist, which the owner can add, remove and reorder.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { duration } from "../core/formats.js";
import { Empty, Failure, Loading, LoadMore, Poster, announceText, Status, UserText, Icon } from "../design/parts.js";
import { texts } from "../texts/index.js";
import AddVideo from "./add-video.js";
import { reorder, useSorting } from "./sorting.js";

const TEXT = texts.playlists.entries;

/** @typedef {import("../core/api.js").Schemas["ListedEntry"]} Entry */
/** @typedef {import("./sorting.js").Place} Place */
/** Failed change: its description and error, and the function that retries it.
 * @typedef {{ what: string, error: unknown, retry: () => void }} Fault */

/** `changed` receives 1 or -1 after an entry was added or removed.
 * @param {{ playlistId: string, userId: string, isOwner: boolean, count?: number, changed: (by: number) => void }} props */
export default function Entries({ playlistId, userId, isOwner, count, changed }) {
  const pages = usePages(async (cursor, signal) => {
    const params = { path: { playlistId }, query: { limit: 50, cursor } };
    return (await ask(api.GET("/v1/playlists/{playlistId}/entries", { params, signal }))).data;
  }, [playlistId]);
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const entries = withoutDuplicates(pages.items);

  /** Queue of moves and removals, which are sent one after another. */
  const queue = useRef(Promise.resolve());

  /** Move an entry optimistically, and move it back if the request fails. @param {Entry} entry @param {Place} place */
  const move = (entry, place) => {
    const index = entries.indexOf(entry);
    /** @type {Place} */
    const origin = { after: entries[index - 1]?.videoId ?? null };
    setFault(null);
    pages.change((items) => reorder(items, entry, place, pages.isDone));
    queue.current = queue.current.then(async () => {
      const params = { path: { playlistId, videoId: entry.videoId } };
      try {
        await ask(api.PATCH("/v1/playlists/{playlistId}/entries/{videoId}", { params, body: place }));
      } catch (error) {
        pages.change((items) => reorder(items, entry, origin, true));
        sorting.keepFocus(entry.videoId);
        setFault({ what: TEXT.notMoved(entry.video.title), error, retry: retryFor(error, () => move(entry, place)) });
      }
    });
  };
  const sorting = useSorting({ entries, isDone: pages.isDone, more: pages.more, move });

  /** @param {Entry} entry @returns {void} */
  const remove = (entry) => {
    setFault(null);
    queue.current = queue.current.then(async () => {
      const params = { path: { playlistId, videoId: entry.videoId } };
      try {
        await ask(api.DELETE("/v1/playlists/{playlistId}/entries/{videoId}", { params })).catch((error) => {
          if (!(error instanceof Problem && error.status === 404)) throw error; // already removed
        });
        const isHere = document.activeElement?.closest("[data-video]")?.getAttribute("data-video") === entry.videoId;
        pages.change((items) => items.filter(({ videoId }) => videoId !== entry.videoId));
        changed(-1);
        announceText(TEXT.removed);
        if (isHere) heading.current?.focus({ preventScroll: true }); // the focused element was removed
      } catch (error) {
        setFault({ what: TEXT.notRemoved(entry.video.title), error, retry: retryFor(error, () => remove(entry)) });
      }
    });
  };

  /** Return the retry of a failed change; it reloads the list instead if the error shows that the list is outdated.
   * @param {unknown} error @param {() => void} retry */
  const retryFor = (error, retry) => {
    const isStale = error instanceof Problem && [404, 422].includes(error.status);
    return () => {
      setFault(null);
      (isStale ? pages.reload : retry)();
    };
  };

  const latest = useRef(pages);
  latest.current = pages; // the list may have been loaded to its end in the meantime
  /** @param {Entry | null} entry */
  const added = (entry) => {
    changed(1);
    if (!entry) pages.reload();
    else if (latest.current.isDone) pages.change((items) => [...items, entry]);
  };

  const hidden = pages.isDone && count !== undefined ? count - entries.length : 0;
  const isFirst = pages.isLoading && !entries.length;
  const first = entries[0];
  return html`<section>
    <div class="entries-head">
      <h2 tabindex="-1" ref=${heading}>${texts.common.videos}</h2>
      ${first && html`<a class="button" href=${hrefTo(["videos", first.videoId])}>${TEXT.playFirst}</a>`}
    </div>
    ${isOwner && html`<${AddVideo} playlistId=${playlistId} userId=${userId} added=${added} />`}
    ${fault && html`<div class="entries-fault"><p>${fault.what}</p><${Failure} error=${fault.error} retry=${fault.retry} /></div>`}
    ${pages.isDone && !entries.length && html`<${Empty}>${hidden > 0 ? TEXT.noneVisible : TEXT.none}<//>`}
    ${isOwner && entries.length > 1 && html`<p class="hint" id="sorting-hint">
      ${TEXT.hint}
    </p>`}
    <ol class="entry-list" aria-label=${texts.common.videos} data-sorting=${sorting.isDragging ? "" : undefined}>
      ${sorting.order.map((entry, index) => html`<${Row}
        key=${entry.videoId} entry=${entry} number=${index + 1}
        sorting=${isOwner && entries.length > 1 ? sorting : null} remove=${isOwner ? remove : null} />`)}
    </ol>
    ${isFirst ? html`<${Loading} />` : html`<${LoadMore} pages=${pages} />`}
    ${hidden > 0 && html`<p class="hint">
      ${TEXT.hidden(hidden)}
    </p>`}
    <div class="visually-hidden" aria-live="assertive">${sorting.announcement}</div>
  </section>`;
}

/** @param {{ entry: Entry, number: number, sorting: import("./sorting.js").Sorting | null, remove: ((entry: Entry) => void) | null }} props */
function Row({ entry, number, sorting, remove }) {
  const { videoId, video } = entry;
  const isLifted = sorting?.lifted === videoId;
  return html`<li data-video=${videoId} data-shift=${sorting?.shiftOf(videoId)} class=${isLifted ? "lifted" : ""}>
    ${sorting && html`<button type="button" class="handle" aria-label=${TEXT.moveItem(video.title)}
      aria-describedby="sorting-hint" aria-pressed=${isLifted ? "true" : "false"} ...${sorting.handle(videoId)}>
      <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true"><path d="M2 4h12M2 8h12M2 12h12" stroke="currentColor" stroke-width="2" /></svg>
    </button>`}
    <span class="entry-number">${number}</span>
    <a class="entry-video" href=${hrefTo(["videos", videoId])} draggable="false">
      <${Poster} url=${video.poster} of=${video} />
      <span class="entry-text">
        <${UserText} class="title">${video.title}<//>
        <span class="entry-facts">
          ${video.duration !== undefined && html`<span>${duration(video.duration)}</span>`}
          ${video.status !== "ready" && html`<${Status} of=${video.status} />`}
          ${video.visibility === "private" && html`<${Status} of="private" />`}
        </span>
      </span>
    </a>
    ${sorting && isLifted && html`<span class="entry-moves">
      <button type="button" onClick=${() => sorting.step(-1)}>${TEXT.up}</button>
      <button type="button" onClick=${() => sorting.step(1)}>${TEXT.down}</button>
      <button type="button" onClick=${sorting.drop}>${TEXT.drop}</button>
      <button type="button" onClick=${sorting.cancelMove}>${texts.common.cancel}</button>
    </span>`}
    ${remove && !isLifted && html`<button type="button" class="quiet" aria-label=${TEXT.removeItem(video.title)} onClick=${() => remove(entry)}>
      <span class="entry-wide">${texts.common.remove}</span><span class="entry-narrow"><${Icon} name="x" /></span>
    </button>`}
  </li>`;
}

/** Return the entries without duplicates. An entry that was moved past the loaded pages occurs again in the next page.
 * @param {Entry[]} items */
function withoutDuplicates(items) {
  return [...new Map(items.toReversed().map((item) => [item.videoId, item])).values()].toReversed();
}
