// The dialogs of one webhook: sending again from a time, another secret, deleting.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useAttempt } from "../core/load.js";
import { Dialog, Failure, Field, announceText, UserText } from "../design/parts.js";
import { useIdempotencyKey } from "../playlists/idempotency.js";
import { remove, replay, rotate } from "./requests.js";
import { nameOf } from "./words.js";

/** @typedef {import("./requests.js").Webhook} Webhook */

/** @param {{ webhook: Webhook, onClose: () => void, onDone: (webhook: Webhook) => void }} props */
export function Replay({ webhook: { webhookId, paused }, onClose, onDone }) {
  const [from, setFrom] = useState("");
  const { error, isBusy, run } = useAttempt(async () => {
    const after = await replay(webhookId, Math.floor(new Date(from).getTime() / 1000));
    announceText("Replay started.");
    onDone(after);
  });
  const fault = error instanceof Problem ? error.at("/from") : undefined;
  return html`<${Dialog} title="Replay" onClose=${onClose}>
    <form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      void run();
    }}>
      <p>Sends every change since a time again, in the order of each video. Delivered changes are sent again with the same
        <code> webhook-id</code>, so that the receiver can drop duplicates.${paused && " The webhook stays paused. Resume it to send the changes."}</p>
      <${Field} label="Replay from" kind="datetime-local" step="1" value=${from} onInput=${setFrom} error=${fault} required readOnly=${isBusy}
        hint="In the time zone of this browser, at most 30 days ago." />
      ${!fault && html`<${Failure} error=${error} />`}
      <div class="actions">
        <button class="primary" disabled=${isBusy}>Replay</button>
        <button type="button" onClick=${onClose}>Cancel</button>
      </div>
    </form>
  <//>`;
}

/** @param {{ webhook: Webhook, onClose: () => void, onDone: (webhook: import("./requests.js").WithSecret) => void }} props */
export function Rotate({ webhook: { webhookId }, onClose, onDone }) {
  const once = useIdempotencyKey();
  const { error, isBusy, run } = useAttempt(async () => onDone(await once(webhookId, (key) => rotate(webhookId, key))));
  return html`<${Dialog} title="Rotate secret?" onClose=${onClose}>
    <p>For one day, changes are signed with both the new and the current secret, so that the receiver can switch without missing any.
      Older secrets end now.</p>
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="primary" disabled=${isBusy} onClick=${run}>Rotate secret</button>
      <button type="button" onClick=${onClose}>Cancel</button>
    </div>
  <//>`;
}

/** @param {{ webhook: Webhook, onClose: () => void, onDeleted: () => void }} props */
export function Delete({ webhook, onClose, onDeleted }) {
  const { error, isBusy, run } = useAttempt(async () => {
    await remove(webhook.webhookId).catch((reason) => {
      if (!(reason instanceof Problem && reason.status === 404)) throw reason; // it is gone, as wanted
    });
    onDeleted();
  });
  return html`<${Dialog} title="Delete webhook?" onClose=${onClose}>
    <p>“<${UserText}>${nameOf(webhook)}<//>” receives no more changes. Its secret and its deliveries are permanently deleted. To stop it temporarily, pause it.</p>
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="danger" disabled=${isBusy} onClick=${run}>Delete</button>
      <button type="button" onClick=${onClose}>Cancel</button>
    </div>
  <//>`;
}
