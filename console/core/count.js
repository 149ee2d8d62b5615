// Format of counts. `formats.js` formats all other numbers.

const COUNT = new Intl.NumberFormat();

/** Format a count in the language of the browser, such as `1,234`. @param {number} number */
export function count(number) {
  return COUNT.format(number);
}
