// Where somebody is: the part of the address behind `#`, such as `#/videos/1234?tab=history`.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** @typedef {{ path: string[], query: URLSearchParams }} Route */

/** @type {Set<() => void>} */
const followers = new Set();

/** Who may hold people back. @type {Set<(address: string) => boolean>} */
const holds = new Set();
/** Where they are held. */
let held = "";

addEventListener("hashchange", () => {
  for (const asks of holds) {
    if (!asks(location.hash)) continue;
    history.pushState(null, "", held); // the browser is there already, and comes back
    return;
  }
  held = location.href;
  for (const follow of [...followers]) follow();
});

/** @returns {Route} */
export function route() {
  return parseRoute(location.hash);
}

/** @param {string} address what `to` returned @returns {Route} */
export function parseRoute(address) {
  const [path = "", query = ""] = address.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

/** Hold people back who would lose something: `asks` gets each address that somebody wants to go to, and returns whether to
 * stay. The browser itself asks before the page is closed. null: they may go.
 * @param {((address: string) => boolean) | null} asks */
export function useHold(asks) {
  const latest = useRef(asks);
  latest.current = asks;
  const isOn = asks !== null;
  useLayoutEffect(() => {
    if (!isOn) return;
    const close = (/** @type {Event} */ event) => event.preventDefault();
    const ask = (/** @type {string} */ address) => latest.current?.(address) ?? false;
    held = location.href;
    holds.add(ask);
    addEventListener("beforeunload", close);
    return () => {
      holds.delete(ask);
      removeEventListener("beforeunload", close);
    };
  }, [isOn]);
}

/** Whether somebody would lose something by going away. */
export function isHeld() {
  return holds.size > 0;
}

/** The present route; whoever uses it is drawn again when it changes. */
export function useRoute() {
  const [now, setNow] = useState(route);
  useEffect(() => {
    const follow = () => setNow(route());
    followers.add(follow);
    return () => void followers.delete(follow);
  }, []);
  return now;
}

/** The address of a place, for links: `to(["videos", videoId], { tab: "history" })`. Empty values are left out.
 * @param {string[]} path
 * A list is there once for each of its values.
 * @param {string[]} path
 * @param {Record<string, string | string[] | undefined | null>} [query] */
export function hrefTo(path, query = {}) {
  const wanted = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const one of [value].flat()) if (one) wanted.append(name, one);
  const text = wanted.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Go there; with `replace` the way back does not lead here.
 * @param {string} address what `to` returned
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
