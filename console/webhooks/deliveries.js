// What was sent to a webhook, and what was answered.

import { html } from "htm/preact";
import { useEvery, usePages } from "../core/load.js";
import { to } from "../core/route.js";
import { count } from "../core/words.js";
import { Moment } from "../history/entries.js";
import { Empty, More, News, Typed } from "../parts/parts.js";
import { deliveries } from "./calls.js";
import { typesInWords } from "./words.js";

/** @typedef {import("./calls.js").Delivery} Delivery */

const PERIOD_MS = 5000;

/** @param {{ webhookId: string }} props */
export default function Deliveries({ webhookId }) {
  const pages = usePages((cursor, signal) => deliveries(webhookId, cursor, signal), [webhookId], { key: keyOf });
  useEvery(() => void pages.look().catch(() => undefined), PERIOD_MS, !pages.isLoading && !pages.error); // the next look may succeed
  return html`<section class="deliveries" aria-label="Deliveries">
    <h2>Deliveries</h2>
    <p class="hint">Every attempt of the last 7 days, the newest first.</p>
    <${News} pages=${pages} noun="new attempt" isLast />
    ${pages.isDone && !pages.items.length && html`<${Empty}>Nothing was sent in the last 7 days.<//>`}
    <ol class="delivery-list">${pages.items.map((delivery) => html`<li key=${keyOf(delivery)}>
      <p class="delivery-facts"><${Answered} ...${delivery} />
        <strong>${typesInWords([delivery.type])[0]}</strong>
        <${About} ...${delivery} />
        <${Moment} at=${delivery.at} />
        ${delivery.attempt > 1 && html`<span>attempt ${count(delivery.attempt)}</span>`}</p>
      <${Answer} ...${delivery} />
    </li>`)}</ol>
    <${More} pages=${pages} />
  </section>`;
}

/** What no two attempts share. @param {Delivery} delivery */
function keyOf({ at, changeId, attempt }) {
  return `${at} ${changeId} ${attempt}`;
}

/** Whether it was taken, and how fast. @param {{ status?: number, ms: number }} props */
export function Answered({ status, ms }) {
  const isTaken = status !== undefined && status >= 200 && status < 300;
  return html`<span class=${`status status-${isTaken ? "done" : "failed"}`}>${status ?? "no answer"}</span> <span class="ms">${count(ms)} ms</span>`;
}

/** What the receiver said, or why it did not. @param {{ error?: string, answer?: string }} props */
export function Answer({ error, answer }) {
  return html`${error && html`<p class="fault"><${Typed}>${error}<//></p>`}
    ${answer && html`<details><summary>What it answered</summary><pre tabindex="0" aria-label="The first bytes of the answer"><${Typed}>${answer}<//></pre></details>`}`;
}

/** What the change was about. @param {Delivery} delivery */
function About({ videoId, playlistId }) {
  if (videoId) return html`<a href=${to(["videos", videoId])}>Its video</a>`;
  return playlistId ? html`<a href=${to(["playlists", playlistId])}>Its playlist</a>` : null;
}
