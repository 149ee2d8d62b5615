// What an entry of the history says, in words.

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

/** What people call the fields that an entry names. @type {Record<string, string>} */
const LABELS = { ...texts.fields, ...TEXT.fields };

/** @type {Record<string, string>} */
const ACTIONS = TEXT.actions;

/** Who is not a person. @type {Record<string, string>} */
const OTHERS = { "job:import": TEXT.authors.import, "dynamodb.amazonaws.com": TEXT.authors.database, unknown: TEXT.authors.unknown };

/** A field by name, such as `Metadata › camera`. @param {string} pointer */
export function fieldName(pointer) {
  const [first = "", ...rest] = partsOf(pointer);
  const isFree = first === "metadata" || first === "origins";
  return [lookUp(LABELS, first) ?? first, ...rest.map((part) => (isFree ? part : lookUp(LABELS, part) ?? part))].join(" › ");
}

/** The keys that a JSON Pointer (RFC 6901) leads along. @param {string} pointer */
export function partsOf(pointer) {
  return pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** What an entry says happened, such as `Changed` or `Poster: done`. @param {Entry} entry */
export function describeAction(entry) {
  const { entity, kind, action, attempt } = entry;
  if (entity === "video") return ACTIONS[action] ?? action;
  const done = (ACTIONS[action] ?? action).toLowerCase();
  if (entity === "job") return attempt && attempt > 1 ? TEXT.jobAgain(nameOf(kind ?? ""), done, attempt) : TEXT.job(nameOf(kind ?? ""), done);
  const name = entry.changes.find(({ field }) => field === "/name");
  return html`${subjectName(entry, name?.to ?? name?.from)}: ${done}`;
}

/** The video that a change put into a playlist, moved, or took out; undefined: it is about something else. @param {string} pointer */
export function entryOf(pointer) {
  const [first, videoId] = partsOf(pointer);
  return first === "entries" ? videoId : undefined;
}

/** What lies beside a video, such as `Credit of Ada`; or the playlist. @param {Subject} subject @param {unknown} [name] */
export function subjectName({ entity, personId, region, language }, name) {
  if (entity === "credit") return TEXT.creditOf(html`<${UserText}>${name ?? personId}<//>`);
  if (entity === "release") return TEXT.titlesOf([region && regionName(region), language && languageName(language)].filter(Boolean).join(", "));
  if (entity === "captions") return TEXT.captionsOf(languageName(language ?? ""));
  return TEXT.entities[entity];
}

/** Whoever did it. @param {{ by: Entry["by"] }} props */
export function By({ by: { kind, id } }) {
  if (kind === "person") return html`<${UserText}>${id}<//>`;
  const other = lookUp(OTHERS, id);
  if (other) return html`<${Fragment}>${other}<//>`;
  return html`<${Fragment}>${TEXT.otherAuthor(kind, html`<${UserText}>${id.replace(/^job:/, "")}<//>`)}<//>`;
}

/** Where a change is shown together with all that was written with it; null: nowhere. Of what jobs do only imports make
 * change sets, and what they bring may say who created it then. @param {Entry} entry */
export function changeSetLink({ entity, correlationId, by, action }) {
  const isOfSet = correlationId && entity !== "job" && (by.kind === "person" || by.id === "job:import" || action === "created");
  return isOfSet ? hrefTo(["changesets", correlationId]) : null;
}
