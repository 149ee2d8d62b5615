// A secret, which is shown only once, and what it is for.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { time } from "../core/words.js";
import { Dialog } from "../design/parts.js";

/** It stays until somebody says that they have kept it. @param {{ webhook: import("./requests.js").WithSecret, onClose: () => void }} props */
export function Secret({ webhook: { secret, previousSecretUntil }, onClose }) {
  const [copied, setCopied] = useState("");
  const shown = useRef(/** @type {HTMLElement | null} */ (null));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(secret);
      setCopied("Copied.");
    } catch {
      if (shown.current) getSelection()?.selectAllChildren(shown.current);
      setCopied("The browser blocked copying. The secret is selected: copy it with the keyboard.");
    }
  };
  return html`<${Dialog} title="Signing secret" class="webhook-secret">
    <p>The receiver verifies signatures with this secret. <strong>It is shown only once.</strong> Store it where the receiver reads its secrets.</p>
    <p class="secret"><code ref=${shown}>${secret}</code> <button type="button" class="primary" onClick=${copy}>Copy</button></p>
    <p class="hint" role="status">${copied}</p>
    ${previousSecretUntil !== undefined && html`<p>Until ${time(previousSecretUntil)}, changes are also signed with the previous secret.</p>`}
    <details><summary>Verify a signature</summary>
      <p>Each request has the headers <code>webhook-id</code>, <code>webhook-timestamp</code> and <code>webhook-signature</code>, as
        specified by Standard Webhooks. Libraries exist for many languages. Pass them the unchanged body. In Python:</p>
      <pre tabindex="0" aria-label="An example in Python">${`from standardwebhooks import Webhook

change = Webhook(secret).verify(body, headers)  # raises if the signature is wrong`}</pre>
      <p>A change may arrive twice with the same <code>webhook-id</code>: drop duplicates. Respond with a 2xx status within 10 seconds.
        Any other response is retried.</p>
    </details>
    <div class="actions"><button type="button" onClick=${onClose}>I stored the secret</button></div>
  <//>`;
}
