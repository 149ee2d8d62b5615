// Dialog that shows a new secret once, and how to use it.

import { html } from "htm/preact";
import { time } from "../core/formats.js";
import { Dialog } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { Copyable, Verify } from "./verify.js";

const TEXT = texts.webhooks.secret;

/** Dialog with a new secret. Only its button closes it, so that the user cannot lose the secret by Escape.
 * @param {{ webhook: import("./requests.js").WithSecret, onClose: () => void }} props */
export function Secret({ webhook: { secret, previousSecretUntil }, onClose }) {
  return html`<${Dialog} title=${TEXT.title} class="webhook-secret">
    <p>${TEXT.about(html`<strong>${TEXT.once}</strong>`)}</p>
    <${Copyable} label=${TEXT.label} text=${secret} isCode=${false} />
    ${previousSecretUntil !== undefined && html`<p>${TEXT.previous(time(previousSecretUntil))}</p>`}
    <${Verify} />
    <div class="actions"><button type="button" onClick=${onClose}>${TEXT.stored}</button></div>
  <//>`;
}
