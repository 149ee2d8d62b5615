// Entries of a history: what changed, when, and the author.

import { html } from "htm/preact";
import { isStored } from "../core/media.js";
import { hrefTo } from "../core/route.js";
import { formatClock, duration, size, time } from "../core/formats.js";
import { Time, UserText, stateName } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { abridged, diffWords, similarity } from "./diff.js";
import { Author, entryOf, fieldName, describeAction, partsOf, changeSetLink } from "./labels.js";

const TEXT = texts.history.entries;

/**
 * @typedef {import("./requests.js").Entry} Entry
 * @typedef {import("./requests.js").Change} Change
 * @typedef {import("../design/parts.js").Children} Children
 * @typedef {import("./subjects.js").Titles} Titles
 */

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
/** Characters of a value that are shown before it is opened. */
const SHORT = 120;
/** Reasons why a revert skips a field, other than a later change. @type {Record<string, string>} */
const SKIP_REASONS = TEXT.whySkipped;
/** Changes of an entry that are shown before it is opened. */
const FEW = 12;
/** Internal fields of jobs, and the state, which the entry's action states. */
const HIDDEN_OF_JOBS = ["/state", "/attempt", "/input", "/inputHash", "/output"];
/** Fields of a new video that its entry already states, or that have no useful value yet. */
const HIDDEN_OF_NEW_VIDEOS = ["/createdAt", "/userId", "/status", "/origins"];
/** Fields whose values have labels. */
const STATES = ["/status", "/visibility"];
/** Minimum share of unchanged text for a word-by-word comparison, from 0 to 1. */
const SIMILAR = 0.4;

/** List of entries. `about` renders an entry's subject, `more` its actions, and `titles` are the titles of videos in playlists.
 *
 * With `isChangeSet`, all entries belong to one change set: they have no link to it, and processing is not collapsed.
 * @param {{ entries: Entry[], order?: "asc" | "desc", about?: (entry: Entry) => Children, more?: (entry: Entry) => Children, titles?: Titles, isChangeSet?: boolean }} props */
export function Timeline({ entries, order = "desc", about, more, titles, isChangeSet }) {
  const groups = isChangeSet ? entries.map((entry) => ({ entry, steps: [] })) : groupEntries(entries, order);
  return html`<ol class="timeline">
    ${groups.map(({ entry, steps }) => html`<li key=${entry ? keyOf(entry) : "steps"} class=${entry ? "" : "is-processing"}>
      ${entry && html`<${EntryOf} entry=${entry} about=${about} more=${more} titles=${titles} isChangeSet=${isChangeSet} />`}
      ${steps.length > 0 && html`<${Steps} entries=${steps} titles=${titles} />`}
    </li>`)}
  </ol>`;
}

/** @param {{ entry: Entry, about?: (entry: Entry) => Children, more?: (entry: Entry) => Children, titles?: Titles, isChangeSet?: boolean }} props */
function EntryOf({ entry, about, more, titles, isChangeSet }) {
  const set = isChangeSet ? null : changeSetLink(entry);
  return html`<p>${TEXT.byline(html`<strong>${describeAction(entry)}</strong>`, html`<${Author} by=${entry.by} />`, html`<${Time} at=${entry.at} />`)}</p>
    ${about?.(entry)}
    <${Changes} changes=${visibleChanges(entry)} titles=${titles} />
    ${entry.omitted && html`<p class="hint">${TEXT.omitted(entry.omitted)}</p>`}
    <div class="entry-actions">
      ${more?.(entry)}
      ${set && html`<a href=${set} aria-label=${TEXT.changeSetOf(MOMENT.format(entry.at))}>${texts.changeSets.title}</a>`}
    </div>`;
}

/** Processing steps between two changes by people, collapsed to one line.
 * @param {{ entries: Entry[], titles?: Titles }} props entries, oldest first */
