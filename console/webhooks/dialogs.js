// The dialogs of one webhook: sending again from a time, another secret, deleting.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useAttempt } from "../core/load.js";
import { Dialog, Failure, Field, announceText, UserText } from "../parts/components.js";
import { useIdempotencyKey } from "../playlists/idempotency.js";
import { remove, replay, rotate } from "./requests.js";
import { nameOf } from "./words.js";

/** @typedef {import("./requests.js").Webhook} Webhook */

/** @param {{ webhook: Webhook, onClose: () => void, onDone: (webhook: Webhook) => void }} props */
export function Replay({ webhook: { webhookId, paused }, onClose, onDone }) {
  const [from, setFrom] = useState("");
  const { error, isBusy, run } = useAttempt(async () => {
    const after = await replay(webhookId, Math.floor(new Date(from).getTime() / 1000));
    announceText("Everything since then is sent again.");
    onDone(after);
  });
  const fault = error instanceof Problem ? error.at("/from") : undefined;
  return html`<${Dialog} title="Send again" onClose=${onClose}>
    <form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      void run();
    }}>
      <p>Every change since a time is sent again, in the order of each video, also those that were taken: they come with the same
        <code> webhook-id</code>, so that a receiver can drop what it has.${paused && " The webhook stays paused; the changes wait until somebody resumes it."}</p>
      <${Field} label="Since" kind="datetime-local" step="1" value=${from} onInput=${setFrom} error=${fault} required readOnly=${isBusy}
        hint="In the time zone of this browser, at most 30 days ago." />
      ${!fault && html`<${Failure} error=${error} />`}
      <div class="actions">
        <button class="primary" disabled=${isBusy}>Send again</button>
        <button type="button" onClick=${onClose}>Cancel</button>
      </div>
    </form>
  <//>`;
}

/** @param {{ webhook: Webhook, onClose: () => void, onDone: (webhook: import("./requests.js").WithSecret) => void }} props */
export function Rotate({ webhook: { webhookId }, onClose, onDone }) {
  const once = useIdempotencyKey();
  const { error, isBusy, run } = useAttempt(async () => onDone(await once(webhookId, (key) => rotate(webhookId, key))));
  return html`<${Dialog} title="Make another secret?" onClose=${onClose}>
    <p>For a day, changes are signed with both the new secret and the present one, so that the receiver can change over without missing any.
      A secret before the present one ends at once.</p>
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="primary" disabled=${isBusy} onClick=${run}>Make another secret</button>
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
  return html`<${Dialog} title="Delete the webhook?" onClose=${onClose}>
    <p>“<${UserText}>${nameOf(webhook)}<//>” gets no more changes. Its secret and its deliveries are gone for good; to stop it for a while, pause it.</p>
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="primary" disabled=${isBusy} onClick=${run}>Delete</button>
      <button type="button" onClick=${onClose}>Cancel</button>
    </div>
  <//>`;
}
