// Hooks that load data from the API.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/**
 * @template T
 * @typedef {{ value: T | null, error: unknown, isLoading: boolean, reload: () => void, set: (value: T) => void }} Loaded
 */

/** Return the result of `load`, which runs again when one of `inputs` changes. A changed input discards the old value.
 *
 * An error stays until the next result, so that polling does not hide and show it repeatedly. `set` replaces the value, and
 * aborts a running load, whose result may be older.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown[]} inputs
 * @returns {Loaded<T>} */
export function useLoad(load, inputs) {
  const [state, setState] = useState(/** @type {{ value: T | null, error: unknown, isLoading: boolean }} */ ({
    value: null, error: null, isLoading: true,
  }));
  const [round, setRound] = useState(0);
  const last = useRef(inputs);
  const running = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => {
    const stop = running.current = new AbortController();
    const isNewInput = last.current !== inputs && last.current.some((input, index) => input !== inputs[index]);
    last.current = inputs;
    setState((before) => ({ ...(isNewInput ? { value: null, error: null } : before), isLoading: true }));
    load(stop.signal).then(
      (value) => stop.signal.aborted || setState({ value, error: null, isLoading: false }),
      (error) => stop.signal.aborted || setState((before) => ({ value: before.value, error, isLoading: false })),
    );
    return () => stop.abort();
  }, [...inputs, round]);
  const reload = useCallback(() => setRound((number) => number + 1), []);
  const set = useCallback((/** @type {T} */ value) => {
    running.current?.abort();
    setState({ value, error: null, isLoading: false });
  }, []);
  return { ...state, reload, set };
}

/** `more` reads the next page, or repeats the request that failed.
 *
 * `check` reads the first page again and updates the shown items in place. `changeCount` is the number of items that were added to
 * this page or removed from it; `showChanges` shows them.
 * @template T
 * @typedef {{ items: T[], error: unknown, isLoading: boolean, isDone: boolean, more: () => void, reload: () => void,
 *   change: (change: (items: T[]) => T[]) => void, check: () => Promise<void>, changeCount: number, showChanges: () => void }} Pages
 */

/**
 * @template T
 * @typedef {{ items: T[], nextCursor: string | null }} Page
 */

/** Loaded items of a list, with the cursor of the next page; null at the end of the list.
 * @template T
 * @typedef {{ items: T[], cursor: string | null | undefined }} Snapshot */

/** Load a list page by page. `load` receives the cursor of the page, undefined for the first. A changed input starts a new list.
 * `reload` reads the list again, and shows the current items until the response.
 *
 * `onSnapshot` receives the loaded items after each change, and `snapshot` restores them. `key` returns the unique key of an item,
 * which `check` requires.
 * @template T
 * @param {(cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>} load
 * @param {unknown[]} inputs
 * @param {{ snapshot?: Snapshot<T> | null, onSnapshot?: (snapshot: Snapshot<T>) => void, key?: (item: T) => unknown }} [options]
 * @returns {Pages<T>} */
