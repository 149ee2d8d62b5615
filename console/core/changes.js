// Subscription to the change feed, which is polled every few seconds while the page is visible.
//
// Each poll is one short request; docs/console.md states the cost. Polling pauses while the page is hidden or a dialog is open.
// The cursor is kept, so the next poll returns the changes in between.

import { useEffect, useRef } from "preact/hooks";
import { api, ask, Problem } from "./api.js";

/**
 * @typedef {import("./api.js").Schemas["Change"]} Change
 * @typedef {{ after?: string }} Cursor position in the feed, which a caller can store and continue from
 */

/** Subscribes to the changes of all users. Requires the scope `videos/changes` or `videos/admin`. */
export const ALL_USERS = "*";

/** Cursor after the newest change. */
const NOW = "now";
const PERIOD_MS = 5000;
/** Longest wait between attempts while the service fails. */
const MAX_WAIT_MS = 300_000;
/** Changes per request. After MAX_PAGES requests, a poll skips the rest, and the caller reads its list again. */
const LIMIT = 100;
const MAX_PAGES = 10;

/** Call `onChanges` with new changes of one or all owners, or with null if changes were skipped because there were too many.
 *
 * If `onChanges` rejects with a Problem, the same changes are delivered again later. The subscription starts at `cursor`,
 * or at the newest change.
 * @param {string | null} owner id of the owner, ALL_USERS, or null for no subscription
 * @param {(changes: Change[] | null) => Promise<unknown> | void} onChanges
 * @param {Cursor} [cursor] */
export function useChanges(owner, onChanges, cursor) {
  const latest = useRef(onChanges);
  latest.current = onChanges;
  useEffect(() => {
    if (owner === null) return;
    const stop = new AbortController();
    const deliver = async (/** @type {Change[] | null} */ changes) => {
      if (!stop.signal.aborted) await latest.current(changes);
    };
    void subscribe(owner === ALL_USERS ? undefined : owner, deliver, cursor ?? {}, stop.signal);
    return () => stop.abort();
  }, [owner]);
}

/** Poll the feed until `signal` is aborted or the API rejects the request permanently. Retries with exponential backoff.
 * @param {string | undefined} userId
 * @param {(changes: Change[] | null) => Promise<void>} deliver @param {Cursor} cursor @param {AbortSignal} signal */
export async function subscribe(userId, deliver, cursor, signal) {
  for (let failures = 0; !signal.aborted; ) {
    let wait = PERIOD_MS;
    try {
      await poll(userId, deliver, cursor, signal);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      if (isPermanent(error)) return;
      failures += 1;
      wait = Math.max(Math.min(PERIOD_MS * 2 ** failures, MAX_WAIT_MS), (error.retryAfter ?? 0) * 1000);
    }
    await waitUntilVisible(wait, signal);
  }
}

/** Read the changes since the cursor, and advance it.
 * @param {string | undefined} userId @param {(changes: Change[] | null) => Promise<void>} deliver
 * @param {Cursor} cursor @param {AbortSignal} signal */
async function poll(userId, deliver, cursor, signal) {
  const read = async (/** @type {string} */ after) =>
    (await ask(api.GET("/v1/changes", { params: { query: { userId, after, limit: LIMIT } }, signal }))).data;
  for (let page = 0; page < MAX_PAGES; page++) {
    const found = await read(cursor.after ?? NOW).catch((error) => {
      if (cursor.after !== undefined && error instanceof Problem && error.status === 410) return null; // the feed has expired this cursor
      throw error;
    });
    if (!found) break;
    if (found.items.length) await deliver(found.items);
    if (signal.aborted) return; // the changes may not have been processed, so a stored cursor must not skip them
    cursor.after = found.nextCursor;
    if (found.caughtUp) return;
  }
  const { nextCursor } = await read(NOW); // the caller reads its list after this cursor, so it misses no change
  await deliver(null);
  cursor.after = nextCursor;
}

/** Whether a retry cannot succeed, such as without a feed or without permission. @param {Problem} problem */
function isPermanent({ status }) {
  return status >= 400 && status < 500 && ![401, 408, 410, 429].includes(status);
}

/** Resolve after this time, once the page is visible and no dialog is open; at once if aborted.
 * @param {number} milliseconds @param {AbortSignal} signal */
function waitUntilVisible(milliseconds, signal) {
  const due = Date.now() + milliseconds;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const isVisible = !document.hidden && !document.querySelector("dialog[open]");
      if (!signal.aborted && (Date.now() < due || !isVisible)) return;
      clearInterval(timer);
      resolve(undefined);
    }, 500);
  });
}
