// What the library shows, by its address: the parameters of GET /v1/videos, or of GET /v1/top, as the API names them.
//
// `#/` is one's own videos, and `userId=me` as well. `show` names what has no parameter of its own: everybody's videos,
// what is viewed most, and a choice that has no value yet.

import { EVERYBODY } from "../core/changes.js";
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

/** The parameter that selects, as the API takes the first of them that is there.
 * @type {[string, Kind][]} */
const SELECTORS = [["folder", "folder"], ["tag", "tag"], ["region", "region"], ["userId", "user"], ["category", "category"], ["status", "status"]];

export const STATUSES = ["uploaded", "processing", "ready", "failed", "deleted"];
const RANGES = ["format", "minDuration", "maxDuration", "from", "to"];
/** Ranges of time, which only lists by time have. */
const TIMES = ["from", "to"];
const PARAMETERS = ["folder", "subfolders", "tag", "region", "userId", "category", "status", "releaseYear", ...RANGES, "sort", "order"];
/** Kinds of lists that the API also has in other orders than by time. @type {Kind[]} */
const ORDERED = ["mine", "user", "category"];
const TOP = ["window", "sort", "category"];
const ME = "me";
export const BY_TIME = "createdAt";

/** What an address chooses. @param {URLSearchParams} query @returns {Choice} */
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

/** The parameter whose value a kind of choice needs; undefined: none. @param {Kind} kind */
export function selectorOf(kind) {
  return SELECTORS.find(([, name]) => name === kind)?.[0];
}

/** The address of a choice. @param {Choice} choice */
export function addressOf({ kind, values }) {
  const filled = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
  if (kind === "mine") return hrefTo([], Object.keys(filled).length ? { userId: ME, ...filled } : {});
  const selector = selectorOf(kind);
  return hrefTo([], selector && filled[selector] ? filled : { show: kind, ...filled });
}

/** The same choice with another value, or without one. @param {Choice} choice @param {string} name @param {string} value */
export function withValue({ kind, values }, name, value) {
  return addressOf({ kind, values: { ...values, [name]: value } });
}

/** The field by which a list is sorted, as the API names it. @param {Choice} choice */
export function sortOf({ values }) {
  return values.sort || BY_TIME;
}

/** Whether the API has a list in other orders than by time. @param {Choice} choice */
export function hasOrders({ kind }) {
  return ORDERED.includes(kind);
}

/** The same choice in another order. Filters without an index in that order, such as a range of time, are left out.
 * @param {Choice} choice @param {string} sort @param {boolean} isAscending */
export function withOrder({ kind, values }, sort, isAscending) {
  const isByTime = sort === BY_TIME;
  const left = isByTime ? values : { ...values, from: "", to: "", releaseYear: "" };
  return addressOf({ kind, values: { ...left, sort: isByTime ? "" : sort, order: isAscending ? "asc" : "" } });
}

/** Another kind of choice, with the filters that go with each. @param {Choice} choice @param {Kind} kind */
export function withKind({ values }, kind) {
  const ranges = RANGES.filter((name) => kind !== "folder" || !TIMES.includes(name));
  const kept = kind === "top" ? [] : [...ranges, "order", ...(ORDERED.includes(kind) ? ["sort"] : [])];
  return addressOf({ kind, values: Object.fromEntries(kept.map((name) => [name, values[name] ?? ""])) });
}

/** The same choice without filters. @param {Choice} choice */
export function withoutFilters({ kind, values }) {
  const selector = selectorOf(kind);
  return addressOf({ kind, values: { ...(selector && { [selector]: values[selector] ?? "" }), subfolders: values.subfolders ?? "", sort: values.sort ?? "", order: values.order ?? "" } });
}

/** The filters that the API takes with a choice, and those that the address has anyway.
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
  // Others' videos are listed when they are ready, and by a region everybody's own as well.
  if (kind === "mine" || (["user", "tag"].includes(kind) && isOwnLibrary(values.userId, user))) offered.add("status");
  const selector = kind === "mine" ? "userId" : selectorOf(kind);
  return ["userId", "category", "status", "releaseYear", ...RANGES].filter((name) => name !== selector && (offered.has(name) || values[name]));
}

/** How many filters are set. @param {Choice} choice @param {User} user */
export function countFilters(choice, user) {
  return filtersOf(choice, user).filter((name) => choice.values[name]).length;
}

/** What the API is asked; null while the choice lacks what it selects by.
 * @param {Choice} choice @param {User} user @returns {Values | null} */
export function toQuery({ kind, values }, user) {
  const selector = selectorOf(kind);
  if (selector && !values[selector]) return null;
  const query = kind === "mine" ? { userId: ME, ...values } : { ...values };
  return query.userId === ME ? { ...query, userId: user.subject } : query;
}

/** Whose changes a list can follow, as `useChanges` takes it: everybody's are for administrators.
 * @param {Choice} choice @param {User} user */
export function feedOwner({ kind, values }, user) {
  const selector = selectorOf(kind);
  if (kind === "top" || (selector && !values[selector])) return null; // what is counted changes without a change
  if (kind === "mine") return user.subject;
  if (kind === "user") return isOwnLibrary(values.userId, user) ? values.userId ?? null : null;
  return user.isAdmin ? EVERYBODY : user.subject;
}

/** @param {string | undefined} userId @param {User} user */
function isOwnLibrary(userId, user) {
  return userId !== undefined && (user.isAdmin || userId === ME || userId === user.subject);
}
