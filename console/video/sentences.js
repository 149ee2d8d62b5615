// Texts of the API, for people.

import { lookUp } from "../core/lookup.js";
import { asSentence } from "../core/words.js";
import { LABELS } from "./names.js";

/** A sentence without the requests that it recommends to programs, because the page has buttons for them.
 * @param {string} text */
export function humanize(text) {
  return text.replace(/[.;:]\s[^.;:]*\b(?:GET|POST|PUT|PATCH|DELETE) \.{3}\/.*$/, ".");
}

/** The detail of a fault as a sentence, with fields by their labels.
 * @param {string} detail such as "must have `seriesId` with `season` or `episode`" */
export function explain(detail) {
  return asSentence(humanize(detail).replace(/`([^`]+)`/g, (_, name) => lookUp(LABELS, name) ?? name));
}
