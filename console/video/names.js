// Display names of languages, regions and jobs.

import { lookUp } from "../core/lookup.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video;


const LANGUAGES = new Intl.DisplayNames(texts.language, { type: "language" });
const REGIONS = new Intl.DisplayNames(texts.language, { type: "region" });
/** Names of regions of several countries, which have codes in film catalogues. @type {Record<string, string>} */
const MULTINATIONAL = { XWW: TEXT.regions.world, XEU: TEXT.regions.europe, XAS: TEXT.regions.asia, XNA: TEXT.regions.northAmerica, XSA: TEXT.regions.southAmerica };

/** Labels of the fields of a video. @type {Record<string, string>} */
export const LABELS = texts.fields;

/** Return the name of a language; the tag if it has no name. @param {string} tag BCP 47 tag */
export function languageName(tag) {
  return withName(LANGUAGES, tag);
}

/** Return the name of a region; the code if it has no name. @param {string} code of ISO 3166 or of film catalogues */
export function regionName(code) {
  return lookUp(MULTINATIONAL, code) ?? withName(REGIONS, code);
}

/** Return the title of a job. @param {string} kind such as `transcode.720p` */
export function nameOf(kind) {
  const [name = "", rendition = ""] = kind.split(/\.(.*)/s, 2);
  return `${lookUp(texts.jobs, name) ?? name} ${rendition}`.trim();
}

/** @param {Intl.DisplayNames} names @param {string} code */
function withName(names, code) {
  try {
    return names.of(code) ?? code;
  } catch {
    return code; // the API accepts codes that have no name
  }
}
