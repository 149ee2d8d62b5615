// A secret, which is shown only once, and what it is for.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { time } from "../core/words.js";
import { Dialog } from "../parts/components.js";

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
      setCopied("The browser does not let the page copy it: it is selected, copy it by the keyboard.");
    }
  };
  return html`<${Dialog} title="Keep this secret" class="webhook-secret">
    <p>Whoever receives the changes checks their signatures with it. <strong>It is shown only now</strong>: keep it where the receiver reads its secrets.</p>
    <p class="secret"><code ref=${shown}>${secret}</code> <button type="button" class="primary" onClick=${copy}>Copy</button></p>
    <p class="hint" role="status">${copied}</p>
    ${previousSecretUntil !== undefined && html`<p>Until ${time(previousSecretUntil)} changes are signed with the previous secret as well.</p>`}
    <details><summary>How a receiver checks a change</summary>
      <p>Each request has the headers <code>webhook-id</code>, <code>webhook-timestamp</code> and <code>webhook-signature</code>, as
        Standard Webhooks has it. There are libraries for many languages, and they take the body as it came. In Python:</p>
      <pre tabindex="0" aria-label="An example in Python">${`from standardwebhooks import Webhook

change = Webhook(secret).verify(body, headers)  # raises if anybody else sent it`}</pre>
      <p>The same change may come twice, with the same <code>webhook-id</code>: drop what you have. Answer with a 2xx within 10 seconds;
        anything else is tried again.</p>
    </details>
    <div class="actions"><button type="button" onClick=${onClose}>I have kept it</button></div>
  <//>`;
}
