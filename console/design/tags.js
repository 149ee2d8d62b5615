// Tag input: chips, and a text box that suggests existing tags.

import { html } from "htm/preact";
import { useId, useRef } from "preact/hooks";
import { asSentence, count } from "../core/formats.js";
import { texts } from "../texts/index.js";
import { useCombobox } from "./combobox.js";
import { Icon, UserText } from "./parts.js";

const TEXT = texts.parts;

/** @typedef {{ tag: string, count?: number }} Suggestion A tag in use, and the number of videos that have it. */

/** Maximum number of suggestions. */
const MAX_SHOWN = 8;

/** Enter or a comma adds the typed tag. Backspace in an empty text box turns the last tag back into text. `typed` is part of the
 * caller's draft, so that a save can include it.
 * @param {{ label: string, tags: string[], typed: string, change: (tags: string[], typed: string) => void, known?: Suggestion[],
 *   faults?: string[] }} props */
export function TagInput({ label, tags, typed, change, known = [], faults = [] }) {
  const id = useId();
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const found = suggest(known, tags, typed);
  const box = useCombobox(found.length);
  const type = (/** @type {string} */ text) => {
    const parts = text.split(/[,\n]/);
    const rest = parts.pop() ?? "";
    change(parts.reduce(withTag, tags), parts.length ? rest.trimStart() : rest);
    box.show(true);
  };
  const take = (/** @type {string} */ tag) => {
    change(withTag(tags, tag), "");
    box.show(false);
  };
  const remove = (/** @type {string} */ tag) => {
    change(tags.filter((other) => other !== tag), typed);
    input.current?.focus();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === "Enter" && (typed.trim() || box.chosen >= 0)) {
      event.preventDefault(); // otherwise Enter submits the form
      take(found[box.chosen]?.tag ?? typed);
    } else if (event.key === "Backspace" && !typed && tags.length) {
      event.preventDefault();
      change(tags.slice(0, -1), tags.at(-1) ?? "");
    } else if (event.key === "ArrowDown" && !box.isShown) {
      event.preventDefault();
      box.show(true);
    } else box.input.onKeyDown(event);
  };
  const described = [faults.length > 0 && `${id}-error`, `${id}-hint`].filter(Boolean).join(" ");
  return html`<div class="field" role="group" aria-labelledby=${`${id}-label`}>
    <label id=${`${id}-label`} for=${id}>${label}</label>
    ${tags.length > 0 && html`<ul class="chips">${tags.map((tag) => html`<li key=${tag}>
      <${UserText}>${tag}<//><button type="button" class="quiet" aria-label=${TEXT.removeTag(tag)} onClick=${() => remove(tag)}><${Icon} name="x" /></button>
    </li>`)}</ul>`}
    <div class="combobox">
      <input ref=${input} dir="auto" autocomplete="off" value=${typed} aria-invalid=${faults.length ? "true" : undefined} aria-describedby=${described}
        onInput=${(/** @type {InputEvent} */ event) => type(/** @type {HTMLInputElement} */ (event.currentTarget).value)}
        ...${box.input} id=${id} onKeyDown=${press} />
      ${box.isShown && html`<ul ...${box.list}>${found.map(({ tag, count: number }, index) => html`<li key=${tag} ...${box.option(index)} onClick=${() => take(tag)}>
        <${UserText}>${tag}<//>${number !== undefined && html`<small>${count(number)}</small>`}</li>`)}</ul>`}
    </div>
    <p class="hint" id=${`${id}-hint`}>${TEXT.tagHint}</p>
    ${faults.length > 0 && html`<p class="fault" id=${`${id}-error`}>${faults.map(asSentence).join(" ")}</p>`}
  </div>`;
}

/** Return the tags with another tag, unless it is blank or a duplicate. @param {string[]} tags @param {string} text */
export function withTag(tags, text) {
  const tag = text.trim();
  return tag && !tags.some((other) => isEqual(other, tag)) ? [...tags, tag] : tags;
}

/** Return at most MAX_SHOWN known tags that contain a text and are not yet added. Tags that start with it come first.
 * @param {Suggestion[]} known @param {string[]} tags @param {string} typed @returns {Suggestion[]} */
export function suggest(known, tags, typed) {
  const text = typed.trim().toLowerCase();
  const place = (/** @type {Suggestion} */ { tag }) => Math.sign(tag.toLowerCase().indexOf(text));
  return known.filter((one) => place(one) >= 0 && !tags.some((other) => isEqual(other, one.tag)))
    .sort((one, other) => place(one) - place(other)).slice(0, MAX_SHOWN);
}

/** Whether two tags are duplicates. The service ignores case. @param {string} one @param {string} other */
function isEqual(one, other) {
  return one.toLowerCase() === other.toLowerCase();
}
