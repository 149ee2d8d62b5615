// Counts as people read them. `words.js` has all other numbers.

const COUNT = new Intl.NumberFormat();

/** Such as `1,234`. @param {number} number */
export function count(number) {
  return COUNT.format(number);
}
