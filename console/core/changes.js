// Changes as they come: the feed of the API, asked every few seconds while somebody looks.
//
// Each look is one short request, which docs/console.md counts. Nobody looks at a page that is hidden, nor at a list behind a
// dialog; what was missed meanwhile comes with the next look, as the cursor stays where it was.

import { useEffect, useRef } from "preact/hooks";
import { api, ask, Problem } from "./api.js";

/**
 * @typedef {import("./api.js").Schemas["Change"]} Change
 * @typedef {{ after?: string }} Place how far somebody has read, for whoever goes on there
 */

/** Stands for everybody's changes, which administrators may follow. */
export const EVERYBODY = "*";

/** A cursor behind all that has happened. */
const NOW = "now";
const PERIOD_MS = 5000;
/** How long it waits at most while the service fails. */
const LONGEST_MS = 300_000;
/** How much it reads at one time. Who has missed more reads the list again. */
const LIMIT = 100;
const PAGES = 10;

/** Call `came` with the changes of a user's things, or everybody's, as they come; with null when there were too many to tell.
 *
 * What it rejects with counts as a failure of the service: the same changes come again later. With `place` it goes on where
 * somebody stopped, otherwise it begins now.
 * @param {string | null} whose a user, EVERYBODY, or null: nobody's
 * @param {(changes: Change[] | null) => Promise<unknown> | void} came
 * @param {Place} [place] */
export function useChanges(whose, came, place) {
  const latest = useRef(came);
  latest.current = came;
  useEffect(() => {
    if (whose === null) return;
    const stop = new AbortController();
    const tell = async (/** @type {Change[] | null} */ changes) => {
      if (!stop.signal.aborted) await latest.current(changes);
    };
    void follow(whose === EVERYBODY ? undefined : whose, tell, place ?? {}, stop.signal);
    return () => stop.abort();
  }, [whose]);
}

/** @param {string | undefined} userId @param {(changes: Change[] | null) => Promise<void>} tell @param {Place} place @param {AbortSignal} signal */
export async function follow(userId, tell, place, signal) {
  for (let failures = 0; !signal.aborted; ) {
    let wait = PERIOD_MS;
    try {
      await poll(userId, tell, place, signal);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      if (isFinal(error)) return;
      failures += 1;
      wait = Math.max(Math.min(PERIOD_MS * 2 ** failures, LONGEST_MS), (error.retryAfter ?? 0) * 1000);
    }
    await hasSeen(wait, signal);
  }
}

/** Read what has come. @param {string | undefined} userId @param {(changes: Change[] | null) => Promise<void>} tell
 * @param {Place} place @param {AbortSignal} signal */
async function poll(userId, tell, place, signal) {
  const read = async (/** @type {string} */ after) =>
    (await ask(api.GET("/v1/changes", { params: { query: { userId, after, limit: LIMIT } }, signal }))).data;
  for (let page = 0; page < PAGES; page++) {
    const found = await read(place.after ?? NOW).catch((error) => {
      if (place.after !== undefined && error instanceof Problem && error.status === 410) return null; // no longer kept
      throw error;
    });
    if (!found) break;
    if (found.items.length) await tell(found.items);
    place.after = found.nextCursor;
    if (found.caughtUp) return;
  }
  const { nextCursor } = await read(NOW); // before what is shown is read again, so that nothing is missed between
  await tell(null);
  place.after = nextCursor;
}

/** Whether it cannot become better by itself: the deployment has no feed, say, or it is not for this user. @param {Problem} problem */
function isFinal({ status }) {
  return status >= 400 && status < 500 && ![401, 408, 410, 429].includes(status);
}

/** Resolves when so much time is over and somebody looks. @param {number} milliseconds @param {AbortSignal} signal */
function hasSeen(milliseconds, signal) {
  const due = Date.now() + milliseconds;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const isSeen = !document.hidden && !document.querySelector("dialog[open]");
      if (!signal.aborted && (Date.now() < due || !isSeen)) return;
      clearInterval(timer);
      resolve(undefined);
    }, 500);
  });
}
