// What was sent to a webhook, and what was answered.

import { html } from "htm/preact";
import { useInterval, usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { count } from "../core/words.js";
import { Moment } from "../history/entries.js";
import { Empty, LoadMore, News, UserText } from "../design/parts.js";
import { deliveries } from "./requests.js";
import { typesInWords } from "./words.js";

/** @typedef {import("./requests.js").Delivery} Delivery */

const PERIOD_MS = 5000;

/** @param {{ webhookId: string }} props */
export default function Deliveries({ webhookId }) {
  const pages = usePages((cursor, signal) => deliveries(webhookId, cursor, signal), [webhookId], { key: keyOf });
  useInterval(() => void pages.look().catch(() => undefined), PERIOD_MS, !pages.isLoading && !pages.error); // the next look may succeed
  return html`<section class="deliveries" aria-label="Deliveries">
    <h2>Deliveries</h2>
    <p class="hint">All attempts of the last 7 days, newest first.</p>
    <${News} pages=${pages} noun="new attempt" isLast />
    ${pages.isDone && !pages.items.length && html`<${Empty}>No deliveries in the last 7 days.<//>`}
    <ol class="delivery-list">${pages.items.map((delivery) => html`<li key=${keyOf(delivery)}>
      <p class="delivery-facts"><${ResponseStatus} ...${delivery} />
        <strong>${typesInWords([delivery.type])[0]}</strong>
        <${About} ...${delivery} />
        <${Moment} at=${delivery.at} />
        ${delivery.attempt > 1 && html`<span>attempt ${count(delivery.attempt)}</span>`}</p>
      <${ResponseBody} ...${delivery} />
    </li>`)}</ol>
    <${LoadMore} pages=${pages} />
  </section>`;
}

/** What no two attempts share. @param {Delivery} delivery */
function keyOf({ at, changeId, attempt }) {
  return `${at} ${changeId} ${attempt}`;
}

/** Whether it was taken, and how fast. @param {{ status?: number, ms: number }} props */
export function ResponseStatus({ status, ms }) {
  const isTaken = status !== undefined && status >= 200 && status < 300;
  return html`<span class=${`status status-${isTaken ? "done" : "failed"}`}>${status ?? "No response"}</span> <span class="ms">${count(ms)} ms</span>`;
}

/** What the receiver said, or why it did not. @param {{ error?: string, answer?: string }} props */
export function ResponseBody({ error, answer }) {
  return html`${error && html`<p class="fault"><${UserText}>${error}<//></p>`}
    ${answer && html`<details><summary>Response body</summary><pre tabindex="0" aria-label="First bytes of the response body"><${UserText}>${answer}<//></pre></details>`}`;
}

/** What the change was about. @param {Delivery} delivery */
function About({ videoId, playlistId }) {
  if (videoId) return html`<a href=${hrefTo(["videos", videoId])}>Video</a>`;
  return playlistId ? html`<a href=${hrefTo(["playlists", playlistId])}>Playlist</a>` : null;
}
