// Webhooks: the list of a user, or one webhook. Components are in `webhooks/`.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { useInterval, useLoad } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { Empty, Failure, Icon, Loading, OwnerForm, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { webhooksOf } from "../webhooks/requests.js";
import { Create } from "../webhooks/form.js";
import WebhookScreen from "../webhooks/webhook.js";
import { Secret } from "../webhooks/secret.js";
import { SubscribedTypes, nameOf, stateOf, StateBadge, typesInWords } from "../webhooks/labels.js";

const TEXT = texts.webhooks;

/** @typedef {import("../core/session.js").User} User @typedef {import("../webhooks/requests.js").Webhook} Webhook */

const PERIOD_MS = 15_000;

/** @param {{ route: import("../core/route.js").Route, user: User }} props */
export default function Webhooks({ route, user }) {
  const webhookId = route.path[1];
  if (webhookId) return html`<${WebhookScreen} key=${webhookId} webhookId=${webhookId} user=${user} />`;
  const owner = route.query.get("userId") || user.subject;
  return html`<${List} key=${owner} owner=${owner} user=${user} />`;
}

/** @param {{ owner: string, user: User }} props */
function List({ owner, user }) {
  const isOwn = owner === user.subject;
  const loaded = useLoad((signal) => webhooksOf(isOwn ? undefined : owner, signal), [owner]);
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState(/** @type {import("../webhooks/requests.js").WithSecret | null} */ (null));
  useInterval(() => loaded.isLoading || loaded.reload(), PERIOD_MS, !isCreating && !created);
  const create = html`<button type="button" class="primary" onClick=${() => setCreating(true)}><${Icon} name="plus" />${TEXT.create}</button>`;
  return html`<div class="webhooks-head">
      <h1 tabindex="-1">${isOwn ? TEXT.title : TEXT.listOf(html`<${UserText}>${owner}<//>`)}</h1>
      ${isOwn && !!loaded.value?.length && create}
      ${user.isAdmin && html`<${OwnerForm} route="webhooks" label=${TEXT.ofUser} owner=${isOwn ? "" : owner} />`}
    </div>
    ${!isOwn && html`<p><a href=${hrefTo(["webhooks"])}>${TEXT.yours}</a></p>`}
    <p class="hint">${TEXT.about}</p>
    <${Failure} error=${loaded.error} retry=${loaded.reload} />
    ${!loaded.value && loaded.isLoading && html`<${Loading} />`}
    ${loaded.value?.length === 0 && html`<${Empty} icon="webhook"><p>${isOwn ? TEXT.none : TEXT.userHasNone}</p>${isOwn && create}<//>`}
    <ul class="webhooks">${loaded.value?.map((webhook) => html`<li key=${webhook.webhookId}><${Card} webhook=${webhook} isOwn=${isOwn} /></li>`)}</ul>
    ${isCreating && html`<${Create} followsAll=${user.followsAll} onClose=${() => setCreating(false)}
      onCreated=${(/** @type {import("../webhooks/requests.js").WithSecret} */ webhook) => {
        setCreating(false);
        setCreated(webhook);
      }} />`}
    ${created && html`<${Secret} webhook=${created} onClose=${() => navigate(hrefTo(["webhooks", created.webhookId]))} />`}`;
}

/** @param {{ webhook: Webhook, isOwn: boolean }} props */
function Card({ webhook, isOwn }) {
  const { webhookId, url, types, description } = webhook;
  const state = stateOf(webhook);
  return html`<a class="webhook-card" href=${hrefTo(["webhooks", webhookId])}>
    <span class="webhook-name"><${UserText} class="title">${nameOf(webhook)}<//> <${StateBadge} state=${state} /></span>
    ${description && html`<${UserText} class="webhook-url">${url}<//>`}
    <${UserText}>${state.text}<//>
    <span class="hint"><${SubscribedTypes} webhook=${webhook} isOwn=${isOwn} />${types.length > 0 && ` · ${typesInWords(types).join(", ")}`}</span>
  </a>`;
}
