// Languages, regions and jobs by name.

import { lookUp } from "../core/lookup.js";
import { JOBS } from "./labels.js";

const LANGUAGES = new Intl.DisplayNames(undefined, { type: "language" });
const REGIONS = new Intl.DisplayNames(undefined, { type: "region" });
/** @type {Record<string, string>} */
const WIDER = { XWW: "Worldwide", XEU: "Europe", XAS: "Asia", XNA: "North America", XSA: "South America" };

/** @param {string} tag of BCP 47 */
export function languageName(tag) {
  return withName(LANGUAGES, tag);
}

/** @param {string} code of ISO 3166, or of film catalogues */
export function regionName(code) {
  return lookUp(WIDER, code) ?? withName(REGIONS, code);
}

/** What a job does, as a heading. @param {string} kind such as `transcode.720p` */
export function nameOf(kind) {
  const [name = "", rendition = ""] = kind.split(/\.(.*)/s, 2);
  return `${lookUp(JOBS, name)?.label ?? name} ${rendition}`.trim();
}

/** @param {Intl.DisplayNames} names @param {string} code */
function withName(names, code) {
  try {
    return names.of(code) ?? code;
  } catch {
    return code; // not all that the API takes has a name
  }
}
