// What the API says, for people.

/** A sentence without the calls that it recommends to programs: here are buttons for them.
 * @param {string} text */
export function humanize(text) {
  return text.replace(/[.;:]\s[^.;:]*\b(?:GET|POST|PUT|PATCH|DELETE) \.{3}\/.*$/, ".");
}
