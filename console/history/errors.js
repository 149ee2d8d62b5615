// Errors of reading and reverting history.

import { html } from "htm/preact";
import { Problem } from "../core/api.js";
import { Failure } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { explain } from "../video/sentences.js";
import { fieldName } from "./labels.js";

const TEXT = texts.history;

/** Error with the affected fields. With `isWaiting`, a message that the trail does not yet contain the newest changes.
 * @param {{ error: unknown, isWaiting?: boolean, retry?: () => void }} props */
export function RevertError({ error, isWaiting, retry }) {
  if (isWaiting) return html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${TEXT.behind}</p>`;
  const faults = error instanceof Problem ? error.errors : [];
  return html`<${Failure} error=${error} retry=${retry} />
    ${faults.length > 0 && html`<ul class="faults">${faults.map(({ pointer, detail }) => html`<li>
      ${pointer && html`<strong>${fieldName(pointer)}</strong>: `}${explain(detail)}</li>`)}</ul>`}`;
}
