// Editable fields of a video, and the merge of concurrent changes by two users.
//
// JSON Pointers (RFC 6901), such as `/title` and `/metadata/camera`, identify the values, as in the API's errors.

import { lookUp } from "../core/lookup.js";
import { texts } from "../texts/index.js";
import { INPUTS } from "./schema.js";
import { LABELS } from "./names.js";

const TEXT = texts.video;

/**
 * @typedef {import("../screens/video.js").Video} Video
 * @typedef {import("../core/api.js").Schemas["VideoPatch"]} Patch
 * @typedef {Map<string, unknown>} Values Present values by JSON Pointer.
 * @typedef {"mine" | "theirs"} Choice
 * @typedef {{ pointer: string, before: unknown, mine: unknown, theirs: unknown, by: "you" | "them" | "both" }} Difference
 */

export const METADATA = "/metadata/";

/** @param {Video} video @returns {Values} */
export function valuesOf(video) {
  /** @type {Values} */
  const values = new Map();
  for (const [name, value] of Object.entries(video)) {
    const isNothing = value === null || (Array.isArray(value) && !value.length);
    if (Object.hasOwn(INPUTS, name) && !isNothing) values.set(`/${name}`, value);
  }
  for (const [key, value] of Object.entries(video.metadata)) values.set(pointerTo(key), value);
  return values;
}

/** Return the JSON Merge Patch (RFC 7396) from `before` to `after`, without unchanged fields.
 * @param {Values} before @param {Values} after @returns {Patch} */
export function patchOf(before, after) {
  /** @type {Record<string, unknown>} */
  const patch = {};
  /** @type {Record<string, unknown>} */
  const metadata = Object.create(null); // without a prototype, `__proto__` is an ordinary key
  for (const pointer of new Set([...before.keys(), ...after.keys()])) {
    if (isSame(before.get(pointer), after.get(pointer))) continue;
    const value = after.get(pointer) ?? null;
    if (pointer.startsWith(METADATA)) metadata[keyOf(pointer)] = value;
    else patch[pointer.slice(1)] = value;
  }
  if (Object.keys(metadata).length) patch.metadata = metadata;
  return patch;
}

/** Return the differences between the user's values and another user's. `by` is the user who changed the value.
 * @param {Values} before @param {Values} mine @param {Values} theirs @returns {Difference[]} */
export function compare(before, mine, theirs) {
  const differences = [];
  for (const pointer of new Set([...before.keys(), ...mine.keys(), ...theirs.keys()])) {
    const [old, my, their] = [before.get(pointer), mine.get(pointer), theirs.get(pointer)];
    if (isSame(my, their)) continue;
    const by = isSame(old, their) ? "you" : isSame(old, my) ? "them" : "both";
    differences.push(/** @type {Difference} */ ({ pointer, before: old, mine: my, theirs: their, by }));
  }
  return differences;
}

/** Merge the user's changes into the other user's values. `choices` resolves the fields that both changed.
 * @param {Values} theirs @param {Difference[]} differences @param {Map<string, Choice>} choices @returns {Values} */
export function merged(theirs, differences, choices) {
  const values = new Map(theirs);
  for (const { pointer, mine, by } of differences) {
    if (by !== "you" && choices.get(pointer) !== "mine") continue;
    if (mine === undefined) values.delete(pointer);
    else values.set(pointer, mine);
  }
  return values;
}

/** Return the label of a field. @param {string} pointer */
export function labelOf(pointer) {
  return pointer.startsWith(METADATA) ? TEXT.metadataKey(keyOf(pointer)) : lookUp(LABELS, pointer.slice(1)) ?? pointer;
}

/** Return the JSON Pointer of a metadata key. @param {string} key */
export function pointerTo(key) {
  return METADATA + key.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** @param {string} pointer into the metadata */
export function keyOf(pointer) {
  return pointer.slice(METADATA.length).replaceAll("~1", "/").replaceAll("~0", "~");
}

/** Whether two values are equal. The order of tags does not matter. @param {unknown} one @param {unknown} other */
function isSame(one, other) {
  if (!Array.isArray(one) || !Array.isArray(other)) return Object.is(one, other);
  return one.length === other.length && one.every((tag) => other.includes(tag));
}
