// Form of a selected file before its upload: the fields of its video.

import { html } from "htm/preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Problem } from "../core/api.js";
import { size } from "../core/formats.js";
import { Failure, Field, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { forget } from "./list.js";
import { updateDraft } from "./queue.js";

/** `isOnly`: whether it is the only draft, whose button is then the primary one.
 * @param {{ upload: import("./list.js").Upload, isOnly: boolean, onSend: () => void, onRemove: () => void }} props */
export default function Draft({ upload, isOnly, onSend, onRemove }) {
  const { about, details, error, isNew } = upload;
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const faults = faultsOf(error, details.tags);
  const isElsewhere = error && !Object.values(faults).some(Boolean);
  useLayoutEffect(() => {
    if (error) /** @type {HTMLElement | null} */ (form.current?.querySelector("[aria-invalid]"))?.focus();
  }, [error]);
  const send = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    onSend();
  };
  const remove = () => {
    forget([upload]);
    onRemove();
  };
  return html`<form class="draft" ref=${form} onSubmit=${send} aria-label=${about.name}>
    <p class="file"><${UserText} class="name">${about.name}<//> <span class="soft">${size(about.size)}</span></p>
    ${isNew && html`<${Field} label=${texts.fields.title} value=${details.title} error=${faults.title} autocomplete="off"
        onInput=${(/** @type {string} */ title) => updateDraft(upload, { title })} />
      <div class="side-by-side">
        <${Field} label=${texts.fields.category} value=${details.category} error=${faults.category} autocomplete="off"
          onInput=${(/** @type {string} */ category) => updateDraft(upload, { category })} />
        <${Field} label=${texts.fields.tags} value=${details.tags} error=${faults.tags} autocomplete="off" hint=${texts.common.separateTags}
          onInput=${(/** @type {string} */ tags) => updateDraft(upload, { tags })} />
        <${Field} label=${texts.fields.visibility} kind="select" value=${details.visibility} error=${faults.visibility}
          onInput=${(/** @type {"public" | "private"} */ visibility) => updateDraft(upload, { visibility })}>
          <option value="private">${texts.states.private}</option>
          <option value="public">${texts.states.public}</option>
        <//>
      </div>`}
    ${isElsewhere && html`<${Failure} error=${error} />`}
    <div class="actions">
      <button type="submit" class=${isOnly ? "primary" : ""}>${texts.common.upload}</button>
      <button type="button" onClick=${remove}>${texts.common.remove}</button>
    </div>
  </form>`;
}

/** Return the error of each field. @param {unknown} error @param {string} tags as typed */
function faultsOf(error, tags) {
  if (!(error instanceof Problem)) return {};
  const fault = error.errors.find(({ pointer }) => pointer?.startsWith("/tags"));
  const tag = tags.split(",").map((text) => text.trim()).filter(Boolean)[Number(fault?.pointer?.split("/")[2])];
  return {
    title: error.at("/title"),
    category: error.at("/category"),
    visibility: error.at("/visibility"),
    tags: fault && (tag ? `“${tag}”: ${fault.detail}` : fault.detail),
  };
}
