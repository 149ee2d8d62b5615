// Progress of a new owner's first steps, in this browser by user. The service does not store these steps.

const STORAGE_KEY = "first-run";

/** @typedef {{ shared?: boolean, dismissed?: boolean }} Progress */

/** @param {string} subject of the user @returns {Progress} */
export function progressOf(subject) {
  return stored()[subject] ?? {};
}

/** Store that a step is done, or that the checklist is dismissed. @param {string} subject @param {keyof Progress} name */
export function noteProgress(subject, name) {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify({ ...stored(), [subject]: { ...progressOf(subject), [name]: true } }));
  } catch {
    // Without storage, the checklist is shown again at the next visit.
  }
}

/** @returns {Record<string, Progress>} */
function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "{}");
  } catch {
    return {};
  }
}
