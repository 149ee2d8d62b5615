// Strip of storyboard frames, from which the owner selects the poster.

import { html } from "htm/preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { duration } from "../core/formats.js";
import { Failure, Loading, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { Frame, useStoryboard } from "./storyboard.js";

const TEXT = texts.video.poster;

/**
 * @typedef {import("../screens/video.js").Video} Video
 * @typedef {import("../core/api.js").Schemas["Job"]} Job
 * @typedef {import("./storyboard.js").Tile} Tile
 */

/** Maximum milliseconds until the job appears. */
const JOB_START_MS = 60_000;

/** @param {{ video: Video, job?: Job, setPending: (is: boolean) => void }} props */
export default function Posters({ video, job, setPending }) {
  const tiles = useStoryboard(video.thumbnails?.["storyboard.vtt"]?.url);
  const poster = video.thumbnails?.poster;
  const name = useId();
  const [chosen, setChosen] = useState(/** @type {number | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  /** Poster and job attempt before the request; null if no request is pending. */
  const [before, setBefore] = useState(/** @type {{ url?: string, attempt?: number } | null} */ (null));
  const isOpen = job?.state === "queued" || job?.state === "running";

  /** @param {string} text */
  const end = (text) => {
    setBefore(null);
    setChosen(null);
    setPending(false);
    announceText(text);
  };
  useEffect(() => {
    if (!before) return;
    if (poster?.url !== before.url) return end(TEXT.updated);
    if (isOpen) return;
    if (job?.state === "failed" && job.attempt !== before.attempt) return end(TEXT.failed);
    const timer = setTimeout(() => end(TEXT.unchanged), JOB_START_MS);
    return () => clearTimeout(timer);
  }, [before, poster?.url, job?.state, job?.attempt]);
  useEffect(() => () => setPending(false), []);

  const now = !tiles || poster?.time == null ? -1 : tiles.findIndex(({ end }) => end * 1000 > (poster.time ?? 0));
  const strip = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    const place = /** @type {HTMLElement | null} */ (strip.current?.querySelector(".is-poster"));
    if (strip.current && place) strip.current.scrollLeft = place.offsetLeft - (strip.current.clientWidth - place.clientWidth) / 2;
  }, [now]);

  if (!tiles?.length || video.status === "deleted") return null;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const tile = tiles[chosen ?? -1];
    if (!tile) return;
    setBusy(true);
    setError(null);
    try {
      const params = { path: { videoId: video.videoId } };
      await ask(api.POST("/v1/videos/{videoId}/thumbnail", { params, body: { position: frameTime(tile, tiles) } }));
      setBefore({ url: poster?.url, attempt: job?.attempt });
      setPending(true);
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  const isNew = chosen !== null && chosen !== now;
  return html`<section>
    <h2>${texts.fields.posterTime}</h2>
    <form onSubmit=${submit}>
      <fieldset class="strip" ref=${strip}>
        <legend class="visually-hidden">${TEXT.frames}</legend>
        ${tiles.map((tile, number) => html`<label key=${tile.start} class=${number === now ? "is-poster" : ""}>
          <input type="radio" name=${name} checked=${number === (chosen ?? now)} onChange=${() => setChosen(number)} />
          <${Frame} tile=${tile} />
          <span>${duration(tile.start * 1000)}${number === now && html`<span class="visually-hidden">${TEXT.current}</span>`}</span>
        </label>`)}
      </fieldset>
      ${(isNew || before) && html`<div class="actions">
        <button type="submit" class="primary" disabled=${isBusy || before !== null}>${TEXT.set}</button>
        ${before ? html`<${Loading} what=${TEXT.creating} />` : html`<button type="button" class="quiet" onClick=${() => setChosen(null)}>${texts.common.cancel}</button>`}
      </div>`}
      <${Failure} error=${error} />
    </form>
  </section>`;
}

/** Return the time of a tile's frame in milliseconds: the middle of the tile, whose length is at most that of the first tile.
 * @param {Tile} tile @param {Tile[]} tiles */
function frameTime(tile, tiles) {
  const [first = tile] = tiles;
  return Math.round(Math.min(tile.start + (first.end - first.start) / 2, (tile.start + tile.end) / 2) * 1000);
}
