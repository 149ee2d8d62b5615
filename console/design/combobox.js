// A text box with suggestions, by the combobox pattern of ARIA: arrow keys choose, Enter takes, Escape closes the list.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { texts } from "../texts/index.js";

const TEXT = texts.parts;

/** Milliseconds after a key until the service is asked. */
const PAUSE_MS = 250;

/** The attributes of the text box, of its list and of each option. `size` is the number of suggestions.
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
      event.preventDefault(); // else it closes the dialog, or clears the box
      event.stopPropagation();
      show(false);
    } else if (step && isShown) {
      event.preventDefault();
      const next = chosen + step; // before the first and after the last option is the text itself
      setChosen(next < -1 ? size - 1 : next === size ? -1 : next);
    }
  };
  return {
    isShown, show,
    /** The index of the chosen option; -1 for the text itself. */
    chosen: isShown ? chosen : -1,
    input: {
      role: "combobox", "aria-autocomplete": "list", "aria-controls": id, "aria-expanded": String(isShown),
      "aria-activedescendant": isShown && chosen >= 0 ? `${id}-${chosen}` : undefined, onKeyDown: press, onBlur: () => show(false),
    },
    list: {
      role: "listbox", class: "suggestions", id, "aria-label": TEXT.suggestions,
      onMouseDown: (/** @type {Event} */ event) => event.preventDefault(), // the box keeps the focus
    },
    option: (/** @type {number} */ index) => ({ id: `${id}-${index}`, role: "option", "aria-selected": String(index === chosen) }),
  };
}

/** The suggestions for a text. `look` asks for them after a pause in typing, `stop` discards an answer on its way.
 * @template T @param {(text: string, signal: AbortSignal) => Promise<T[]>} ask a failure suggests nothing */
export function useSuggestions(ask) {
  const [found, setFound] = useState(/** @type {T[]} */ ([]));
  const timer = useRef(0);
  const request = useRef(new AbortController());
  const stop = () => {
    clearTimeout(timer.current);
    request.current.abort();
    request.current = new AbortController();
  };
  const look = (/** @type {string} */ text) => {
    stop();
    if (!text) return setFound([]);
    const { signal } = request.current;
    timer.current = setTimeout(async () => {
      const answer = await ask(text, signal).catch(() => []);
      if (!signal.aborted) setFound(answer);
    }, PAUSE_MS);
  };
  useEffect(() => stop, []);
  return { found, look, stop };
}
