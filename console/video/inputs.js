// Inputs of the metadata: keys, types and values.

import { html } from "htm/preact";
import { useId, useRef } from "preact/hooks";
import { Icon } from "../design/parts.js";
import { asSentence } from "../core/formats.js";
import { texts } from "../texts/index.js";
import { newPair } from "./draft.js";

const TEXT = texts.video.metadata;

/**
 * @typedef {import("./draft.js").Draft} Draft
 * @typedef {import("./draft.js").Pair} Pair
 * @typedef {{ draft: Draft, change: (change: Partial<Draft>) => void }} InputProps
 */

/** Metadata form, with a row for each key. `faultOf` returns the error of a row.
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
  return html`<div class="metadata">
    ${draft.pairs.map((pair, index) => {
      const wrong = faultOf(pair);
      const named = pair.key || TEXT.row(index + 1);
      const state = { "aria-invalid": wrong ? "true" : undefined, "aria-describedby": wrong ? `${id}-${pair.id}` : undefined };
      const focus = (/** @type {HTMLInputElement | null} */ input) => {
        if (!input || added.current !== pair.id) return;
        added.current = 0;
        input.focus();
      };
      return html`<div class="pair" key=${pair.id}>
        <input ref=${focus} dir="auto" aria-label=${TEXT.keyOfRow(index + 1)} placeholder=${TEXT.key} value=${pair.key} ...${state}
          onInput=${(/** @type {InputEvent} */ event) => set(pair, { key: valueOf(event) })} />
        <select aria-label=${TEXT.typeOfKey(named)} value=${pair.kind}
          onChange=${(/** @type {InputEvent} */ event) => set(pair, asKind(pair, valueOf(event)))}>
          <option value="text">${TEXT.text}</option><option value="number">${TEXT.number}</option><option value="boolean">${TEXT.boolean}</option>
        </select>
        ${pair.kind === "boolean"
          ? html`<select aria-label=${TEXT.valueOfKey(named)} value=${pair.value} ...${state}
              onChange=${(/** @type {InputEvent} */ event) => set(pair, { value: valueOf(event) })}>
              <option value="true">${texts.common.yes}</option><option value="false">${texts.common.no}</option>
            </select>`
          : html`<input dir="auto" aria-label=${TEXT.valueOfKey(named)} placeholder=${TEXT.value} value=${pair.value} ...${state}
              inputmode=${pair.kind === "number" ? "decimal" : undefined}
              onInput=${(/** @type {InputEvent} */ event) => set(pair, { value: valueOf(event) })} />`}
        <button type="button" class="quiet" aria-label=${TEXT.removeItem(named)}
          onClick=${() => change({ pairs: draft.pairs.filter((other) => other !== pair) })}><${Icon} name="x" /></button>
        ${wrong && html`<p class="fault" id=${`${id}-${pair.id}`}>${asSentence(wrong)}</p>`}
      </div>`;
    })}
    ${fault && html`<p class="fault">${fault}</p>`}
    <button type="button" onClick=${add}><${Icon} name="plus" />${TEXT.add}</button>
  </div>`;
}

/** @param {Pair} pair @param {string} kind @returns {Partial<Pair>} */
function asKind({ value }, kind) {
  if (kind === "boolean") return { kind, value: value === "true" ? "true" : "false" };
  return { kind: kind === "number" ? "number" : "text", value };
}

/** Return the value of an event's input. @param {Event} event */
export function valueOf(event) {
  return /** @type {HTMLInputElement} */ (event.currentTarget).value;
}
