// Text box with suggestions, in the combobox pattern of ARIA: arrow keys select, Enter accepts, Escape closes the list.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { texts } from "../texts/index.js";

const TEXT = texts.parts;

/** Milliseconds after a key press until the request is sent. */
const PAUSE_MS = 250;

/** Return the attributes of the text box, its list and its options. `size` is the number of suggestions.
 * @param {number} size */
export function useCombobox(size) {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const isShown = isOpen && size > 0;
  const show = (/** @type {boolean} */ isNowOpen) => {
    setOpen(isNowOpen);
    setChosen(-1);
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && isShown) {
      event.preventDefault(); // otherwise Escape closes the dialog, or clears the text box
      event.stopPropagation();
      show(false);
    } else if (step && isShown) {
      event.preventDefault();
      const next = chosen + step; // -1, before the first and after the last option, is the typed text
      setChosen(next < -1 ? size - 1 : next === size ? -1 : next);
    }
  };
  return {
    isShown, show,
    /** Index of the selected option; -1 for the typed text. */
    chosen: isShown ? chosen : -1,
    input: {
      role: "combobox", "aria-autocomplete": "list", "aria-controls": id, "aria-expanded": String(isShown),
      "aria-activedescendant": isShown && chosen >= 0 ? `${id}-${chosen}` : undefined, onKeyDown: press, onBlur: () => show(false),
    },
    list: {
      role: "listbox", class: "suggestions", id, "aria-label": TEXT.suggestions,
      onMouseDown: (/** @type {Event} */ event) => event.preventDefault(), // keeps the focus in the text box
    },
    option: (/** @type {number} */ index) => ({ id: `${id}-${index}`, role: "option", "aria-selected": String(index === chosen) }),
  };
}

/** Load suggestions for a text. `update` sends the request after a pause in typing; `stop` cancels it.
 * @template T @param {(text: string, signal: AbortSignal) => Promise<T[]>} ask an error results in no suggestions */
export function useSuggestions(ask) {
  const [found, setFound] = useState(/** @type {T[]} */ ([]));
  const timer = useRef(0);
  const request = useRef(new AbortController());
  const stop = () => {
    clearTimeout(timer.current);
    request.current.abort();
    request.current = new AbortController();
  };
  const update = (/** @type {string} */ text) => {
    stop();
    if (!text) return setFound([]);
    const { signal } = request.current;
    timer.current = setTimeout(async () => {
      const suggestions = await ask(text, signal).catch(() => []);
      if (!signal.aborted) setFound(suggestions);
    }, PAUSE_MS);
  };
  useEffect(() => stop, []);
  return { found, update, stop };
}
