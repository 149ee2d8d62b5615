// Dialog "Changed by another user": both users' changes, and a choice for each field that both changed.

import { html } from "htm/preact";
import { useId, useState } from "preact/hooks";
import { time } from "../core/formats.js";
import { Dialog, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { compare, labelOf, merged } from "./fields.js";

const TEXT = texts.video.conflict;

/** @typedef {import("./fields.js").Values} Values @typedef {import("./fields.js").Choice} Choice */

/** @param {{ before: Values, mine: Values, theirs: Values, onResolved: (values: Values) => void, onClose: () => void }} props */
export default function Conflict({ before, mine, theirs, onResolved, onClose }) {
  const [choices, setChoices] = useState(/** @type {Map<string, Choice>} */ (new Map()));
  const id = useId();
  const differences = compare(before, mine, theirs);
  const disputed = differences.filter(({ by }) => by === "both");
  const left = disputed.filter(({ pointer }) => !choices.has(pointer)).length;
  const choose = (/** @type {string} */ pointer, /** @type {Choice} */ choice) => setChoices(new Map(choices).set(pointer, choice));

  return html`<${Dialog} title=${texts.common.changedByAnother} class="sheet" onClose=${onClose}>
    <div class="sheet-body">
      <p>${disputed.length ? TEXT.choose : TEXT.bothKept}</p>
      ${disputed.map(({ pointer, before: old, mine: my, theirs: their }) => html`<fieldset key=${pointer} class="card">
        <legend><${UserText}>${labelOf(pointer)}<//></legend>
        <p class="hint">${TEXT.original(html`<${FieldValue} pointer=${pointer} value=${old} />`)}</p>
        ${/** @type {[Choice, string, unknown][]} */ ([["mine", TEXT.myChange, my], ["theirs", TEXT.theirChange, their]]).map(([choice, title, value]) => html`
          <label class="option">
            <input type="radio" name=${`${id}${pointer}`} checked=${choices.get(pointer) === choice} onChange=${() => choose(pointer, choice)} />
            <span><strong>${title}</strong> <${FieldValue} pointer=${pointer} value=${value} /></span>
          </label>`)}
      </fieldset>`)}
      <${MergedChanges} title=${TEXT.yourChanges} rows=${differences.filter(({ by }) => by === "you").map((row) => ({ ...row, now: row.mine }))} />
      <${MergedChanges} title=${TEXT.theirChanges} rows=${differences.filter(({ by }) => by === "them").map((row) => ({ ...row, now: row.theirs }))} />
    </div>
    <div class="actions">
      <button type="button" class="primary" disabled=${left > 0} aria-describedby=${id} onClick=${() => onResolved(merged(theirs, differences, choices))}>${texts.common.save}</button>
      <button type="button" onClick=${onClose}>${texts.common.keepEditing}</button>
      <span class="hint" id=${id} role="status">${left ? TEXT.left(left) : ""}</span>
    </div>
  <//>`;
}

/** Changes that merge without a conflict.
 * @param {{ title: string, rows: { pointer: string, before: unknown, now: unknown }[] }} props */
function MergedChanges({ title, rows }) {
  if (!rows.length) return null;
  return html`<h3>${title}</h3>
    <dl class="agreed">${rows.map(({ pointer, before, now }) => html`<div key=${pointer}>
      <dt><${UserText}>${labelOf(pointer)}<//></dt>
      <dd><del><${FieldValue} pointer=${pointer} value=${before} /></del> → <ins><${FieldValue} pointer=${pointer} value=${now} /></ins></dd>
    </div>`)}</dl>`;
}

/** Value of a field, formatted for display. @param {{ pointer: string, value: unknown }} props */
export function FieldValue({ pointer, value }) {
  if (value === undefined || value === "") return html`<em>${texts.common.none}</em>`;
  if (/^\/(publishAt|expiresAt|purgeAt|createdAt|updatedAt)$/.test(pointer) && typeof value === "number") return time(value);
  if (Array.isArray(value)) return value.map((item, index) => html`${index > 0 && ", "}<${FieldValue} pointer="" value=${item} />`);
  if (typeof value === "boolean") return value ? texts.common.yes : texts.common.no;
  return html`<${UserText} class="value">${typeof value === "object" ? JSON.stringify(value) : String(value)}<//>`;
}