function Steps({ entries, titles }) {
  const failed = entries.filter(({ entity, action }) => entity === "job" && action === "failed").length;
  return html`<details class="processed">
    <summary>${TEXT.processed(entries.length)}${failed > 0 && html`<span class="fault">${TEXT.stepsFailed(failed)}</span>`}</summary>
    <ol>${entries.map((entry) => html`<li key=${keyOf(entry)}>
      <p>${TEXT.byline(describeAction(entry), html`<${Author} by=${entry.by} />`, html`<${Time} at=${entry.at} />`)}</p>
      <${Changes} changes=${visibleChanges(entry)} titles=${titles} />
    </li>`)}</ol>
  </details>`;
}

/** Return the changes of an entry to show, without those that its title states. @param {Entry} entry */
function visibleChanges({ entity, action, changes }) {
  const hidden = entity === "job" ? HIDDEN_OF_JOBS : entity === "video" && action === "created" ? HIDDEN_OF_NEW_VIDEOS : [];
  return changes.filter(({ field }) => !hidden.includes(field));
}

/** Group each change by a person with the processing steps that followed it. Steps before the first change are a separate group.
 *
 * A group omits the entry that queued a job if it also contains a later entry of that job.
 * @param {Entry[]} entries @param {"asc" | "desc"} order @returns {{ entry: Entry | null, steps: Entry[] }[]} */
export function groupEntries(entries, order) {
  const oldestFirst = order === "asc" ? entries : [...entries].reverse();
  /** @type {{ entry: Entry | null, steps: Entry[] }[]} */
  const groups = [];
  for (const entry of oldestFirst) {
    const last = groups.at(-1);
    if (!isProcessing(entry)) groups.push({ entry, steps: [] });
    else if (last) last.steps.push(entry);
    else groups.push({ entry: null, steps: [entry] });
  }
  for (const group of groups) {
    const ended = new Set(group.steps.filter(({ action }) => action !== "queued").map(({ entity, kind }) => `${entity} ${kind}`));
    group.steps = group.steps.filter(({ entity, action, kind }) => entity !== "job" || action !== "queued" || !ended.has(`${entity} ${kind}`));
  }
  return order === "asc" ? groups : groups.reverse();
}

/** Whether an entry is a processing step: an entry of a job, a change by a job other than an import, or reported renditions.
 * Transcoders report renditions with a user's token. @param {Entry} entry */
function isProcessing({ entity, by, changes }) {
  if (entity === "job" || (by.kind === "job" && by.id !== "job:import")) return true;
  return entity === "video" && changes.some(({ field }) => /^\/source\/(made|sizes)\b/.test(field));
}

/** Return the unique key of an entry. @param {Entry} entry */
export function keyOf({ videoId, playlistId, sequence }) {
  return `${videoId ?? playlistId} ${sequence}`;
}

/** @param {{ at: number }} props milliseconds of the epoch */
export function ExactTime({ at }) {
  return html`<time datetime=${new Date(at).toISOString()}>${MOMENT.format(at)}</time>`;
}

/** Reason why a revert skips a field, such as a later change with its author and time.
 * @param {import("./requests.js").Skipped} props */
export function SkipReason({ by, version, at, reason }) {
  if (reason !== "changedSince") return SKIP_REASONS[reason] ?? reason;
  return TEXT.changedSince(by && html`<${Author} by=${by} />`, version, at !== undefined && html`<${ExactTime} at=${at} />`);
}

/** List of changed fields. Without `isWhole`, only the first FEW are shown until the user opens the rest.
 * @param {{ changes: Change[], titles?: Titles, isWhole?: boolean }} props */
export function Changes({ changes: all, titles, isWhole }) {
  const changes = all.filter(({ from, to: after }) => from !== undefined || toText(after) !== ""); // a new empty field is not shown
  if (!changes.length) return null;
  const rows = (/** @type {Change[]} */ some) => html`<ul class="changes">${some.map((change) => {
    const videoId = entryOf(change.field);
    return html`<li key=${change.field}>${videoId ? html`<${PositionChange} videoId=${videoId} change=${change} titles=${titles} />`
      : html`<${UserText} class="key">${fieldName(change.field)}<//>: <${FromTo} ...${change} />`}</li>`;
  })}</ul>`;
  if (isWhole || changes.length <= FEW) return rows(changes);
  return html`${rows(changes.slice(0, FEW))}
    <details><summary>${TEXT.moreFields(changes.length - FEW)}</summary>${rows(changes.slice(FEW))}</details>`;
}

