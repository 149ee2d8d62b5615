// Grid of posters with keyboard navigation: one poster is in the tab order, and arrow keys move the focus.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { hrefTo } from "../core/route.js";
import { duration, time } from "../core/formats.js";
import { Poster, Status, Time, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.library.grid;

/** @typedef {import("../screens/library.js").Summary} Summary */

const SKELETONS = Array.from({ length: 12 }, (_, index) => index);

/** Grid of videos. `back` is the id of the video from which the user returns; its poster gets the focus.
 * @param {{ items: Summary[], isFirst: boolean, isDone: boolean, isMine: boolean, back: string | null,
 *   selection: import("./selection.js").Selection, onOpen: (videoId: string) => void }} props */
export default function Grid({ items, isFirst, isDone, isMine, back, selection, onOpen }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const [current, setCurrent] = useState(back);
  const place = Math.max(0, items.findIndex((item) => item.videoId === current));

  useLayoutEffect(() => {
    if (back) cards(list.current)[place]?.focus({ preventScroll: true });
  }, []);

  /** @param {KeyboardEvent} event */
  const move = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const video = items[place];
    if (event.key.toLowerCase() === "x" && video && selection.can(video.videoId)) selection.toggle(video.videoId, event.shiftKey);
    if (event.shiftKey) return;
    const all = cards(list.current);
    const next = all[targetIndex(event.key, all, place)];
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };

  if (isFirst) {
    return html`<ul class="grid library" aria-hidden="true">
      ${SKELETONS.map((index) => html`<li key=${index} class="skeleton"><span class="poster"></span><span class="title"></span><span class="about"></span></li>`)}
    </ul>`;
  }
  if (!items.length) return null;
  return html`<ul class=${`grid library ${selection.selected.length ? "is-selecting" : ""}`} ref=${list} role="list" aria-label=${texts.common.videos} aria-describedby="library-keys" onKeyDown=${move}>
      ${items.map((video, index) => html`<li key=${video.videoId} aria-posinset=${index + 1} aria-setsize=${isDone ? items.length : -1}>
        <a class="card" href=${hrefTo(["videos", video.videoId])} tabindex=${index === place ? 0 : -1}
          onFocus=${() => setCurrent(video.videoId)} onClick=${() => onOpen(video.videoId)}>
          <${Card} video=${video} isMine=${isMine} />
        </a>
        <${Select} video=${video} selection=${selection} tabindex=${index === place ? 0 : -1} />
      </li>`)}
    </ul>
    <p class="hint keys" id="library-keys">${TEXT.keys}</p>`;
}

/** Checkbox that selects a video; with Shift, also all since the last selected one.
 * @param {{ video: Summary, selection: import("./selection.js").Selection, tabindex?: number }} props */
export function Select({ video: { videoId, title }, selection, tabindex }) {
  if (!selection.can(videoId)) return null;
  return html`<input type="checkbox" class="select" tabindex=${tabindex} aria-label=${TEXT.select(title)} checked=${selection.has(videoId)}
    onClick=${(/** @type {MouseEvent} */ { shiftKey }) => selection.toggle(videoId, shiftKey)} />`;
}

/** @param {{ video: Summary, isMine: boolean }} props */
function Card({ video, isMine }) {
  const { title, poster, userId, createdAt, viewCount, views } = video;
  return html`
    <${UserText} class="title" title=${title.length > 40 ? title : undefined}>${title}<//>
    <span class="frame">
      <${Poster} url=${poster} of=${video} />
      ${video.duration !== undefined && html`<span class="length">${duration(video.duration)}</span>`}
    </span>
    <span class="about">
      ${!isMine && html`<${UserText} class="owner">${userId}<//> · `}
      <${Time} at=${createdAt * 1000} />
      ${views !== undefined
        ? html` · <span>${texts.common.views(views)}</span>`
        : viewCount !== undefined && html` · <span>${texts.common.views(viewCount)}</span>`}
      <${State} video=${video} />
    </span>`;
}

/** Reason why a video is not public, if any. @param {{ video: Summary }} props */
function State({ video: { status, visibility, publishAt, expiresAt } }) {
  const now = Date.now() / 1000;
  if (status !== "ready") return html` <${Status} of=${status} />`;
  if (visibility !== "public") return html` <${Status} of="private" />`;
  if (publishAt && publishAt > now) return html` <span class="status">${TEXT.scheduled(time(publishAt))}</span>`;
  if (expiresAt && expiresAt <= now) return html` <span class="status">${TEXT.expired}</span>`;
  return null;
}

/** @param {HTMLElement | null} list @returns {HTMLElement[]} */
function cards(list) {
  return list ? [...list.querySelectorAll("a")] : [];
}

/** Return the index to which a key moves the focus; no index of the grid, such as -1, if it does not move.
 * @param {string} key @param {HTMLElement[]} all @param {number} place */
export function targetIndex(key, all, place) {
  const top = all[0]?.getBoundingClientRect().top;
  const columns = all.findIndex((card) => card.getBoundingClientRect().top !== top);
  const width = columns < 1 ? all.length : columns;
  const last = all.length - 1;
  switch (key) {
    case "ArrowRight":
      return Math.min(place + 1, last);
    case "ArrowLeft":
      return Math.max(place - 1, 0);
    case "ArrowUp":
      return place - width;
    case "ArrowDown":
      return place + width <= last ? place + width : Math.floor(place / width) < Math.floor(last / width) ? last : -1;
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return -1;
  }
}