export function usePages(load, inputs, { snapshot, onSnapshot, key = (item) => item } = {}) {
  const [state, setState] = useState(/** @type {{ items: T[], cursor: string | null | undefined, error: unknown, isLoading: boolean }} */ ({
    items: [], cursor: undefined, error: null, isLoading: !snapshot, ...snapshot,
  }));
  const [round, setRound] = useState(0);
  const restored = useRef(snapshot);
  const loaded = useRef(/** @type {unknown[] | null} */ (null));
  const stop = useRef(new AbortController());
  const isBusy = useRef(false);
  /** Cursor of the last requested page. */
  const requested = useRef(/** @type {string | undefined} */ (undefined));
  /** First page at the last `check`; null before the first check, and after a reload or `showChanges`. */
  const [first, setFirst] = useState(/** @type {Page<T> | null} */ (null));
  const checks = useRef(0);

  /** @param {string | undefined} cursor */
  const ask = (cursor) => {
    const { signal } = stop.current;
    isBusy.current = true;
    requested.current = cursor;
    setState((before) => ({ ...before, error: null, isLoading: true }));
    load(cursor, signal).then(
      (page) => {
        if (signal.aborted) return;
        isBusy.current = false;
        setState((before) => ({
          items: cursor ? [...before.items, ...page.items] : page.items,
          cursor: page.nextCursor, error: null, isLoading: false,
        }));
      },
      (error) => {
        if (signal.aborted) return;
        isBusy.current = false;
        setState((before) => ({ ...before, error, isLoading: false }));
      },
    );
  };

  useEffect(() => {
    stop.current = new AbortController();
    // While the same list is reloaded, its items stay, because an item may have an open dialog.
    const isSame = loaded.current?.every((input, index) => input === inputs[index]);
    loaded.current = inputs;
    if (restored.current) {
      restored.current = null;
    } else {
      if (!isSame) setState({ items: [], cursor: undefined, error: null, isLoading: true });
      setFirst(null);
      ask(undefined);
    }
    return () => stop.current.abort();
  }, [...inputs, round]);

  useLayoutEffect(() => {
    if (onSnapshot && state.cursor !== undefined) onSnapshot({ items: state.items, cursor: state.cursor });
  }, [state]);

  const check = async () => {
    const { signal } = stop.current;
    const number = ++checks.current;
    const page = await load(undefined, signal).catch((error) => {
      if (!signal.aborted) throw error;
      return null;
    });
    if (!page || signal.aborted || number !== checks.current) return;
    const now = new Map(page.items.map((item) => [key(item), item]));
    setState((before) => ({ ...before, items: before.items.map((item) => now.get(key(item)) ?? item) }));
    setFirst(page);
  };
  const showChanges = () => {
    if (!first) return;
    stop.current.abort(); // a page in flight continues the old list
    stop.current = new AbortController();
    isBusy.current = false;
    setState({ items: first.items, cursor: first.nextCursor, error: null, isLoading: false });
    setFirst(null);
  };

  return {
    check, showChanges,
    changeCount: first && state.cursor !== undefined ? differences(state.items, first, key) : 0,
    items: state.items,
    error: state.error,
    isLoading: state.isLoading,
    isDone: state.cursor === null,
    more: () => {
      if (isBusy.current) return;
      if (state.error) ask(requested.current);
      else if (state.cursor !== null) ask(state.cursor);
    },
    reload: useCallback(() => setRound((number) => number + 1), []),
    change: (change) => setState((before) => ({ ...before, items: change(before.items) })),
  };
}

/** Return how many items were added to the start of a list or removed from it. Moved items do not count.
 * @template T
 * @param {T[]} shown @param {Page<T>} first @param {(item: T) => unknown} key */
export function differences(shown, { items, nextCursor }, key) {
  const [before, now] = [new Set(shown.map(key)), new Set(items.map(key))];
  const isWhole = nextCursor === null;
  const lastBefore = isWhole ? shown.length : shown.findLastIndex((item) => now.has(key(item)));
  const lastNow = isWhole || lastBefore < 0 ? items.length : items.findLastIndex((item) => before.has(key(item)));
  const came = items.slice(0, lastNow).filter((item) => !before.has(key(item)));
  return came.length + shown.slice(0, Math.max(lastBefore, 0)).filter((item) => !now.has(key(item))).length;
}

/** Run an action of the user, one attempt at a time. `error` is the error of the last attempt.
 * @param {() => Promise<void>} attempt */
export function useAttempt(attempt) {
  const [state, setState] = useState(/** @type {{ error: unknown, isBusy: boolean }} */ ({ error: null, isBusy: false }));
  const run = async () => {
    if (state.isBusy) return;
    setState({ error: null, isBusy: true });
    try {
      await attempt();
      setState({ error: null, isBusy: false });
    } catch (error) {
      setState({ error, isBusy: false });
    }
  };
  return { ...state, run };
}

/** Call `callback` every `milliseconds` while `isOn` is true and the page is visible.
 * @param {() => void} callback
 * @param {number} milliseconds
 * @param {boolean} isOn */
export function useInterval(callback, milliseconds, isOn) {
  const latest = useRef(callback);
  latest.current = callback;
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => document.hidden || latest.current(), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, isOn]);
}
