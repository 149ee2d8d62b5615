// Delivery attempts of a webhook, with the receiver's responses.

import { html } from "htm/preact";
import { useInterval, usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { ExactTime } from "../history/entries.js";
import { Empty, LoadMore, PendingChanges, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { deliveries } from "./requests.js";
import { typesInWords } from "./labels.js";

const TEXT = texts.webhooks.deliveries;

/** @typedef {import("./requests.js").Delivery} Delivery */

const PERIOD_MS = 5000;

/** @param {{ webhookId: string }} props */
export default function Deliveries({ webhookId }) {
  const pages = usePages((cursor, signal) => deliveries(webhookId, cursor, signal), [webhookId], { key: keyOf });
  useInterval(() => void pages.check().catch(() => undefined), PERIOD_MS, !pages.isLoading && !pages.error); // the next poll retries
  return html`<section class="deliveries" aria-label=${TEXT.title}>
    <h2>${TEXT.title}</h2>
    <p class="hint">${TEXT.about}</p>
    <${PendingChanges} pages=${pages} label=${TEXT.showNew} isLast />
    ${pages.isDone && !pages.items.length && html`<${Empty}>${TEXT.none}<//>`}
    <ol class="delivery-list">${pages.items.map((delivery) => html`<li key=${keyOf(delivery)}>
      <p class="delivery-facts"><${ResponseStatus} ...${delivery} />
        <strong>${typesInWords([delivery.type])[0]}</strong>
        <${About} ...${delivery} />
        <${ExactTime} at=${delivery.at} />
        ${delivery.attempt > 1 && html`<span>${TEXT.attempt(delivery.attempt)}</span>`}</p>
      <${ResponseBody} ...${delivery} />
    </li>`)}</ol>
    <${LoadMore} pages=${pages} />
  </section>`;
}

/** Return the unique key of an attempt. @param {Delivery} delivery */
function keyOf({ at, changeId, attempt }) {
  return `${at} ${changeId} ${attempt}`;
}

/** Status and time of a receiver's response. @param {{ status?: number, ms: number }} props */
export function ResponseStatus({ status, ms }) {
  const isTaken = status !== undefined && status >= 200 && status < 300;
  return html`<span class=${`status status-${isTaken ? "done" : "failed"}`}>${status ?? TEXT.noResponse}</span> <span class="ms">${TEXT.milliseconds(ms)}</span>`;
}

/** Start of the response body, and the error of a failed attempt. @param {{ error?: string, answer?: string }} props */
export function ResponseBody({ error, answer }) {
  return html`${error && html`<p class="fault"><${UserText}>${error}<//></p>`}
    ${answer && html`<details><summary>${TEXT.responseBody}</summary><pre tabindex="0" aria-label=${TEXT.bodyStart}><${UserText}>${answer}<//></pre></details>`}`;
}

/** Link to the video or playlist of the change. @param {Delivery} delivery */
function About({ videoId, playlistId }) {
  if (videoId) return html`<a href=${hrefTo(["videos", videoId])}>${texts.common.video}</a>`;
  return playlistId ? html`<a href=${hrefTo(["playlists", playlistId])}>${texts.playlists.playlist}</a>` : null;
}
