// Word-by-word diff of two texts.

/** @typedef {{ kind: "same" | "del" | "ins", text: string }} Part Consecutive words in both texts, only in the old one, or only in the new one. */

/** Maximum product of both word counts. Above it the table would need too much memory, so the whole middle is one change. */
const MAX_CELLS = 1_000_000;
/** Unchanged characters to show on each side of a change. */
const CONTEXT = 60;

/** Return the shortest diff that turns one text into the other. Its units are words, spaces and punctuation.
 * @param {string} before @param {string} after @returns {Part[]} */
export function diffWords(before, after) {
  const [old, now] = [wordsOf(before), wordsOf(after)];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  return merged([
    { kind: "same", text: old.slice(0, start).join("") },
    ...diffMiddle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    { kind: "same", text: old.slice(old.length - end).join("") },
  ]);
}

/** Return the share of the longer text that is in both texts, from 0 to 1. @param {Part[]} parts */
export function similarity(parts) {
  const lengths = { same: 0, del: 0, ins: 0 };
  for (const { kind, text } of parts) lengths[kind] += text.trim().length;
  return lengths.same / Math.max(1, lengths.same + Math.max(lengths.del, lengths.ins));
}

/** Replace unchanged text far from a change with an ellipsis. @param {Part[]} parts @returns {Part[]} */
export function abridged(parts) {
  return parts.map(({ kind, text }, index) => {
    if (kind !== "same" || text.length <= 2.5 * CONTEXT) return { kind, text };
    const head = index > 0 ? text.slice(0, CONTEXT).replace(/\S*$/, "") : "";
    const tail = index < parts.length - 1 ? text.slice(-CONTEXT).replace(/^\S*/, "") : "";
    return { kind, text: `${head}…${tail}` };
  });
}

/** @param {string} text */
function wordsOf(text) {
  return text.match(/\s+|[\p{L}\p{N}\p{M}_]+|./gsu) ?? [];
}

/** Return the diff by the longest common subsequence. @param {string[]} old @param {string[]} now @returns {Part[]} */
function diffMiddle(old, now) {
  const [rows, columns] = [old.length, now.length];
  if (!rows || !columns || rows * columns > MAX_CELLS) return [{ kind: "del", text: old.join("") }, { kind: "ins", text: now.join("") }];
  const width = columns + 1;
  const longest = new Uint16Array((rows + 1) * width);
  const at = (/** @type {number} */ row, /** @type {number} */ column) => longest[row * width + column] ?? 0;
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      longest[row * width + column] = old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  /** @type {Part[]} */
  const parts = [];
  let [row, column] = [0, 0];
  while (row < rows || column < columns) {
    if (row < rows && column < columns && old[row] === now[column]) {
      parts.push({ kind: "same", text: old[row] ?? "" });
      row += 1;
      column += 1;
    } else if (column === columns || (row < rows && at(row + 1, column) >= at(row, column + 1))) {
      parts.push({ kind: "del", text: old[row] ?? "" });
      row += 1;
    } else {
      parts.push({ kind: "ins", text: now[column] ?? "" });
      column += 1;
    }
  }
  return parts;
}

/** Merge adjacent parts of the same kind, with deletions before insertions. Spaces between two changes belong to both.
 * @param {Part[]} parts @returns {Part[]} */
function merged(parts) {
  /** @type {Part[]} */
  const result = [];
  let [del, ins] = ["", ""];
  const flush = () => {
    if (del) result.push({ kind: "del", text: del });
    if (ins) result.push({ kind: "ins", text: ins });
    [del, ins] = ["", ""];
  };
  parts.forEach(({ kind, text }, index) => {
    if (!text) return;
    const isBetween = kind === "same" && /^\s+$/.test(text) && (del || ins) && parts[index + 1] && parts[index + 1]?.kind !== "same";
    if (kind === "del" || isBetween) del += text;
    if (kind === "ins" || isBetween) ins += text;
    if (kind !== "same" || isBetween) return;
    flush();
    const last = result.at(-1);
    if (last?.kind === "same") last.text += text;
    else result.push({ kind, text });
  });
  flush();
  return result;
}
