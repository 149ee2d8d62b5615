// A secret, which is shown only once, and what it is for.

import { html } from "htm/preact";
import { time } from "../core/words.js";
import { Dialog } from "../design/parts.js";
import { Copyable, Verify } from "./verify.js";

/** It stays until somebody says that they have kept it. @param {{ webhook: import("./requests.js").WithSecret, onClose: () => void }} props */
export function Secret({ webhook: { secret, previousSecretUntil }, onClose }) {
  return html`<${Dialog} title="Signing secret" class="webhook-secret">
    <p>The receiver verifies signatures with this secret. <strong>It is shown only once.</strong> Store it where the receiver reads its secrets.</p>
    <${Copyable} label="Secret" text=${secret} isCode=${false} />
    ${previousSecretUntil !== undefined && html`<p>Until ${time(previousSecretUntil)}, changes are also signed with the previous secret.</p>`}
    <${Verify} />
    <div class="actions"><button type="button" onClick=${onClose}>I stored the secret</button></div>
  <//>`;
}
