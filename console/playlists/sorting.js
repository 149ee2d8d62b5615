// Reordering of entries: by dragging (mouse, pen or touch), by keyboard, or by buttons.
//
// While an entry is dragged, CSS moves the rows, and the DOM keeps its order. Browsers end the pointer capture of a moved element.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { texts } from "../texts/index.js";

const TEXT = texts.playlists.sorting;

/** @typedef {import("../core/api.js").Schemas["ListedEntry"]} Entry */
/** Position of an entry in the API: after another entry, at the start (`after` is null), or at the end (`before` is null).
 * @typedef {{ after: string | null } | { before: null }} Place */
/** Entry that keys or buttons move: its current index `at`, and its original index `from`.
 * @typedef {{ id: string, from: number, at: number }} Lifted */
/** Entry that a pointer drags: the index `at` that it would get if dropped, and its original index `from`.
 * @typedef {{ id: string, from: number, at: number }} Dragged */
/** @typedef {ReturnType<typeof useSorting>} Sorting */

/** Distance to the upper or lower edge of the window, in pixels, within which a drag scrolls the page. */
const SCROLL_DISTANCE = 64;
/** Maximum movement of a pointer, in pixels, that counts as a click. */
const CLICK_DISTANCE = 4;

/** @param {{ entries: Entry[], isDone: boolean, more: () => void, move: (entry: Entry, place: Place) => void }} given */
export function useSorting({ entries, isDone, more, move }) {
  const [lifted, setLifted] = useState(/** @type {Lifted | null} */ (null));
  const [dragged, setDragged] = useState(/** @type {Dragged | null} */ (null));
  const [announcement, setAnnouncement] = useState("");
  /** Element to focus after the rows were reordered, which removes the focus. */
  const focus = useRef(/** @type {HTMLElement | null} */ (null));
  const hasDragged = useRef(false);
  const stopDragging = useRef(() => undefined);
  useEffect(() => () => stopDragging.current(), []);
  useLayoutEffect(() => {
    focus.current?.focus();
    focus.current = null;
  });

  const indexOf = (/** @type {string} */ id) => entries.findIndex(({ videoId }) => videoId === id);
  const keepFocus = (/** @type {string} */ id) => {
    const now = document.activeElement;
    if (now === document.body || now === handleOf(id)) focus.current = handleOf(id);
  };

  const lift = (/** @type {string} */ id) => {
    const from = indexOf(id);
    setLifted({ id, from, at: from });
    setAnnouncement((isDone ? TEXT.lifted : TEXT.liftedOfMore)(from + 1, entries.length));
  };
  /** @param {number} at */
  const moveTo = (at) => {
    if (!lifted) return;
    if (at >= entries.length && !isDone) more();
    const place = Math.max(0, Math.min(at, entries.length - 1));
    focus.current = /** @type {HTMLElement | null} */ (document.activeElement);
    setLifted({ ...lifted, at: place });
    setAnnouncement(at >= entries.length && !isDone ? TEXT.loadingMore : TEXT.position(place + 1));
  };
  const drop = () => {
    if (!lifted) return;
    focus.current = handleOf(lifted.id);
    setLifted(null);
    setAnnouncement(TEXT.dropped(lifted.at + 1));
    commit(lifted.id, lifted.at);
  };
  const cancelMove = () => {
    if (!lifted) return;
    focus.current = handleOf(lifted.id);
    setLifted(null);
    setAnnouncement(TEXT.cancelled(indexOf(lifted.id) + 1));
  };
  /** Drop the entry at the end of the playlist, even if not all pages are loaded. */
  const dropAtEnd = () => {
    const entry = lifted && entries[indexOf(lifted.id)];
    if (!entry) return;
    setLifted(null);
    setAnnouncement(TEXT.droppedAtEnd);
    if (isDone) focus.current = handleOf(entry.videoId);
    move(entry, { before: null });
  };
  /** @param {string} id @param {number} at */
  const commit = (id, at) => {
    const entry = entries[indexOf(id)];
    if (!entry || at === indexOf(id)) return;
    const others = entries.filter(({ videoId }) => videoId !== id);
    move(entry, { after: others[at - 1]?.videoId ?? null });
  };

  /** @param {KeyboardEvent} event @param {string} id */
  const press = (event, id) => {
    if (lifted?.id !== id) return;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowUp: () => moveTo(lifted.at - 1),
      ArrowDown: () => moveTo(lifted.at + 1),
      Home: () => moveTo(0),
      End: dropAtEnd,
      Escape: cancelMove,
    };
    const does = keys[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  };

  /** @param {PointerEvent} event @param {string} id */
  const startDrag = (event, id) => {
    hasDragged.current = false;
    if (event.button !== 0 || dragged) return;
    const handle = /** @type {HTMLElement} */ (event.currentTarget);
    const row = /** @type {HTMLElement} */ (handle.closest("li"));
    const list = /** @type {HTMLElement} */ (row.parentElement);
    handle.setPointerCapture(event.pointerId);
    const listening = new AbortController();
    const start = event.clientY + scrollY;
    let { clientY: y } = event;
    let at = -1;
    let frame = 0;
    const follow = () => {
      const offset = y + scrollY - start;
      if (!hasDragged.current) {
        if (Math.abs(offset) <= CLICK_DISTANCE) return;
        hasDragged.current = true;
        setLifted(null);
        list.style.setProperty("--row", `${row.offsetHeight + gapOf(list)}px`);
      }
      const rows = /** @type {HTMLElement[]} */ ([...list.children]);
      // A row below the end of the list would lengthen the page, which would then scroll endlessly.
      const [first = row, last = row] = [rows[0], rows.at(-1)];
      const shown = Math.max(first.offsetTop - row.offsetTop, Math.min(offset, last.offsetTop - row.offsetTop));
      row.style.translate = `0 ${shown}px`;
      const now = indexUnder(rows, row, offset);
      if (now === at) return;
      at = now;
      setDragged({ id, from: rows.indexOf(row), at });
    };
    const scrollAtEdge = () => {
      const beyond = y < SCROLL_DISTANCE ? y - SCROLL_DISTANCE : Math.max(0, y - (innerHeight - SCROLL_DISTANCE));
      if (hasDragged.current && beyond) {
        scrollBy(0, beyond / 4);
        follow();
      }
      frame = requestAnimationFrame(scrollAtEdge);
    };
    const stop = () => {
      listening.abort();
      cancelAnimationFrame(frame);
      row.style.translate = "";
      setDragged(null);
      stopDragging.current = () => undefined;
    };
    const { signal } = listening;
    handle.addEventListener("pointermove", (moved) => {
      y = moved.clientY;
      follow();
    }, { signal });
    handle.addEventListener("pointerup", () => {
      stop();
      if (!hasDragged.current || at < 0) return;
      focus.current = handle;
      latest.current.commit(id, at);
    }, { signal });
    handle.addEventListener("lostpointercapture", stop, { signal });
    addEventListener("keydown", (pressed) => pressed.key === "Escape" && stop(), { signal });
    stopDragging.current = () => void stop();
    scrollAtEdge();
  };
  const latest = useRef({ commit });
  latest.current = { commit }; // a page may have been loaded during the drag

  return {
    /** Entries in the order to show. */
    order: lifted ? moveEntry(entries, indexOf(lifted.id), lifted.at) : entries,
    /** Id of the entry that keys or buttons move; empty if none. */
    lifted: lifted?.id ?? "",
    isDragging: dragged !== null,
    /** Announcement for screen readers. */
    announcement,
    drop, cancelMove, keepFocus,
    step: (/** @type {1 | -1} */ by) => moveTo((lifted?.at ?? 0) + by),
    /** Return the direction in which a row makes room for the dragged row.
     * @param {string} id @returns {"dragged" | "up" | "down" | undefined} */
    shiftOf: (id) => {
      if (!dragged) return undefined;
      const index = indexOf(id);
      if (id === dragged.id) return "dragged";
      if (index > dragged.from && index <= dragged.at) return "up";
      return index < dragged.from && index >= dragged.at ? "down" : undefined;
    },
    /** Return the attributes of an entry's drag handle. @param {string} id */
    handle: (id) => ({
      id: handleId(id),
      onPointerDown: (/** @type {PointerEvent} */ event) => startDrag(event, id),
      onKeyDown: (/** @type {KeyboardEvent} */ event) => press(event, id),
      onClick: () => {
        if (hasDragged.current) hasDragged.current = false;
        else if (lifted?.id === id) drop();
        else lift(id);
      },
    }),
  };
}

