// Webhooks: a user's, and a single one. Its parts are in `webhooks/`.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { useEvery, useLoad } from "../core/load.js";
import { go, to } from "../core/route.js";
import { Empty, Failure, Field, Loading, Typed } from "../parts/parts.js";
import { webhooksOf } from "../webhooks/calls.js";
import { Create } from "../webhooks/form.js";
import One from "../webhooks/one.js";
import { Secret } from "../webhooks/secret.js";
import { Followed, nameOf, stateOf, StateWord, typesInWords } from "../webhooks/words.js";

/** @typedef {import("../core/session.js").User} User @typedef {import("../webhooks/calls.js").Webhook} Webhook */

const PERIOD_MS = 15_000;

/** @param {{ route: import("../core/route.js").Route, user: User }} props */
export default function Webhooks({ route, user }) {
  const webhookId = route.path[1];
  if (webhookId) return html`<${One} key=${webhookId} webhookId=${webhookId} user=${user} />`;
  const owner = route.query.get("userId") || user.subject;
  return html`<${List} key=${owner} owner=${owner} user=${user} />`;
}

/** @param {{ owner: string, user: User }} props */
function List({ owner, user }) {
  const isOwn = owner === user.subject;
  const loaded = useLoad((signal) => webhooksOf(isOwn ? undefined : owner, signal), [owner]);
  const [isCreating, setCreating] = useState(false);
  const [made, setMade] = useState(/** @type {import("../webhooks/calls.js").WithSecret | null} */ (null));
  useEvery(() => loaded.isLoading || loaded.reload(), PERIOD_MS, !isCreating && !made);
  const create = html`<button type="button" class="primary" onClick=${() => setCreating(true)}>New webhook</button>`;
  return html`<div class="webhooks-head">
      <h1 tabindex="-1">${isOwn ? "Webhooks" : html`Webhooks of <${Typed}>${owner}<//>`}</h1>
      ${isOwn && create}
      ${user.isAdmin && html`<${Whose} owner=${isOwn ? "" : owner} />`}
    </div>
    ${!isOwn && html`<p><a href=${to(["webhooks"])}>To your own webhooks</a></p>`}
    <p class="hint">A webhook sends each change to another system as it happens, signed, and those of one video in their order.</p>
    <${Failure} error=${loaded.error} retry=${loaded.reload} />
    ${!loaded.value && loaded.isLoading && html`<${Loading} />`}
    ${loaded.value?.length === 0 && html`<${Empty}>${isOwn ? "You have no webhooks yet." : "This user has no webhooks."}<//>`}
    <ul class="webhooks">${loaded.value?.map((webhook) => html`<li key=${webhook.webhookId}><${Card} webhook=${webhook} isOwn=${isOwn} /></li>`)}</ul>
    ${isCreating && html`<${Create} followsAll=${user.followsAll} onClose=${() => setCreating(false)}
      onCreated=${(/** @type {import("../webhooks/calls.js").WithSecret} */ webhook) => {
        setCreating(false);
        setMade(webhook);
      }} />`}
    ${made && html`<${Secret} webhook=${made} onClose=${() => go(to(["webhooks", made.webhookId]))} />`}`;
}

/** @param {{ webhook: Webhook, isOwn: boolean }} props */
function Card({ webhook, isOwn }) {
  const { webhookId, url, types, description } = webhook;
  const state = stateOf(webhook);
  return html`<a class="webhook-card" href=${to(["webhooks", webhookId])}>
    <span class="webhook-name"><${Typed} class="title">${nameOf(webhook)}<//> <${StateWord} state=${state} /></span>
    ${description && html`<${Typed} class="webhook-url">${url}<//>`}
    <${Typed}>${state.text}<//>
    <span class="hint"><${Followed} webhook=${webhook} isOwn=${isOwn} />${types.length > 0 && html`: ${typesInWords(types).join(", ")}`}</span>
  </a>`;
}

/** Leads to the webhooks of somebody else. @param {{ owner: string }} props */
function Whose({ owner }) {
  const [name, setName] = useState(owner);
  const show = (/** @type {Event} */ event) => {
    event.preventDefault();
    go(to(["webhooks"], { userId: name.trim() }));
  };
  return html`<form class="webhooks-whose" onSubmit=${show} role="search" aria-label="Webhooks of a user">
    <${Field} label="Webhooks of a user" value=${name} onInput=${setName} autocomplete="off" maxlength="255" />
    <button>Show</button>
  </form>`;
}
