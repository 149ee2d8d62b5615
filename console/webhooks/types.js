// Selection of the event types of a webhook: all, or some, in groups.

import { html } from "htm/preact";
import { useId } from "preact/hooks";
import { texts } from "../texts/index.js";
import { actionOf, GROUPS } from "./labels.js";

const TEXT = texts.webhooks.types;

/** @typedef {import("./labels.js").Kind} Kind */
/** Selected types, without groups; null for all types, including those of later releases.
 * @typedef {Set<Kind> | null} Chosen */

/** Return the selected types of an API value, with groups expanded. @param {readonly Kind[]} kinds @returns {Chosen} */
export function chosenOf(kinds) {
  if (!kinds.length) return null;
  return new Set(kinds.flatMap((kind) => GROUPS.find(({ all }) => all === kind)?.types ?? [kind]));
}

/** Return the API value of selected types. A completely selected group becomes its wildcard.
 * @param {Chosen} chosen @returns {Kind[]} */
export function typesIn(chosen) {
  if (!chosen) return [];
  return GROUPS.flatMap(({ all, types }) => (types.every((type) => chosen.has(type)) ? [all] : types.filter((type) => chosen.has(type))));
}

/** @param {{ chosen: Chosen, onChange: (chosen: Chosen) => void, error?: string, disabled: boolean }} props */
export function Types({ chosen, onChange, error, disabled }) {
  const id = useId();
  const set = (/** @type {Kind[]} */ types, /** @type {Event} */ { currentTarget }) => {
    const after = new Set(chosen);
    for (const type of types) /** @type {HTMLInputElement} */ (currentTarget).checked ? after.add(type) : after.delete(type);
    onChange(after);
  };
  const some = () => onChange(new Set(GROUPS[0]?.types));
  return html`<fieldset class="webhook-types" disabled=${disabled} aria-describedby=${error && `${id}-error`}>
    <legend>${texts.webhooks.events}</legend>
    <label class="check"><input type="radio" name=${id} checked=${!chosen} onChange=${() => onChange(null)} /> ${TEXT.all}</label>
    <label class="check"><input type="radio" name=${id} checked=${Boolean(chosen)} onChange=${some} /> ${TEXT.selected}</label>
    ${chosen && html`<div class="webhook-groups">${GROUPS.map(({ all, title, types }) => {
      const number = types.filter((type) => chosen.has(type)).length;
      return html`<div role="group" aria-label=${title} key=${all}>
        <label class="check"><input type="checkbox" checked=${number === types.length} indeterminate=${number > 0 && number < types.length}
          onChange=${(/** @type {Event} */ event) => set(types, event)} /> <strong>${title}</strong></label>
        <div class="webhook-actions">${types.map((type) => html`<label class="check" key=${type}>
          <input type="checkbox" checked=${chosen.has(type)} aria-label=${texts.webhooks.typeName(title, actionOf(type))}
            onChange=${(/** @type {Event} */ event) => set([type], event)} /> ${actionOf(type)}</label>`)}</div>
      </div>`;
    })}</div>`}
    ${error && html`<p class="fault" id=${`${id}-error`}>${error}</p>`}
  </fieldset>`;
}
