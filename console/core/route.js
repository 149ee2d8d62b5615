// Route of the page: the fragment of its URL, such as `#/videos/1234?tab=history`.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** @typedef {{ path: string[], query: URLSearchParams }} Route */

/** @type {Set<() => void>} */
const listeners = new Set();

/** Guards that can block a navigation. @type {Set<(address: string) => boolean>} */
const guards = new Set();
/** URL of the page on which navigation is guarded. */
let guardedUrl = "";

addEventListener("hashchange", () => {
  for (const blocks of guards) {
    if (!blocks(location.hash)) continue;
    history.pushState(null, "", guardedUrl); // the browser has already changed the URL
    return;
  }
  guardedUrl = location.href;
  for (const listener of [...listeners]) listener();
});

/** @returns {Route} */
export function route() {
  return parseRoute(location.hash);
}

/** @param {string} address fragment, as `hrefTo` returns it @returns {Route} */
export function parseRoute(address) {
  const [path = "", query = ""] = address.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

/** Guard the page against navigation that would lose unsaved input. Before the page closes, the browser asks the user.
 *
 * `blocks` receives the fragment of each navigation, and returns whether to block it. Null removes the guard.
 * @param {((address: string) => boolean) | null} blocks */
export function useNavigationGuard(blocks) {
  const latest = useRef(blocks);
  latest.current = blocks;
  const isOn = blocks !== null;
  useLayoutEffect(() => {
    if (!isOn) return;
    const close = (/** @type {Event} */ event) => event.preventDefault();
    const guard = (/** @type {string} */ address) => latest.current?.(address) ?? false;
    guardedUrl = location.href;
    guards.add(guard);
    addEventListener("beforeunload", close);
    return () => {
      guards.delete(guard);
      removeEventListener("beforeunload", close);
    };
  }, [isOn]);
}

/** Whether the page has unsaved input. */
export function isNavigationGuarded() {
  return guards.size > 0;
}

/** Return the current route. The component renders again when it changes. */
export function useRoute() {
  const [now, setNow] = useState(route);
  useLayoutEffect(() => { // in the task of the rendering, so that no change of the route comes between
    const listener = () => setNow(route());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return now;
}

/** Return the address of a route for links: `hrefTo(["videos", videoId], { tab: "history" })`.
 *
 * Empty values are omitted. A list becomes one parameter for each value.
 * @param {string[]} path
 * @param {Record<string, string | string[] | undefined | null>} [query] */
export function hrefTo(path, query = {}) {
  const wanted = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const one of [value].flat()) if (one) wanted.append(name, one);
  const text = wanted.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Navigate to an address. `replace` replaces the current history entry.
 * @param {string} address as `hrefTo` returns it
 * @param {{ replace?: boolean }} [options] */
export function navigate(address, { replace = false } = {}) {
  if (replace) location.replace(address);
  else location.assign(address);
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
