// The order of what this tab has just created.
//
// A list of the API is ordered by `createdAt`, in whole seconds, and within a second by id. Several films that are uploaded
// at once would be listed in any order.

import { onSession, user } from "../core/session.js";

const KEPT = "created";
/** Videos that a reload does not forget. */
const MOST = 100;

/** A higher number was asked for later. @type {Map<string, number>} */
const numbers = new Map(/** @type {string[]} */ (JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")).map((id, index) => [id, index]));
let last = numbers.size;

onSession(() => {
  if (user()) return;
  numbers.clear(); // nothing of a user stays behind
  sessionStorage.removeItem(KEPT);
});

/** Call this when a video is asked for; what it returns takes the id of the video, once there is one.
 * @returns {(videoId: string) => void} */
export function noteCreation() {
  const number = ++last;
  return (videoId) => {
    if (!user()) return;
    numbers.set(videoId, number);
    const ordered = [...numbers].sort(([, one], [, other]) => one - other).map(([id]) => id);
    sessionStorage.setItem(KEPT, JSON.stringify(ordered.slice(-MOST)));
  };
}

/** A list of videos in which those of this tab, of one and the same second, are in the order in which they were asked for.
 * All others stay where they are.
 * @template {{ videoId: string, createdAt: number }} T
 * @param {T[]} items by `createdAt` @param {boolean} isNewestFirst @returns {T[]} */
export function sortByCreation(items, isNewestFirst) {
  const sorted = [...items];
  const number = (/** @type {T} */ { videoId }) => numbers.get(videoId) ?? 0;
  /** The places of those of this tab, by second. @type {Map<number, number[]>} */
  const seconds = new Map();
  for (const [place, { videoId, createdAt }] of items.entries()) {
    if (numbers.has(videoId)) seconds.set(createdAt, [...(seconds.get(createdAt) ?? []), place]);
  }
  for (const places of seconds.values()) {
    const own = items.filter((_, place) => places.includes(place));
    own.sort((one, other) => (isNewestFirst ? number(other) - number(one) : number(one) - number(other)));
    for (const [index, item] of own.entries()) sorted[places[index] ?? 0] = item;
  }
  return sorted;
}
