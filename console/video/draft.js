// Draft of a video's fields: the texts of its form. They become values when they are compared or sent.

import { lengthOf } from "../design/parts.js";
import { withTag as joined } from "../design/tags.js";
import { texts } from "../texts/index.js";
import { keyOf, METADATA, pointerTo } from "./fields.js";
import { INPUTS, LIMITS } from "./schema.js";

const TEXT = texts.video.faults;

/**
 * @typedef {import("./fields.js").Values} Values
 * @typedef {"text" | "number" | "boolean"} Kind
 * @typedef {{ id: number, key: string, value: string, kind: Kind }} Pair Metadata key with its typed value.
 * @typedef {{ texts: Record<string, string>, tags: string[], tag: string, pairs: Pair[] }} Draft `tag` is the one being typed.
 */

const TEXTS = Object.keys(INPUTS).filter((name) => INPUTS[name] !== "list");

let last = 0;

/** @param {Values} values @returns {Draft} */
export function draftOf(values) {
  const typed = Object.fromEntries(TEXTS.map((name) => [name, textOf(name, values.get(`/${name}`))]));
  const pairs = [...values].filter(([pointer]) => pointer.startsWith(METADATA)).map(([pointer, value]) => newPair(keyOf(pointer), value));
  return { texts: typed, tags: [.../** @type {string[]} */ (values.get("/tags") ?? [])], tag: "", pairs };
}

/** @param {string} [key] @param {unknown} [value] @returns {Pair} */
export function newPair(key = "", value = "") {
  const kind = typeof value === "number" || typeof value === "boolean" ? typeof value : "text";
  return { id: ++last, key, value: String(value), kind: /** @type {Kind} */ (kind) };
}

/** Return the values of a draft. An unchanged text keeps its original value, without a conversion.
 * @param {Draft} draft @param {Values} before @returns {Values} */
export function valuesIn(draft, before) {
  /** @type {Values} */
  const values = new Map();
  for (const name of TEXTS) {
    const old = before.get(`/${name}`);
    const text = draft.texts[name] ?? "";
    const value = text === textOf(name, old) ? old : parseField(name, text);
    if (value !== undefined) values.set(`/${name}`, value);
  }
  const tags = withTag(draft).tags;
  if (tags.length) values.set("/tags", tags);
  for (const { key, value, kind } of draft.pairs.filter(isFilled)) {
    values.set(pointerTo(key), kind === "text" ? value : kind === "boolean" ? value === "true" : Number(value || NaN));
  }
  return values;
}

/** Return the draft with the tag that is being typed added to its tags. @param {Draft} draft @returns {Draft} */
export function withTag(draft) {
  return { ...draft, tags: joined(draft.tags, draft.tag), tag: "" };
}

/** Validate a draft in the browser. Returns errors by field name or pair id.
 * @param {Draft} draft @returns {Map<string | number, string>} */
export function faultsIn({ texts: typed, pairs }) {
  /** @type {Map<string | number, string>} */
  const faults = new Map();
  const of = (/** @type {string} */ name) => (typed[name] ?? "").trim();
  for (const [name, most] of Object.entries(LIMITS)) {
    if (lengthOf(typed[name] ?? "") > most) faults.set(name, TEXT.tooLong(most));
  }
  if (!of("title")) faults.set("title", TEXT.noTitle);
  if (/[\r\n]/.test(of("title"))) faults.set("title", TEXT.oneLine);
  for (const name of ["releaseYear", "season", "episode"]) {
    if (of(name) && !/^[0-9]{1,15}$/.test(of(name))) faults.set(name, TEXT.wholeNumber);
  }
  if (of("slug") && !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(of("slug"))) faults.set("slug", TEXT.slug);
  if (!of("seriesId") && (of("season") || of("episode"))) faults.set("seriesId", TEXT.noSeries);
  const [from, until] = [of("publishAt"), of("expiresAt")];
  if (from && until && new Date(until) <= new Date(from)) faults.set("expiresAt", TEXT.tooEarly(texts.fields.publishAt));
  const keys = new Set();
  for (const { id, key, value, kind } of pairs.filter(isFilled)) {
    if (keys.has(key)) faults.set(id, TEXT.keyTaken);
    else if (kind === "number" && !Number.isFinite(Number(value.trim() || NaN))) faults.set(id, TEXT.notANumber);
    keys.add(key);
  }
  return faults;
}

/** @param {Pair} pair */
function isFilled({ key, value, kind }) {
  return Boolean(key || (kind !== "boolean" && value));
}

/** @param {string} name @param {unknown} value */
function textOf(name, value) {
  if (value === undefined) return "";
  return INPUTS[name] === "time" && typeof value === "number" ? localTime(value) : String(value);
}

/** @param {string} name @param {string} text */
function parseField(name, text) {
  if (name === "title") return text;
  if (text.trim() === "") return undefined;
  if (INPUTS[name] === "number") return /^\d{1,15}$/.test(text.trim()) ? Number(text) : text;
  if (INPUTS[name] === "time") return Math.floor(new Date(text).getTime() / 1000);
  return text;
}

/** Format a time for an input of type `datetime-local`. @param {number} seconds of the epoch */
function localTime(seconds) {
  const at = new Date(seconds * 1000);
  const shifted = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}
