// Formats of numbers, times and sizes for display.

import { texts } from "../texts/index.js";

export { count } from "./count.js";

const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
// Units and relative times use the language of the console's texts; dates and numbers use the browser's locale.
const RELATIVE = new Intl.RelativeTimeFormat(texts.language, { numeric: "auto" });

/** @param {number} seconds of the epoch */
export function date(seconds) {
  return DATE.format(seconds * 1000);
}

/** @param {number} seconds of the epoch */
export function time(seconds) {
  return TIME.format(seconds * 1000);
}

/** Format a time with seconds. @param {number} milliseconds of the epoch */
export function exactTime(milliseconds) {
  return EXACT.format(milliseconds);
}

/** Format a past time, such as `5 minutes ago` or `yesterday`; null if the time is in the future or more than 30 days ago.
 * @param {number} milliseconds of the epoch @param {number} now */
export function relativeTime(milliseconds, now) {
  const seconds = (now - milliseconds) / 1000;
  if (seconds < -60 || seconds >= 30 * 86_400) return null;
  if (seconds < 45) return RELATIVE.format(0, "second");
  if (seconds < 3600) return RELATIVE.format(-Math.round(seconds / 60), "minute");
  if (seconds < 86_400) return RELATIVE.format(-Math.round(seconds / 3600), "hour");
  return RELATIVE.format(-Math.round(seconds / 86_400), "day");
}

/** Format a length, such as `1:05:30`, rounded to seconds. @param {number} milliseconds */
export function duration(milliseconds) {
  const all = Math.round(milliseconds / 1000);
  const [hours, minutes, seconds] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const padded = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${padded(minutes)}:${padded(seconds)}` : `${minutes}:${padded(seconds)}`;
}

/** Format a position to the millisecond, such as `1:05:30.25`; without fraction at full seconds. @param {number} milliseconds */
export function formatClock(milliseconds) {
  const rest = String(milliseconds % 1000).padStart(3, "0").replace(/0+$/, "");
  return duration(milliseconds - (milliseconds % 1000)) + (rest && `.${rest}`);
}

/** Parse a time such as `1:05:30`, `5:30` or `0:31.5` to milliseconds; null if it is invalid. @param {string} text */
export function milliseconds(text) {
  const parts = /^(?:(\d{1,3}):(?=[0-5]\d:))?(\d{1,3}):([0-5]\d)(?:\.(\d{1,3}))?$/.exec(text.trim());
  if (!parts) return null;
  const [hours = "0", minutes = "0", seconds = "0", rest = ""] = parts.slice(1);
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000 + Number(rest.padEnd(3, "0"));
}

/** Format a period, rounded up, such as `40 seconds`, `5 minutes` or `3 hours`. @param {number} seconds */
export function formatRange(seconds) {
  if (seconds < 60) return inUnit(Math.ceil(seconds), "second");
  if (seconds < 3600) return inUnit(Math.ceil(seconds / 60), "minute");
  return inUnit(Math.ceil(seconds / 3600), "hour");
}

/** Format a file size, such as `1.5 MB`. @param {number} bytes */
export function size(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1);
  const number = bytes / 1000 ** power;
  return inUnit(number, units[power] ?? "", power ? "short" : "long", power && number < 100 ? 1 : 0);
}

/** @param {number} number @param {string} unit of ECMA-402 @param {"long" | "short"} [unitDisplay] @param {number} [digits] after the point */
function inUnit(number, unit, unitDisplay = "long", digits = 0) {
  return new Intl.NumberFormat(texts.language, {
    style: "unit", unit, unitDisplay, minimumFractionDigits: digits, maximumFractionDigits: digits,
  }).format(number);
}

const MONEY = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", maximumFractionDigits: 5 });

/** @param {number} dollars */
export function money(dollars) {
  return MONEY.format(dollars);
}

/** Return a text as a sentence: capitalized, with a full stop. @param {string} text */
export function asSentence(text) {
  const trimmed = text.trim();
  return trimmed && trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?…]$/.test(trimmed) ? "" : ".");
}
