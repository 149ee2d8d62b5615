// Entries of a history: who changed what, and when, each in a form that people read.

import { html } from "htm/preact";
import { isStored } from "../core/media.js";
import { hrefTo } from "../core/route.js";
import { formatClock, count, duration, size, time } from "../core/words.js";
import { UserText } from "../design/parts.js";
import { By, entryOf, fieldName, describeAction, partsOf, changeSetLink } from "./words.js";

/**
 * @typedef {import("./requests.js").Entry} Entry
 * @typedef {import("./requests.js").Change} Change
 * @typedef {import("../design/parts.js").Children} Children
 * @typedef {import("./subjects.js").Titles} Titles
 */

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
/** Characters of a value that are shown at once. */
const SHORT = 120;
/** Why a field is left alone that nobody changed. @type {Record<string, string>} */
const WHY = {
  notKept: "not stored: the value was too large for the history", notWritable: "set by the service", gone: "its video is permanently deleted",
};
/** Changes of an entry that are shown at once. */
const FEW = 12;

/** `about` says what an entry is of, where it is not clear; `more` is what can be done with it; `titles` are those of videos
 * that entries of playlists name. In a list of one change set no entry leads to it.
 * @param {{ entries: Entry[], about?: (entry: Entry) => Children, more?: (entry: Entry) => Children, titles?: Titles, isOfSet?: boolean }} props */
export function Timeline({ entries, about, more, titles, isOfSet }) {
  return html`<ol class="timeline">
    ${entries.map((entry) => {
      const set = isOfSet ? null : changeSetLink(entry);
      return html`<li key=${keyOf(entry)}>
        <p><strong>${describeAction(entry)}</strong> by <${By} by=${entry.by} /> <${Moment} at=${entry.at} /></p>
        ${about?.(entry)}
        <${Changes} changes=${entry.changes} titles=${titles} />
        ${entry.omitted && html`<p class="hint">${count(entry.omitted)} more changes are not stored</p>`}
        <div class="entry-actions">
          ${more?.(entry)}
          ${set && html`<a href=${set} aria-label=${`Change set of ${MOMENT.format(entry.at)}`}>Change set</a>`}
        </div>
      </li>`;
    })}
  </ol>`;
}

/** What no two entries share. @param {Entry} entry */
export function keyOf({ videoId, playlistId, sequence }) {
  return `${videoId ?? playlistId} ${sequence}`;
}

/** @param {{ at: number }} props milliseconds of the epoch */
export function Moment({ at }) {
  return html`<time datetime=${new Date(at).toISOString()}>${MOMENT.format(at)}</time>`;
}

/** Who changed a field, that is left alone because of it, and when. @param {import("./requests.js").Skipped} props */
export function UnchangedSince({ by, version, at, reason }) {
  if (reason !== "changedSince") return WHY[reason] ?? reason;
  return html`changed${by && html` by <${By} by=${by} />`}${version && ` in version ${version}`}${at !== undefined && html`, <${Moment} at=${at} />`}`;
}

/** What changed, field by field; many are folded, unless they are all that there is to see.
 * @param {{ changes: Change[], titles?: Titles, isWhole?: boolean }} props */
export function Changes({ changes: all, titles, isWhole }) {
  const changes = all.filter(({ from, to: after }) => from !== undefined || toText(after) !== ""); // that it came empty is no news
  if (!changes.length) return null;
  const rows = (/** @type {Change[]} */ some) => html`<ul class="changes">${some.map((change) => {
    const videoId = entryOf(change.field);
    return html`<li key=${change.field}>${videoId ? html`<${PositionChange} videoId=${videoId} change=${change} titles=${titles} />`
      : html`<${UserText} class="key">${fieldName(change.field)}<//>: <${FromTo} ...${change} />`}</li>`;
  })}</ul>`;
  if (isWhole || changes.length <= FEW) return rows(changes);
  return html`${rows(changes.slice(0, FEW))}
    <details><summary>${count(changes.length - FEW)} more fields</summary>${rows(changes.slice(FEW))}</details>`;
}

/** A video that came into a playlist, moved in it, or left it. @param {{ videoId: string, change: Change, titles?: Titles }} props */
function PositionChange({ videoId, change: { from, to: after }, titles }) {
  return html`<a class="key" href=${hrefTo(["videos", videoId])}><${UserText}>${titles?.get(videoId) ?? videoId}<//></a>: ${
    from === undefined ? html`<ins>added</ins>` : after === undefined ? html`<del>removed</del>` : "moved"}`;
}

/** @param {Change} change */
export function FromTo({ field, fromBytes, toBytes, ...values }) {
  return html`${values.from !== undefined && html`<del><${Value} field=${field} value=${values.from} bytes=${fromBytes} /></del> → `}
    ${values.to === undefined ? html`<em>none</em>` : html`<ins><${Value} field=${field} value=${values.to} bytes=${toBytes} /></ins>`}`;
}

/** A value, long ones behind a click; of the longest only the beginning is kept.
 * @param {{ field: string, value: unknown, bytes?: number }} props */
export function Value({ field, value, bytes }) {
  const cut = bytes && html` <small class="cut">truncated from ${count(bytes)} bytes</small>`;
  const text = toText(value, partsOf(field).at(-1));
  if (text === "") return html`<em>empty</em>`;
  if (text.length <= SHORT) return html`<${UserText} class="value">${text}<//>${cut}`;
  return html`<details><summary><${UserText}>${beginning(text)}<//> …</summary><${UserText} class="value">${text}<//></details>${cut}`;
}

/** A value as people read it; what holds others, without the marks that programs need.
 * @param {unknown} value @param {string} [name] of the field that it is in @returns {string} */
function toText(value, name = "") {
  if (Array.isArray(value)) return value.map((item) => (isPlain(item) ? toText(item) : `(${toText(item)})`)).join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return numberOf(value, name);
  if (isStored(value)) return "a stored file";
  if (value === null || typeof value !== "object") return String(value);
  return Object.entries(value).map(([inner, of]) => [fieldName(`/${inner}`), toText(of, inner)]).filter(([, text]) => text)
    .map((pair) => pair.join(": ")).join("; ");
}

/** @param {number} value @param {string} name */
function numberOf(value, name) {
  if (/^at$|At$/.test(name)) return time(value);
  if (name === "duration") return duration(value);
  if (name === "start") return formatClock(value);
  return name === "fileSize" || name === "size" ? size(value) : String(value);
}

/** @param {unknown} value */
function isPlain(value) {
  return value === null || typeof value !== "object";
}

/** Its beginning, without half of a character at the end. @param {string} text */
function beginning(text) {
  return [...text.slice(0, SHORT)].slice(0, -1).join("");
}
