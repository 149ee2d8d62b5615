// Texts of history entries.

import { Fragment } from "preact";
import { html } from "htm/preact";
import { lookUp } from "../core/lookup.js";
import { hrefTo } from "../core/route.js";
import { UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName, nameOf, regionName } from "../video/names.js";

const TEXT = texts.history;

/**
 * @typedef {import("./requests.js").Entry} Entry
 * @typedef {import("./requests.js").Subject} Subject
 */

/** Labels of fields. @type {Record<string, string>} */
const LABELS = { ...texts.fields, ...TEXT.fields };

/** @type {Record<string, string>} */
const ACTIONS = TEXT.actions;

/** Labels of authors that are not people, by id. @type {Record<string, string>} */
const AUTHORS = { "job:import": TEXT.authors.import, "dynamodb.amazonaws.com": TEXT.authors.database, unknown: TEXT.authors.unknown };

/** Return the label of a field, such as `Metadata › camera`. @param {string} pointer */
export function fieldName(pointer) {
  const [first = "", ...rest] = partsOf(pointer);
  const isFree = first === "metadata" || first === "origins";
  return [lookUp(LABELS, first) ?? first, ...rest.map((part) => (isFree ? part : lookUp(LABELS, part) ?? part))].join(" › ");
}

/** Parse a JSON Pointer (RFC 6901) into its unescaped keys. @param {string} pointer */
export function partsOf(pointer) {
  return pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Return the action of an entry, such as `Changed` or `Poster: done`. @param {Entry} entry */
export function describeAction(entry) {
  const { entity, kind, action, attempt } = entry;
  if (entity === "video") return ACTIONS[action] ?? action;
  const done = (ACTIONS[action] ?? action).toLowerCase();
  if (entity === "job") return attempt && attempt > 1 ? TEXT.jobAgain(nameOf(kind ?? ""), done, attempt) : TEXT.job(nameOf(kind ?? ""), done);
  const name = entry.changes.find(({ field }) => field === "/name");
  return html`${subjectName(entry, name?.to ?? name?.from)}: ${done}`;
}

/** Return the id of the video in the path of a playlist entry; undefined for other paths. @param {string} pointer */
export function entryOf(pointer) {
  const [first, videoId] = partsOf(pointer);
  return first === "entries" ? videoId : undefined;
}

/** Return the name of an entity, such as `Credit of Ada` or `Playlist`. @param {Subject} subject @param {unknown} [name] */
export function subjectName({ entity, personId, region, language }, name) {
  if (entity === "credit") return TEXT.creditOf(html`<${UserText}>${name ?? personId}<//>`);
  if (entity === "release") return TEXT.titlesOf([region && regionName(region), language && languageName(language)].filter(Boolean).join(", "));
  if (entity === "captions") return TEXT.captionsOf(languageName(language ?? ""));
  return TEXT.entities[entity];
}

/** Author of an entry. @param {{ by: Entry["by"] }} props */
export function Author({ by: { kind, id } }) {
  if (kind === "person") return html`<${UserText}>${id}<//>`;
  const other = lookUp(AUTHORS, id);
  if (other) return html`<${Fragment}>${other}<//>`;
  return html`<${Fragment}>${TEXT.otherAuthor(kind, html`<${UserText}>${id.replace(/^job:/, "")}<//>`)}<//>`;
}

/** Return the link to the change set of an entry; null if it has none.
 *
 * Of all jobs, only imports write change sets. An imported entity may name another author in its `created` entry. @param {Entry} entry */
export function changeSetLink({ entity, correlationId, by, action }) {
  const isInChangeSet = correlationId && entity !== "job" && (by.kind === "person" || by.id === "job:import" || action === "created");
  return isInChangeSet ? hrefTo(["changesets", correlationId]) : null;
}
