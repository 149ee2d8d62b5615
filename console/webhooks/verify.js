// Example code that verifies a signature, to copy.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { texts } from "../texts/index.js";

const TEXT = texts.webhooks.verify;

/** Equal to the example in docs/webhook-receivers.md; a test compares them. */
const PYTHON = `from standardwebhooks import Webhook


def receive(secret: str, headers: dict[str, str], body: bytes) -> dict:
    """Return the event; raises WebhookVerificationError if the signature is invalid."""
    return Webhook(secret).verify(body, headers)`;

/** A placeholder, because the build would resolve the example's import. */
const LIBRARY = "standardwebhooks";
const TYPESCRIPT = `import { Webhook } from "${LIBRARY}";

/** Returns the event; throws WebhookVerificationError if the signature is invalid. */
export function receive(secret: string, headers: Record<string, string>, body: string): unknown {
  return new Webhook(secret).verify(body, headers);
}`;

const EXAMPLES = { Python: PYTHON, TypeScript: TYPESCRIPT };

/** @typedef {keyof typeof EXAMPLES} Language */

export function Verify() {
  const [language, setLanguage] = useState(/** @type {Language} */ ("Python"));
  return html`<details class="verify"><summary>${TEXT.title}</summary>
    <p>${TEXT.about(html`<code>webhook-id</code>`, html`<code>webhook-timestamp</code>`, html`<code>webhook-signature</code>`, html`<code>${LIBRARY}</code>`)}</p>
    <div class="actions" role="group" aria-label=${TEXT.language}>${/** @type {Language[]} */ (Object.keys(EXAMPLES)).map((name) => html`<button type="button"
      aria-pressed=${String(name === language)} onClick=${() => setLanguage(name)}>${name}</button>`)}</div>
    <${Copyable} label=${TEXT.example(language)} text=${EXAMPLES[language]} key=${language} />
    <p>${TEXT.duplicates(html`<code>webhook-id</code>`)}</p>
  </details>`;
}

/** Text with a button that copies it. @param {{ label: string, text: string, isCode?: boolean }} props */
export function Copyable({ label, text, isCode = true }) {
  const [copied, setCopied] = useState("");
  const shown = useRef(/** @type {HTMLElement | null} */ (null));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(TEXT.copied);
    } catch {
      if (shown.current) getSelection()?.selectAllChildren(shown.current);
      setCopied(TEXT.blocked);
    }
  };
  return html`${isCode ? html`<pre tabindex="0" aria-label=${label} ref=${shown}>${text}</pre><button type="button" onClick=${copy}>${TEXT.copyCode}</button>`
    : html`<p class="secret"><code ref=${shown}>${text}</code> <button type="button" class="primary" onClick=${copy}>${TEXT.copy}</button></p>`}
    <p class="hint" role="status">${copied}</p>`;
}
