// Tables that are read by a name from outside: an address, a field of the metadata, a user.

/** The value of a table at a name; undefined for names that every object inherits, such as `constructor`.
 * @template T
 * @param {Record<string, T>} table @param {string} name @returns {T | undefined} */
export function lookUp(table, name) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
