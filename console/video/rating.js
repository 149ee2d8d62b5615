// Ratings of a video: totals, and the user's own.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { count } from "../core/formats.js";
import { Failure, Icon, Loading, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.rating;

/** @typedef {import("../core/api.js").Schemas["Rating"]} Totals @typedef {import("../core/api.js").Schemas["RatingContent"]} Wanted */

const AVERAGE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

/** @param {{ video: import("../screens/video.js").Video }} props */
export default function Rating({ video: { videoId } }) {
  const path = { videoId };
  const loaded = useLoad(async (signal) => (await ask(api.GET("/v1/videos/{videoId}/rating", { params: { path }, signal }))).data, [videoId]);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const values = useRef(/** @type {HTMLElement | null} */ (null));
  const rating = loaded.value;

  /** @param {() => Promise<Totals>} change @param {string} message */
  const run = async (change, message) => {
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      loaded.set(await change());
      announceText(message);
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  const rate = (/** @type {Wanted} */ body, /** @type {string} */ message) =>
    run(async () => (await ask(api.PUT("/v1/videos/{videoId}/rating", { params: { path }, body }))).data, message);
  const remove = (/** @type {Totals} */ before) => run(async () => {
    await ask(api.DELETE("/v1/videos/{videoId}/rating", { params: { path } }));
    values.current?.focus(); // the button disappears
    return withoutOwnRating(before);
  }, TEXT.removed);

  return html`<aside class="rating" aria-label=${TEXT.title}>
    <h2>${TEXT.title}</h2>
    <${Failure} error=${loaded.error} retry=${loaded.reload} />
    ${!rating && loaded.isLoading && html`<${Loading} />`}
    ${rating && html`
      <p class="rating-totals">
        ${rating.average === null ? TEXT.none : TEXT.average(html`<strong>${AVERAGE.format(rating.average)}</strong>`, rating.votes)}
        ${rating.likes + rating.dislikes > 0 && html`<br />${TEXT.likes(rating.likes, rating.dislikes)}`}
        ${rating.imported && html`<br /><small>${TEXT.imported(AVERAGE.format(rating.imported.average), rating.imported.votes)}</small>`}
      </p>
      <p class="hint" id="rating-yours">${TEXT.yours}</p>
      <div class="values" role="group" tabindex="-1" ref=${values} aria-labelledby="rating-yours">
        ${Array.from({ length: 10 }, (_, index) => index + 1).map((value) => html`<button key=${value} type="button"
          class=${value <= (rating.own?.value ?? 0) ? "quiet is-filled" : "quiet"} aria-label=${count(value)} aria-pressed=${String(rating.own?.value === value)}
          onClick=${() => rate({ value }, TEXT.rated(value))}><${Icon} name="star" /></button>`)}
      </div>
      <div class="actions">
        <button type="button" aria-pressed=${String(rating.own?.like === true)} onClick=${() => rate({ like: true }, TEXT.liked)}><${Icon} name="thumbs-up" />${TEXT.like}</button>
        <button type="button" aria-pressed=${String(rating.own?.like === false)} onClick=${() => rate({ like: false }, TEXT.disliked)}><${Icon} name="thumbs-down" />${TEXT.dislike}</button>
        ${rating.own && html`<button type="button" class="quiet" onClick=${() => remove(rating)}>${TEXT.remove}</button>`}
      </div>`}
    <${Failure} error=${error} />
  </aside>`;
}

/** Return the totals without the user's rating. The service updates its totals later. @param {Totals} before @returns {Totals} */
function withoutOwnRating({ own, ...totals }) {
  if (!own || !totals.votes || totals.average === null) return totals;
  const votes = totals.votes - 1;
  return {
    ...totals,
    votes,
    average: votes ? Math.min(10, Math.max(1, (totals.average * totals.votes - own.value) / votes)) : null,
    likes: totals.likes - (own.like === true && totals.likes ? 1 : 0),
    dislikes: totals.dislikes - (own.like === false && totals.dislikes ? 1 : 0),
  };
}
