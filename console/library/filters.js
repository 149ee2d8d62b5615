// Selection of the library's videos by the URL: the parameters of GET /v1/videos or GET /v1/top, with the names of the API.
//
// `#/` and `userId=me` select the user's own videos. `show` selects what has no parameter: all users' videos, the most viewed
// videos, or a kind of list whose value is not yet entered.

import { ALL_USERS } from "../core/changes.js";
import { hrefTo } from "../core/route.js";
import { texts } from "../texts/index.js";

/**
 * @typedef {import("../core/session.js").User} User
 * @typedef {"mine" | "folder" | "everyone" | "tag" | "region" | "category" | "user" | "top" | "status"} Kind
 * @typedef {Record<string, string>} Values by parameter
 * @typedef {{ kind: Kind, values: Values }} Choice
 */

/** @type {Record<Kind, string>} */
export const KINDS = texts.library.kinds;

/** Parameters that select a list. If several are present, the API uses the first of these.
 * @type {[string, Kind][]} */
const SELECTORS = [["folder", "folder"], ["tag", "tag"], ["region", "region"], ["userId", "user"], ["category", "category"], ["status", "status"]];

export const STATUSES = ["uploaded", "processing", "ready", "failed", "deleted"];
const RANGES = ["format", "minDuration", "maxDuration", "from", "to"];
/** Ranges of time, only for lists sorted by time. */
const TIMES = ["from", "to"];
const PARAMETERS = ["folder", "subfolders", "tag", "region", "userId", "category", "status", "releaseYear", ...RANGES, "sort", "order"];
/** Kinds of lists that the API can also sort by other fields than time. @type {Kind[]} */
const ORDERED = ["mine", "user", "category"];
const TOP = ["window", "sort", "category"];
const ME = "me";
export const BY_TIME = "createdAt";

/** Parse the query of a URL. @param {URLSearchParams} query @returns {Choice} */
export function parseFilters(query) {
  const show = query.get("show") ?? "";
  const names = show === "top" ? TOP : PARAMETERS;
  const values = Object.fromEntries([...query].filter(([name, value]) => names.includes(name) && value));
  return { kind: kindOf(show, values), values };
}

/** @param {string} show @param {Values} values @returns {Kind} */
function kindOf(show, values) {
  if (show === "top") return "top";
  const [name, kind] = SELECTORS.find(([parameter]) => values[parameter]) ?? [];
  if (name && kind) return values[name] === ME ? "mine" : kind;
  return Object.hasOwn(KINDS, show) ? /** @type {Kind} */ (show) : "mine";
}

/** Return the parameter that a kind of list requires; undefined if none. @param {Kind} kind */
export function selectorOf(kind) {
  return SELECTORS.find(([, name]) => name === kind)?.[0];
}

/** Return the address of a choice. @param {Choice} choice */
export function addressOf({ kind, values }) {
  const filled = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
  if (kind === "mine") return hrefTo([], Object.keys(filled).length ? { userId: ME, ...filled } : {});
  const selector = selectorOf(kind);
  return hrefTo([], selector && filled[selector] ? filled : { show: kind, ...filled });
}

/** Return the address of a choice with one value replaced. An empty value removes it.
 * @param {Choice} choice @param {string} name @param {string} value */
export function withValue({ kind, values }, name, value) {
  return addressOf({ kind, values: { ...values, [name]: value } });
}

/** Return the field by which a list is sorted, with the name of the API. @param {Choice} choice */
export function sortOf({ values }) {
  return values.sort || BY_TIME;
}

/** Whether the API can sort a list by other fields than time. @param {Choice} choice */
export function hasOrders({ kind }) {
  return ORDERED.includes(kind);
}

/** Return the address of a choice in another order. Omits filters that have no index in that order, such as time ranges.
 * @param {Choice} choice @param {string} sort @param {boolean} isAscending */
export function withOrder({ kind, values }, sort, isAscending) {
  const isByTime = sort === BY_TIME;
  const left = isByTime ? values : { ...values, from: "", to: "", releaseYear: "" };
  return addressOf({ kind, values: { ...left, sort: isByTime ? "" : sort, order: isAscending ? "asc" : "" } });
}

/** Return the address of another kind of list, with the filters that every kind supports.
 * @param {Choice} choice @param {Kind} kind */
export function withKind({ values }, kind) {
  const ranges = RANGES.filter((name) => kind !== "folder" || !TIMES.includes(name));
  const kept = kind === "top" ? [] : [...ranges, "order", ...(ORDERED.includes(kind) ? ["sort"] : [])];
  return addressOf({ kind, values: Object.fromEntries(kept.map((name) => [name, values[name] ?? ""])) });
}

/** Return the address of a choice without filters. @param {Choice} choice */
export function withoutFilters({ kind, values }) {
  const selector = selectorOf(kind);
  return addressOf({ kind, values: { ...(selector && { [selector]: values[selector] ?? "" }), subfolders: values.subfolders ?? "", sort: values.sort ?? "", order: values.order ?? "" } });
}

/** Return the filters that the API supports for a choice, and all filters that the URL already has.
 * @param {Choice} choice @param {User} user @returns {string[]} */
export function filtersOf(choice, user) {
  const { kind, values } = choice;
  if (kind === "top") return [];
  const isByTime = sortOf(choice) === BY_TIME;
  const offered = new Set(isByTime && kind !== "folder" ? RANGES : RANGES.filter((name) => !TIMES.includes(name)));
  if (kind === "category" && isByTime) offered.add("releaseYear");
  if (["mine", "folder", "user", "tag", "region"].includes(kind)) offered.add("category");
  if (kind === "status" && values.status !== "ready") offered.add("category");
  if (kind === "tag" || kind === "region") offered.add("userId");
  // Of other users' videos, and in lists by region, the API returns only ready ones.
  if (kind === "mine" || (["user", "tag"].includes(kind) && isOwnLibrary(values.userId, user))) offered.add("status");
  const selector = kind === "mine" ? "userId" : selectorOf(kind);
  return ["userId", "category", "status", "releaseYear", ...RANGES].filter((name) => name !== selector && (offered.has(name) || values[name]));
}

/** Return the number of filters that are set. @param {Choice} choice @param {User} user */
export function countFilters(choice, user) {
  return filtersOf(choice, user).filter((name) => choice.values[name]).length;
}

/** Return the query of the API request; null while the required parameter is empty.
 * @param {Choice} choice @param {User} user @returns {Values | null} */
export function toQuery({ kind, values }, user) {
  const selector = selectorOf(kind);
  if (selector && !values[selector]) return null;
  const query = kind === "mine" ? { userId: ME, ...values } : { ...values };
  return query.userId === ME ? { ...query, userId: user.subject } : query;
}

/** Return the owner for `useChanges`: the user, or for administrators all users. Null if the list has no changes to show.
 * @param {Choice} choice @param {User} user */
export function feedOwner({ kind, values }, user) {
  const selector = selectorOf(kind);
  if (kind === "top" || (selector && !values[selector])) return null; // view counts change without feed entries
  if (kind === "mine") return user.subject;
  if (kind === "user") return isOwnLibrary(values.userId, user) ? values.userId ?? null : null;
  return user.isAdmin ? ALL_USERS : user.subject;
}

/** @param {string | undefined} userId @param {User} user */
function isOwnLibrary(userId, user) {
  return userId !== undefined && (user.isAdmin || userId === ME || userId === user.subject);
}