/** Change of a playlist entry: added, moved or removed. @param {{ videoId: string, change: Change, titles?: Titles }} props */
function PositionChange({ videoId, change: { from, to: after }, titles }) {
  return html`<a class="key" href=${hrefTo(["videos", videoId])}><${UserText}>${titles?.get(videoId) ?? videoId}<//></a>: ${
    from === undefined ? html`<ins>${TEXT.added}</ins>` : after === undefined ? html`<del>${TEXT.removed}</del>` : TEXT.moved}`;
}

/** Old and new value. Similar texts are compared word by word, and lists of plain values item by item. @param {Change} change */
export function FromTo({ field, fromBytes, toBytes, ...values }) {
  const { from, to: after } = values;
  if (typeof from === "string" && typeof after === "string" && !fromBytes && !toBytes && !isStored(from) && !isStored(after)) {
    const parts = diffWords(from, after);
    if (similarity(parts) >= SIMILAR) return html`<${WordDiff} parts=${parts} />`;
  }
  if (Array.isArray(from) && Array.isArray(after) && [...from, ...after].every(isPlain)) {
    const [removed, added] = [from.filter((item) => !after.includes(item)), after.filter((item) => !from.includes(item))];
    if (removed.length || added.length) return html`<${ListDiff} removed=${removed} added=${added} />`;
  }
  return html`${from !== undefined && html`<del><${Value} field=${field} value=${from} bytes=${fromBytes} /></del> → `}
    ${after === undefined ? html`<em>${texts.common.none}</em>` : html`<ins><${Value} field=${field} value=${after} bytes=${toBytes} /></ins>`}`;
}

/** @param {{ parts: import("./diff.js").Part[] }} props */
function WordDiff({ parts }) {
  return html`<${UserText} class="value">${abridged(parts).map(({ kind, text }) => (kind === "same" ? text
    : kind === "del" ? html`<del class="word">${text}</del>` : html`<ins class="word">${text}</ins>`))}<//>`;
}

/** @param {{ removed: unknown[], added: unknown[] }} props */
function ListDiff({ removed, added }) {
  const items = [...removed.map((item) => html`<del class="word"><${UserText}>${toText(item)}<//></del>`), ...added.map((item) => html`<ins class="word"><${UserText}>${toText(item)}<//></ins>`)];
  return html`${items.map((item, index) => html`${index > 0 && " "}${item}`)}`;
}

/** Value of a field. A long value is collapsed. `bytes` is the size of a value that the history stores truncated.
 * @param {{ field: string, value: unknown, bytes?: number }} props */
export function Value({ field, value, bytes }) {
  const truncated = bytes && html` <small class="truncated">${TEXT.truncated(bytes)}</small>`;
  const text = STATES.includes(field) ? stateName(String(value)) : toText(value, partsOf(field).at(-1));
  if (text === "") return html`<em>${texts.common.empty}</em>`;
  if (text.length <= SHORT) return html`<${UserText} class="value">${text}<//>${truncated}`;
  return html`<details><summary><${UserText}>${truncate(text)}<//> …</summary><${UserText} class="value">${text}<//></details>${truncated}`;
}

/** Format a value for display. Objects and lists become text without JSON syntax.
 * @param {unknown} value @param {string} [name] of its field @returns {string} */
function toText(value, name = "") {
  if (Array.isArray(value)) return value.map((item) => (isPlain(item) ? toText(item) : `(${toText(item)})`)).join(", ");
  if (typeof value === "boolean") return value ? texts.common.yes : texts.common.no;
  if (typeof value === "number") return numberOf(value, name);
  if (isStored(value)) return TEXT.storedFile;
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

/** Return the first SHORT characters, without half of a surrogate pair at the end. @param {string} text */
function truncate(text) {
  return [...text.slice(0, SHORT)].slice(0, -1).join("");
}
