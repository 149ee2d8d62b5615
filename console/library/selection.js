// Selection of videos in the library.

import { useState } from "preact/hooks";

/** @typedef {ReturnType<typeof useSelection>} Selection */

/** Return the selection. `ids` are the selectable videos, in the order of the list. @param {string[]} ids */
export function useSelection(ids) {
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  /** Last toggled video, at which a range with Shift starts. */
  const [anchor, setAnchor] = useState("");
  const selected = ids.filter((id) => chosen.has(id)); // without videos that left the list
  return {
    selected,
    has: (/** @type {string} */ id) => chosen.has(id),
    can: (/** @type {string} */ id) => ids.includes(id),
    isAll: ids.length > 0 && selected.length === ids.length,
    toggle: (/** @type {string} */ id, /** @type {boolean} */ isRange) => {
      const isOn = !chosen.has(id);
      const after = new Set(chosen);
      for (const one of isRange ? range(ids, anchor, id) : [id]) isOn ? after.add(one) : after.delete(one);
      setChosen(after);
      setAnchor(id);
    },
    all: () => setChosen(new Set(selected.length === ids.length ? [] : ids)),
    clear: () => setChosen(new Set()),
  };
}

/** Return the ids between two ids, inclusive, in either direction; only the second if either is not in the list.
 * @param {string[]} ids @param {string} first @param {string} second */
export function range(ids, first, second) {
  const [from, to] = [ids.indexOf(first), ids.indexOf(second)].sort((one, other) => one - other);
  return from === undefined || to === undefined || from < 0 ? [second] : ids.slice(from, to + 1);
}
