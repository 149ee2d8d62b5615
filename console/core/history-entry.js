// State of a screen, which is restored when the user returns to it.
//
// The state belongs to one entry of the browser's history: going back restores it, a new link to the same URL does not.

/** @typedef {{ id: string, scroll: number, state: unknown }} Visit scroll position in pixels, and the screen's own state */

const MAX_ENTRIES = 30;

/** @type {Map<string, Visit>} */
const visits = new Map();

/** Return the state of the current history entry. Keeps the MAX_ENTRIES entries used last. @returns {Visit} */
export function visit() {
  if (!history.state?.visit) history.replaceState({ ...history.state, visit: crypto.randomUUID() }, "");
  const id = history.state.visit;
  const known = visits.get(id) ?? { id, scroll: 0, state: null };
  visits.delete(id); // moves it to the end: the first key is the least recently used
  visits.set(id, known);
  for (const oldest of visits.keys()) {
    if (visits.size <= MAX_ENTRIES) break;
    visits.delete(oldest);
  }
  return known;
}
