// What an entry of the history says, in words.

import { Fragment } from "preact";
import { html } from "htm/preact";
import { lookUp } from "../core/lookup.js";
import { hrefTo } from "../core/route.js";
import { UserText } from "../design/parts.js";
import { LABELS as VIDEO } from "../video/labels.js";
import { languageName, nameOf, regionName } from "../video/names.js";

/**
 * @typedef {import("./requests.js").Entry} Entry
 * @typedef {import("./requests.js").Subject} Subject
 */

/** What people call the fields that an entry names. @type {Record<string, string>} */
const LABELS = {
  ...VIDEO,
  state: "State", contentType: "Content type", arrivedAt: "Arrived", key: "Key", etag: "ETag", attempt: "Attempt", input: "Input", inputHash: "Input hash", output: "Output", error: "Error",
  job: "Job", characters: "Characters", types: "Types", attributes: "Attributes", addedAt: "Added", average: "Average", votes: "Votes",
  name: "Name", ordering: "Position", roles: "Roles", text: "Text", cues: "Cues", size: "Size", origin: "Origin", chapters: "Chapters", start: "Start", titles: "Titles", imported: "Imported ratings", entries: "Video",
};

/** @type {Record<string, string>} */
const ACTIONS = {
  created: "Created", changed: "Changed", deleted: "Deleted", restored: "Restored", expired: "Expired", removed: "Removed",
};

/** Who is not a person. @type {Record<string, string>} */
const OTHERS = {
  "job:import": "an import", "dynamodb.amazonaws.com": "the database", unknown: "an unknown writer",
};

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
  if (entity === "job") return `${nameOf(kind ?? "")}: ${done}${attempt && attempt > 1 ? `, attempt ${attempt}` : ""}`;
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
  if (entity === "credit") return html`Credit of <${UserText}>${name ?? personId}<//>`;
  if (entity === "release") return `Titles, ${[region && regionName(region), language && languageName(language)].filter(Boolean).join(", ")}`;
  if (entity === "captions") return `Captions, ${languageName(language ?? "")}`;
  return { chapters: "Chapters", rating: "Ratings", playlist: "Playlist", video: "Video", job: "Job" }[entity];
}

/** Whoever did it. @param {{ by: Entry["by"] }} props */
export function By({ by: { kind, id } }) {
  if (kind === "person") return html`<${UserText}>${id}<//>`;
  const other = lookUp(OTHERS, id);
  if (other) return html`<${Fragment}>${other}<//>`;
  return html`the ${kind} <${UserText}>${id.replace(/^job:/, "")}<//>`;
}

/** Where a change is shown together with all that was written with it; null: nowhere. Of what jobs do only imports make
 * change sets, and what they bring may say who created it then. @param {Entry} entry */
export function changeSetLink({ entity, correlationId, by, action }) {
  const isOfSet = correlationId && entity !== "job" && (by.kind === "person" || by.id === "job:import" || action === "created");
  return isOfSet ? hrefTo(["changesets", correlationId]) : null;
}