/** Return the list with an entry moved. Without `isDone`, a move to the end removes the entry, which is on a later page.
 * @param {Entry[]} items @param {Entry} entry @param {Place} place @param {boolean} isDone */
export function reorder(items, entry, place, isDone) {
  const others = items.filter(({ videoId }) => videoId !== entry.videoId);
  if ("before" in place) return isDone ? [...others, entry] : others;
  const index = others.findIndex(({ videoId }) => videoId === place.after);
  if (place.after && index < 0) return items.includes(entry) ? items : [...items, entry];
  return others.toSpliced(index + 1, 0, entry);
}

/** @param {Entry[]} items @param {number} from @param {number} at */
function moveEntry(items, from, at) {
  const entry = items[from];
  return entry ? items.toSpliced(from, 1).toSpliced(at, 0, entry) : items;
}

/** Return the index that a row would get if it was dropped `offset` pixels below its position.
 * @param {HTMLElement[]} rows @param {HTMLElement} row @param {number} offset */
function indexUnder(rows, row, offset) {
  const middle = (/** @type {number} */ index) => {
    const other = rows[index];
    return other ? other.offsetTop + other.offsetHeight / 2 : NaN; // comparisons with NaN are false
  };
  const upper = row.offsetTop + offset;
  const lower = upper + row.offsetHeight;
  let at = rows.indexOf(row);
  while (lower > middle(at + 1)) at += 1;
  while (upper < middle(at - 1)) at -= 1;
  return at;
}

/** Return the gap between rows, in pixels. @param {HTMLElement} list */
function gapOf(list) {
  return parseFloat(getComputedStyle(list).rowGap) || 0;
}

/** @param {string} id */
function handleId(id) {
  return `handle-${id}`;
}

/** @param {string} id */
function handleOf(id) {
  return document.getElementById(handleId(id));
}
