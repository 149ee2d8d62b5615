// Page of one webhook: its state, deliveries and actions.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useAttempt, useInterval, useLoad } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { time } from "../core/formats.js";
import { Breadcrumbs, Failure, Icon, Loading, Time, announceText, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { patch, read, test as sendTest } from "./requests.js";
import Deliveries, { ResponseBody, ResponseStatus } from "./deliveries.js";
import { Delete, Replay, Rotate } from "./dialogs.js";
import { Edit } from "./form.js";
import { Secret } from "./secret.js";
import { Verify } from "./verify.js";
import { SubscribedTypes, nameOf, stateOf, StateBadge, typesInWords } from "./labels.js";

const TEXT = texts.webhooks;

/** @typedef {import("./requests.js").Webhook} Webhook @typedef {import("./requests.js").WithSecret} WithSecret @typedef {import("./requests.js").Tested} Tested */

const PERIOD_MS = 5000;

/** @param {{ webhookId: string, user: import("../core/session.js").User }} props */
export default function WebhookScreen({ webhookId, user }) {
  const loaded = useLoad((signal) => read(webhookId, signal), [webhookId]);
  const [dialog, setDialog] = useState("");
  const [secret, setSecret] = useState(/** @type {WithSecret | null} */ (null));
  const [test, setTest] = useState(/** @type {{ tested: Tested, version: number } | null} */ (null));
  const isGone = loaded.error instanceof Problem && loaded.error.status === 404;
  useInterval(() => loaded.isLoading || loaded.reload(), PERIOD_MS, !isGone && dialog === "");
  const close = () => setDialog("");
  const up = (/** @type {string} */ here) => html`<${Breadcrumbs} path=${[[TEXT.title, hrefTo(["webhooks"])]]} here=${here} />`;
  if (!loaded.value || isGone) {
    return html`${up(TEXT.webhook)}<h1>${TEXT.webhook}</h1>
      ${loaded.error ? html`<${Failure} error=${loaded.error} retry=${isGone ? undefined : loaded.reload} />` : html`<${Loading} />`}`;
  }
  const { webhook } = loaded.value;
  const changed = (/** @type {Webhook} */ after, /** @type {string | null} */ etag = null) => {
    loaded.set({ webhook: after, etag });
    close();
  };
  const tested = test?.version === webhook.version ? test.tested : null; // a test of an earlier version is not shown
  const state = stateOf(webhook, tested);
  return html`<article class="webhook">
    ${up(nameOf(webhook))}
    <h1><${UserText}>${nameOf(webhook)}<//></h1>
    <p class="webhook-url"><${UserText}>${webhook.url}<//></p>
    <p class="webhook-state" role="status"><${StateBadge} state=${state} /> <${UserText}>${state.text}<//></p>
    <${Actions} webhook=${webhook} changed=${changed} open=${setDialog} tested=${tested}
      setTested=${(/** @type {Tested} */ answer) => setTest({ tested: answer, version: webhook.version })} />
    <dl class="webhook-about">
      <div><dt>${TEXT.subscribedTo}</dt><dd><${SubscribedTypes} webhook=${webhook} isOwn=${webhook.userId === user.subject} /></dd></div>
      <div><dt>${TEXT.events}</dt><dd>${webhook.types.length ? typesInWords(webhook.types).join(", ") : TEXT.allEvents}</dd></div>
      ${webhook.userId !== user.subject && html`<div><dt>${texts.fields.userId}</dt><dd><${UserText}>${webhook.userId}<//></dd></div>`}
      <div><dt>${texts.fields.createdAt}</dt><dd><${Time} at=${webhook.createdAt * 1000} /></dd></div>
      ${webhook.previousSecretUntil !== undefined && html`<div><dt>${TEXT.previousSecret}</dt><dd>${TEXT.validUntil(time(webhook.previousSecretUntil))}</dd></div>`}
    </dl>
    <${Failure} error=${loaded.error} retry=${loaded.reload} />
    <${Verify} />
    <${Deliveries} webhookId=${webhookId} />
    ${dialog === "edit" && html`<${Edit} start=${loaded.value} onClose=${close}
      onSaved=${(/** @type {import("./requests.js").Version} */ now) => changed(now.webhook, now.etag)} />`}
    ${dialog === "replay" && html`<${Replay} webhook=${webhook} onClose=${close} onDone=${changed} />`}
    ${dialog === "rotate" && html`<${Rotate} webhook=${webhook} onClose=${close} onDone=${(/** @type {WithSecret} */ after) => {
      changed(after);
      setSecret(after);
    }} />`}
    ${dialog === "delete" && html`<${Delete} webhook=${webhook} onClose=${close} onDeleted=${() => {
      announceText(TEXT.deleted);
      navigate(hrefTo(["webhooks"]), { replace: true });
    }} />`}
    ${secret && html`<${Secret} webhook=${secret} onClose=${() => setSecret(null)} />`}
  </article>`;
}

/** Buttons that test and pause the webhook, and open its dialogs.
 * @param {{ webhook: Webhook, changed: (webhook: Webhook, etag?: string | null) => void, open: (dialog: string) => void,
 *   tested: Tested | null, setTested: (tested: Tested) => void }} props */
function Actions({ webhook: { webhookId, paused }, changed, open, tested, setTested }) {
  const sending = useAttempt(async () => setTested(await sendTest(webhookId)));
  const pausing = useAttempt(async () => {
    const { webhook, etag } = await patch(webhookId, { paused: !paused });
    announceText(paused ? TEXT.resumed : TEXT.pausedNow);
    changed(webhook, etag);
  });
  return html`<div class="actions">
      <button type="button" class="primary" disabled=${sending.isBusy} onClick=${sending.run}><${Icon} name="send" />${sending.isBusy ? TEXT.sendingTest : TEXT.sendTest}</button>
      <button type="button" disabled=${pausing.isBusy} onClick=${pausing.run}><${Icon} name=${paused ? "play" : "pause"} />${paused ? TEXT.resume : TEXT.pause}</button>
      <button type="button" onClick=${() => open("edit")}><${Icon} name="pencil" />${texts.common.edit}</button>
      <button type="button" onClick=${() => open("replay")}><${Icon} name="refresh-cw" />${TEXT.replayDialog}</button>
      <button type="button" onClick=${() => open("rotate")}><${Icon} name="key-round" />${TEXT.rotateDialog}</button>
      <button type="button" class="quiet danger" onClick=${() => open("delete")}><${Icon} name="trash" />${TEXT.deleteDialog}</button>
    </div>
    <${Failure} error=${pausing.error} />
    <${Failure} error=${sending.error} />
    <div class="webhook-test" role="status">${tested && html`<p class="delivery-facts" key=${tested.id}><${ResponseStatus} ...${tested} />
        <strong>${tested.delivered ? TEXT.testDelivered : TEXT.testFailed}</strong></p>
      <${ResponseBody} ...${tested} />`}</div>`;
}
