// Inputs for what is not one text: tags, and the keys and values of the metadata.

import { html } from "htm/preact";
import { useId, useRef } from "preact/hooks";
import { UserText } from "../design/parts.js";
import { newPair, withTag } from "./draft.js";

/**
 * @typedef {import("./draft.js").Draft} Draft
 * @typedef {import("./draft.js").Pair} Pair
 * @typedef {{ draft: Draft, change: (change: Partial<Draft>) => void }} InputProps
 */

/** Tags as chips: Enter takes the one that is being typed.
 * @param {InputProps & { faults: string[] }} props */
export function Tags({ draft, change, faults }) {
  const id = useId();
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const add = () => change(withTag(draft));
  const remove = (/** @type {string} */ tag) => {
    change({ tags: draft.tags.filter((other) => other !== tag) });
    input.current?.focus();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.isComposing || !draft.tag.trim()) return;
    event.preventDefault(); // else it sends the form
    add();
  };
  return html`<div class="field" role="group" aria-labelledby=${`${id}-group`}>
    <label id=${`${id}-group`} for=${id}>Tags</label>
    ${draft.tags.length > 0 && html`<ul class="chips">
      ${draft.tags.map((tag) => html`<li key=${tag}>
        <${UserText}>${tag}<//>
        <button type="button" class="quiet" aria-label=${`Remove the tag ${tag}`} onClick=${() => remove(tag)}>×</button>
      </li>`)}
    </ul>`}
    <span class="beside">
      <input id=${id} ref=${input} dir="auto" autocomplete="off" value=${draft.tag} onKeyDown=${onKeyDown}
        aria-invalid=${faults.length ? "true" : undefined} aria-describedby=${faults.length ? `${id}-error` : `${id}-hint`}
        onInput=${(/** @type {InputEvent} */ event) => change({ tag: valueOf(event) })} />
      <button type="button" onClick=${add}>Add tag</button>
    </span>
    <p class="hint" id=${`${id}-hint`}>Press Enter to add a tag.</p>
    ${faults.length > 0 && html`<p class="fault" id=${`${id}-error`}>${faults.join(" ")}</p>`}
  </div>`;
}

/** The metadata: a row for each key. `faultOf` says what is wrong with one.
 * @param {InputProps & { faultOf: (pair: Pair) => string | undefined, fault: string | undefined }} props */
export function Metadata({ draft, change, faultOf, fault }) {
  const id = useId();
  const added = useRef(0);
  const set = (/** @type {Pair} */ { id: which }, /** @type {Partial<Pair>} */ part) =>
    change({ pairs: draft.pairs.map((pair) => (pair.id === which ? { ...pair, ...part } : pair)) });
  const add = () => {
    const pair = newPair();
    added.current = pair.id;
    change({ pairs: [...draft.pairs, pair] });
  };
  return html`<fieldset class="metadata">
    <legend>Metadata</legend>
    ${draft.pairs.map((pair, index) => {
      const wrong = faultOf(pair);
      const named = pair.key || `row ${index + 1}`;
      const state = { "aria-invalid": wrong ? "true" : undefined, "aria-describedby": wrong ? `${id}-${pair.id}` : undefined };
      const focus = (/** @type {HTMLInputElement | null} */ input) => {
        if (!input || added.current !== pair.id) return;
        added.current = 0;
        input.focus();
      };
      return html`<div class="pair" key=${pair.id}>
        <input ref=${focus} dir="auto" aria-label=${`Key of row ${index + 1}`} placeholder="key" value=${pair.key} ...${state}
          onInput=${(/** @type {InputEvent} */ event) => set(pair, { key: valueOf(event) })} />
        <select aria-label=${`Type of ${named}`} value=${pair.kind}
          onChange=${(/** @type {InputEvent} */ event) => set(pair, asKind(pair, valueOf(event)))}>
          <option value="text">text</option><option value="number">number</option><option value="boolean">yes/no</option>
        </select>
        ${pair.kind === "boolean"
          ? html`<select aria-label=${`Value of ${named}`} value=${pair.value} ...${state}
              onChange=${(/** @type {InputEvent} */ event) => set(pair, { value: valueOf(event) })}>
              <option value="true">yes</option><option value="false">no</option>
            </select>`
          : html`<input dir="auto" aria-label=${`Value of ${named}`} placeholder="value" value=${pair.value} ...${state}
              inputmode=${pair.kind === "number" ? "decimal" : undefined}
              onInput=${(/** @type {InputEvent} */ event) => set(pair, { value: valueOf(event) })} />`}
        <button type="button" class="quiet" aria-label=${`Remove ${named}`}
          onClick=${() => change({ pairs: draft.pairs.filter((other) => other !== pair) })}>×</button>
        ${wrong && html`<p class="fault" id=${`${id}-${pair.id}`}>${wrong}</p>`}
      </div>`;
    })}
    ${fault && html`<p class="fault">${fault}</p>`}
    <button type="button" onClick=${add}>Add key</button>
  </fieldset>`;
}

/** @param {Pair} pair @param {string} kind @returns {Partial<Pair>} */
function asKind({ value }, kind) {
  if (kind === "boolean") return { kind, value: value === "true" ? "true" : "false" };
  return { kind: kind === "number" ? "number" : "text", value };
}

/** What is in the input of an event. @param {Event} event */
export function valueOf(event) {
  return /** @type {HTMLInputElement} */ (event.currentTarget).value;
}
