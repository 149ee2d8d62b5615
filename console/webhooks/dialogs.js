// Dialogs of one webhook: replay, rotation of the secret, deletion.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useAttempt } from "../core/load.js";
import { Dialog, Failure, Field, announceText, UserText } from "../design/parts.js";
import { useIdempotencyKey } from "../playlists/idempotency.js";
import { texts } from "../texts/index.js";
import { remove, replay, rotate } from "./requests.js";
import { nameOf } from "./labels.js";

const TEXT = texts.webhooks.dialogs;

/** @typedef {import("./requests.js").Webhook} Webhook */

/** @param {{ webhook: Webhook, onClose: () => void, onDone: (webhook: Webhook) => void }} props */
export function Replay({ webhook: { webhookId, paused }, onClose, onDone }) {
  const [from, setFrom] = useState("");
  const { error, isBusy, run } = useAttempt(async () => {
    const after = await replay(webhookId, Math.floor(new Date(from).getTime() / 1000));
    announceText(TEXT.replayStarted);
    onDone(after);
  });
  const fault = error instanceof Problem ? error.at("/from") : undefined;
  return html`<${Dialog} title=${TEXT.replay} onClose=${onClose}>
    <form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      void run();
    }}>
      <p>${TEXT.replayAbout(html`<code>webhook-id</code>`)}${paused && ` ${TEXT.staysPaused}`}</p>
      <${Field} label=${TEXT.replayFrom} kind="datetime-local" step="1" value=${from} onInput=${setFrom} error=${fault} required readOnly=${isBusy}
        hint=${TEXT.replayFromHint} />
      ${!fault && html`<${Failure} error=${error} />`}
      <div class="actions">
        <button class="primary" disabled=${isBusy}>${TEXT.replay}</button>
        <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
      </div>
    </form>
  <//>`;
}

/** @param {{ webhook: Webhook, onClose: () => void, onDone: (webhook: import("./requests.js").WithSecret) => void }} props */
export function Rotate({ webhook: { webhookId }, onClose, onDone }) {
  const once = useIdempotencyKey();
  const { error, isBusy, run } = useAttempt(async () => onDone(await once(webhookId, (key) => rotate(webhookId, key))));
  return html`<${Dialog} title=${TEXT.rotateQuestion} onClose=${onClose}>
    <p>${TEXT.rotateAbout}</p>
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="primary" disabled=${isBusy} onClick=${run}>${TEXT.rotate}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    </div>
  <//>`;
}

/** @param {{ webhook: Webhook, onClose: () => void, onDeleted: () => void }} props */
export function Delete({ webhook, onClose, onDeleted }) {
  const { error, isBusy, run } = useAttempt(async () => {
    await remove(webhook.webhookId).catch((reason) => {
      if (!(reason instanceof Problem && reason.status === 404)) throw reason; // already deleted
    });
    onDeleted();
  });
  return html`<${Dialog} title=${TEXT.deleteQuestion} onClose=${onClose}>
    <p>${TEXT.deleteWarning(html`<${UserText}>${nameOf(webhook)}<//>`)}</p>
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="danger" disabled=${isBusy} onClick=${run}>${texts.common.delete}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    </div>
  <//>`;
}
