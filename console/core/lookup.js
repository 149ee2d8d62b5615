// Lookup in tables by names from outside, such as a URL, a metadata field or a user.

/** Return the value of a table's own property; undefined for others, also inherited ones such as `constructor`.
 * @template T
 * @param {Record<string, T>} table @param {string} name @returns {T | undefined} */
export function lookUp(table, name) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
