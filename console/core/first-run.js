// Progress of a new owner's first steps, as far as the service does not have it. This browser stores it by user.

const STORED = "first-run";

/** @typedef {{ shared?: boolean, dismissed?: boolean }} Progress */

/** @param {string} subject of the user @returns {Progress} */
export function progressOf(subject) {
  return stored()[subject] ?? {};
}

/** Store that a step is done, or that the checklist is dismissed. @param {string} subject @param {keyof Progress} name */
export function noteProgress(subject, name) {
  try {
    localStorage.setItem(STORED, JSON.stringify({ ...stored(), [subject]: { ...progressOf(subject), [name]: true } }));
  } catch {
    // The browser stores nothing for this page: the checklist appears again.
  }
}

/** @returns {Record<string, Progress>} */
function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}");
  } catch {
    return {};
  }
}
