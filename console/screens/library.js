// Library: grid or table of the videos that the URL selects. Components are in `library/`.

import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useChanges } from "../core/changes.js";
import { useInterval, usePages } from "../core/load.js";
import { progressOf } from "../core/first-run.js";
import { hrefTo } from "../core/route.js";
import { visit } from "../core/history-entry.js";
import { time } from "../core/formats.js";
import Controls from "../library/controls.js";
import { BY_TIME, sortOf, toQuery, parseFilters, countFilters, filtersOf, feedOwner, selectorOf, withoutFilters } from "../library/filters.js";
import { sortByCreation } from "../library/creation-order.js";
import Grid from "../library/grid.js";
import { useSelection } from "../library/selection.js";
import { COLUMNS, useView } from "../library/view.js";
import { Empty, Failure, Icon, Loading, LoadMore, Menu, PendingChanges } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.library;

/**
 * @typedef {import("../core/api.js").Schemas["VideoSummary"] & { views?: number }} Summary
 * @typedef {import("../core/session.js").User} User
 * @typedef {import("../library/filters.js").Choice} Choice
 * @typedef {import("../core/load.js").Snapshot<Summary>} Loaded
 * @typedef {{ subject: string, list: Loaded | null, opened: string | null, computedAt: number | null, after?: string }} Stored
 */

const FIRST = 48; // fills a large screen; more would delay the first videos
const NEXT = 96;
const WATCHED = 24;
const LARGEST_BATCH = 100;
/** Number of videos from which an owner no longer counts as new. */
const FEW = 4;
const FRESH = 600; // seconds within which the file of a new video most likely arrives

/** @param {{ route: import("../core/route.js").Route, user: User }} props */
export default function Library({ route, user }) {
  const { here, choice } = useMemo(() => ({ here: visit(), choice: parseFilters(route.query) }), [route]);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  return html`<h1 tabindex="-1">${TEXT.title}</h1>
    <${Controls} choice=${choice} user=${user} problem=${error instanceof Problem ? error : null} />
    ${choice.kind === "folder" && html`<${LazyComponent} load=${loadFolders} choice=${choice} />`}
    <${List} key=${here.id} here=${here} choice=${choice} user=${user} onError=${setError} />`;
}

