// Conversion of the API's messages to texts for users.

import { lookUp } from "../core/lookup.js";
import { asSentence } from "../core/formats.js";
import { LABELS } from "./names.js";

/** Remove the API requests that a message recommends, because the page has buttons for them.
 * @param {string} text */
export function humanize(text) {
  return text.replace(/[.;:]\s[^.;:]*\b(?:GET|POST|PUT|PATCH|DELETE) \.{3}\/.*$/, ".");
}

/** Return an error detail as a sentence, with labels instead of field names.
 * @param {string} detail such as "must have `seriesId` with `season` or `episode`" */
export function explain(detail) {
  return asSentence(humanize(detail).replace(/`([^`]+)`/g, (_, name) => lookUp(LABELS, name) ?? name));
}
