// Texts of the console. English is the only language.

import en from "./en.js";

/** @typedef {typeof en} Texts All texts of a language. */

export const texts = frozen(en);

/** Freeze an object and all objects in it. @template {object} T @param {T} group @returns {Readonly<T>} */
function frozen(group) {
  for (const value of Object.values(group)) if (typeof value === "object") frozen(value);
  return Object.freeze(group);
}