/** @param {{ here: import("../core/history-entry.js").Visit, choice: Choice, user: User, onError: (error: unknown) => void }} props */
function List({ here, choice, user, onError }) {
  const stored = useMemo(() => storedList(here, user), []);
  const query = toQuery(choice, user);
  const pages = usePages(async (cursor, signal) => {
    if (!query) return { items: /** @type {Summary[]} */ ([]), nextCursor: null };
    if (choice.kind !== "top") return videos(query, cursor, signal);
    const { data } = await ask(api.GET("/v1/top", { params: { query: { ...query, limit: 100 } }, signal }));
    stored.computedAt = data.computedAt;
    return { items: /** @type {Summary[]} */ (data.items), nextCursor: null };
  }, [], { snapshot: stored.list, onSnapshot: (list) => (stored.list = list), key: ({ videoId }) => videoId });
  const { error, isLoading, isDone } = pages;
  const items = choice.kind === "top" || sortOf(choice) !== BY_TIME ? pages.items : sortByCreation(pages.items, choice.values.order !== "asc");
  useLayoutEffect(() => onError(error), [error]);
  useScrollRestore(here);

  /** Read some videos again, and update them in the list. Deleted videos are removed; with `isStill` only at the end of the
   * list, where they move no other video. @param {string[]} videoIds @param {boolean} [isStill] */
  const refresh = async (videoIds, isStill = false) => {
    const { data } = await ask(api.POST("/v1/videos/batch-get", { body: { videoIds } }));
    const now = new Map(data.items.map((video) => [video.videoId, video]));
    const isGone = (/** @type {Summary} */ { videoId, status }) =>
      data.missing.includes(videoId) || (now.get(videoId)?.status === "deleted" && status !== "deleted");
    pages.change((all) => {
      const end = isStill ? all.findLastIndex((item) => !isGone(item)) : -1;
      return all.filter((item, index) => index < end || !isGone(item)).map((item) => {
        const video = now.get(item.videoId);
        if (!video || isGone(item)) return item;
        const { title, duration, category, status, visibility, publishAt, expiresAt, viewCount, thumbnails } = video;
        return { ...item, title, duration, category, status, visibility, publishAt, expiresAt, viewCount, poster: thumbnails.poster?.url };
      });
    });
  };
  const refreshAll = async (/** @type {string[]} */ videoIds) => {
    for (let ids = videoIds; ids.length; ids = ids.slice(LARGEST_BATCH)) await refresh(ids.slice(0, LARGEST_BATCH), true);
  };
  const [view, changeView] = useView();
  const [bulk, setBulk] = useState(/** @type {import("../library/bulk.js").Kind | null} */ (null));
  const selection = useSelection(items.filter(({ userId, status }) => (user.isAdmin || userId === user.subject) && status !== "deleted").map(({ videoId }) => videoId));
  const changing = items.filter(isChanging).slice(0, WATCHED).map((item) => item.videoId);
  const later = () => undefined; // the next poll or change retries it
  const owner = feedOwner(choice, user);
  useInterval(() => void refresh(changing, owner !== null).catch(later), 5000, changing.length > 0);
  // Shown videos are updated in place. PendingChanges offers additions and removals, which would move videos.
  useChanges(owner, async (changes) => {
    const shown = new Set(items.map((item) => item.videoId));
    const own = changes?.filter(({ type, videoId }) => type.startsWith("video.") && videoId);
    const changed = new Set(own?.flatMap(({ videoId = "" }) => (shown.has(videoId) ? [videoId] : [])));
    await refreshAll([...changed]);
    if (!own || own.some(({ type, videoId = "" }) => type !== "video.changed" || !shown.has(videoId))) await pages.check();
  }, stored);
  useLayoutEffect(() => {
    if (stored.list && stored.opened) void refresh([stored.opened]).catch(later);
  }, []);

  if (!query && choice.kind === "folder") return null;
  if (!query) return html`<${Empty} icon="list-filter"><p>${TEXT.chooseFirst}</p><//>`;
  const isFirst = isLoading && !items.length;
  const props = { items, selection, onOpen: (/** @type {string} */ videoId) => (stored.opened = videoId) };
  return html`
    <${Toolbar} view=${view} change=${changeView} selection=${selection} open=${setBulk}>
      <p class="hint tally" role="status">${isFirst ? texts.parts.loading : error ? "" : tally(items.length, isDone, stored.computedAt)}</p>
    <//>
    <${PendingChanges} pages=${pages} isLast onShow=${() => scrollTo(0, 0)} />
    ${isDone && choice.kind === "mine" && items.length < FEW && !countFilters(choice, user) && !progressOf(user.subject).dismissed
      && html`<${LazyComponent} load=${loadChecklist} videos=${items} subject=${user.subject} />`}
    ${isDone && !items.length && html`<${EmptyLibrary} choice=${choice} user=${user} isComputed=${stored.computedAt !== null} />`}
    ${view.kind === "table" && !isFirst ? html`<${LazyComponent} load=${loadTable} ...${props} columns=${view.columns} choice=${choice} />`
      : html`<${Grid} ...${props} isFirst=${isFirst} isDone=${isDone} back=${stored.list ? stored.opened : null} isMine=${choice.kind === "mine"} />`}
    ${bulk && html`<${LazyComponent} load=${loadBulk} kind=${bulk} videos=${items.filter(({ videoId }) => selection.has(videoId))} userId=${user.subject}
      onClose=${() => setBulk(null)} onDone=${(/** @type {string[]} */ videoIds) => void refreshAll(videoIds).catch(later)} />`}
    ${isFirst ? null : isShownAbove(error, choice, user)
      ? html`<${Empty} icon="list-filter"><p>${TEXT.invalidFilters}</p><//>`
      : html`<${LoadMore} pages=${pages} />`}`;
}

const loadChecklist = () => import("../library/checklist.js");
const loadFolders = () => import("../library/folders.js");
const loadTable = () => import("../library/table.js");
const loadBulk = () => import("../library/bulk.js");

/** Component that is imported when it is first shown.
 * @param {{ load: () => Promise<{ default: (props: any) => unknown }>, [prop: string]: unknown }} props */
function LazyComponent({ load, ...props }) {
  const [Shown, setShown] = useState(/** @type {((props: any) => unknown) | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  useEffect(() => void load().then((module) => setShown(() => module.default), setError), [load]);
  if (error) return html`<${Failure} error=${error} retry=${() => location.reload()} />`;
  return Shown ? html`<${Shown} ...${props} />` : html`<${Loading} />`;
}

/** Actions on the selected videos, and controls of the view.
 * @param {{ view: import("../library/view.js").View, change: (change: Partial<import("../library/view.js").View>) => void,
 *   selection: import("../library/selection.js").Selection, open: (kind: import("../library/bulk.js").Kind) => void,
 *   children?: import("../design/parts.js").Children }} props */
function Toolbar({ view, change, selection, open, children }) {
  const { selected } = selection;
  const toggle = (/** @type {string} */ name) =>
    change({ columns: view.columns.includes(name) ? view.columns.filter((other) => other !== name) : [...view.columns, name] });
  return html`<div class="toolbar">
    ${children}
    ${selected.length > 0 && html`<div class="selected" role="group" aria-label=${TEXT.selected}>
      <strong>${TEXT.selectedCount(selected.length)}</strong>
      <button type="button" onClick=${() => open("edit")}><${Icon} name="pencil" />${TEXT.editSelected}</button>
      <button type="button" onClick=${() => open("playlist")}><${Icon} name="list-plus" />${TEXT.addSelected}</button>
      <button type="button" class="quiet danger" onClick=${() => open("delete")}><${Icon} name="trash" />${TEXT.deleteSelected}</button>
      <button type="button" class="quiet" onClick=${selection.clear}><${Icon} name="x" />${TEXT.clearSelection}</button>
    </div>`}
    <span class="views">
      ${view.kind === "table" && html`<${Menu} class="quiet" keepOpen label=${html`${TEXT.columnsMenu}<${Icon} name="chevron-down" />`}>
        ${Object.entries(COLUMNS).map(([name, title]) => html`<label key=${name}><input type="checkbox" checked=${view.columns.includes(name)} onChange=${() => toggle(name)} />${title}</label>`)}
      <//>`}
      <button type="button" class="quiet" aria-label=${TEXT.asGrid} aria-pressed=${String(view.kind === "grid")} onClick=${() => change({ kind: "grid" })}><${Icon} name="layout-grid" /></button>
      <button type="button" class="quiet" aria-label=${TEXT.asTable} aria-pressed=${String(view.kind === "table")} onClick=${() => change({ kind: "table" })}><${Icon} name="table-2" /></button>
    </span>
  </div>`;
}

/** @param {Record<string, string>} query @param {string | undefined} cursor @param {AbortSignal} signal */
async function videos(query, cursor, signal) {
  const { data } = await ask(api.GET("/v1/videos", {
    params: { query: { ...query, limit: cursor ? NEXT : FIRST, cursor, include: ["stats"] } }, signal,
  }));
  return { items: /** @type {Summary[]} */ (data.items), nextCursor: data.nextCursor };
}

/** Return the stored state of this history entry; a new state if another user stored it.
 * @param {import("../core/history-entry.js").Visit} here @param {User} user */
function storedList(here, { subject }) {
  const before = /** @type {Stored | null} */ (here.state);
  if (before?.subject === subject) return before;
  const stored = /** @type {Stored} */ ({ subject, list: null, opened: null, computedAt: null });
  here.state = stored;
  return stored;
}

/** Restore the scroll position of a history entry, and store it on each scroll.
 * @param {import("../core/history-entry.js").Visit} here */
function useScrollRestore(here) {
  useLayoutEffect(() => {
    if (here.scroll) scrollTo(0, here.scroll);
    const follow = () => {
      if (history.state?.visit === here.id) here.scroll = scrollY;
    };
    addEventListener("scroll", follow, { passive: true });
    return () => removeEventListener("scroll", follow);
  }, []);
}

/** Whether a video is being processed, or probably soon will be. @param {Summary} video */
function isChanging({ status, createdAt }) {
  return status === "processing" || (status === "uploaded" && createdAt > Date.now() / 1000 - FRESH);
}

/** Whether visible controls show all errors of a problem. @param {unknown} error @param {Choice} choice @param {User} user */
function isShownAbove(error, choice, user) {
  if (!(error instanceof Problem) || !error.errors.length) return false;
  const shown = choice.kind === "top" ? ["window", "sort", "category"] : ["order", "sort", selectorOf(choice.kind), ...filtersOf(choice, user)];
  return error.errors.every(({ parameter }) => shown.includes(parameter));
}

/** @param {number} number @param {boolean} isDone @param {number | null} computedAt */
function tally(number, isDone, computedAt) {
  const words = number ? (isDone ? texts.common.videoCount : TEXT.soFar)(number) : isDone ? texts.common.noVideos : TEXT.loadingMore;
  return computedAt ? texts.common.asOf(words, time(computedAt)) : words;
}

/** @param {{ choice: Choice, user: User, isComputed: boolean }} props */
function EmptyLibrary({ choice, user, isComputed }) {
  if (countFilters(choice, user)) {
    return html`<${Empty} icon="list-filter"><p>${TEXT.noMatch}</p><a class="button" href=${withoutFilters(choice)}>${texts.common.clearFilters}</a><//>`;
  }
  const upload = html`<a class="button primary" href=${hrefTo(["upload"])}><${Icon} name="upload" />${TEXT.upload}</a>`;
  switch (choice.kind) {
    case "mine":
      return html`<${Empty} icon="film"><p>${TEXT.empty}</p>${upload}<//>`;
    case "everyone":
      return html`<${Empty} icon="film"><p>${TEXT.emptyForAll}</p>${upload}<//>`;
    case "top":
      return html`<${Empty} icon="activity">
        <p>${isComputed ? TEXT.noViewsInPeriod : TEXT.noViewsYet}</p>
        <a class="button" href=${hrefTo([], { show: "everyone" })}>${TEXT.kinds.everyone}</a>
      <//>`;
    default:
      return html`<${Empty} icon="film"><p>${TEXT.noneMatch}</p><a class="button" href=${hrefTo([], { show: "everyone" })}>${TEXT.kinds.everyone}</a><//>`;
  }
}
