// What a screen keeps for whoever comes back to it.
//
// It belongs to an entry of the browser's history: going back finds it again, and a link to the same address begins anew.

/** @typedef {{ id: string, scroll: number, kept: unknown }} Visit how far down the page was, and what the screen kept */

const MOST = 30;

/** @type {Map<string, Visit>} */
const visits = new Map();

/** The present entry of the history. @returns {Visit} */
export function visit() {
  if (!history.state?.visit) history.replaceState({ ...history.state, visit: crypto.randomUUID() }, "");
  const id = history.state.visit;
  const known = visits.get(id) ?? { id, scroll: 0, kept: null };
  visits.delete(id); // so that the one that was not seen for longest comes first
  visits.set(id, known);
  for (const oldest of visits.keys()) {
    if (visits.size <= MOST) break;
    visits.delete(oldest);
  }
  return known;
}
