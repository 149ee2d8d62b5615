// Order of the videos that this tab has created.
//
// The API sorts lists by `createdAt` in seconds, then by random id. Videos of several files, uploaded together, would therefore be
// in random order.

import { onSession, user } from "../core/session.js";

const STORAGE_KEY = "created";
/** Maximum number of videos whose order survives a reload. */
const MAX_STORED = 100;

/** Sequence number of each video's creation request, by id. @type {Map<string, number>} */
const numbers = new Map(/** @type {string[]} */ (JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "[]")).map((id, index) => [id, index]));
let last = numbers.size;

onSession(() => {
  if (user()) return;
  numbers.clear(); // removes the data of the user who signed out
  sessionStorage.removeItem(STORAGE_KEY);
});

/** Number a creation request. Call the returned function with the id of the created video.
 * @returns {(videoId: string) => void} */
export function noteCreation() {
  const number = ++last;
  return (videoId) => {
    if (!user()) return;
    numbers.set(videoId, number);
    const ordered = [...numbers].sort(([, one], [, other]) => one - other).map(([id]) => id);
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(ordered.slice(-MAX_STORED)));
  };
}

/** Sort this tab's videos of the same second in the order of their creation requests. All others keep their positions.
 * @template {{ videoId: string, createdAt: number }} T
 * @param {T[]} items by `createdAt` @param {boolean} isNewestFirst @returns {T[]} */
export function sortByCreation(items, isNewestFirst) {
  const sorted = [...items];
  const number = (/** @type {T} */ { videoId }) => numbers.get(videoId) ?? 0;
  /** Indexes of this tab's videos, by second. @type {Map<number, number[]>} */
  const seconds = new Map();
  for (const [place, { videoId, createdAt }] of items.entries()) {
    if (numbers.has(videoId)) seconds.set(createdAt, [...(seconds.get(createdAt) ?? []), place]);
  }
  for (const indexes of seconds.values()) {
    const own = items.filter((_, place) => indexes.includes(place));
    own.sort((one, other) => (isNewestFirst ? number(other) - number(one) : number(one) - number(other)));
    for (const [index, item] of own.entries()) sorted[indexes[index] ?? 0] = item;
  }
  return sorted;
}
