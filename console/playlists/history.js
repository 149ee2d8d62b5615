// History of a playlist: changes of its entries and its fields, with their authors.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { useLoad, usePages } from "../core/load.js";
import { Empty, Failure, Loading } from "../design/parts.js";
import { listPlaylistEntries } from "../history/requests.js";
import { Timeline } from "../history/entries.js";
import { withSubject, useTitles } from "../history/subjects.js";
import { texts } from "../texts/index.js";

const TEXT = texts.playlists.history;

/** History of a playlist, collapsed at first. @param {{ playlistId: string }} props */
export default function History({ playlistId }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="history playlist-history" onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary><h2>${texts.video.tabs.history}</h2></summary>
    ${isOpen && html`<${Entries} playlistId=${playlistId} />`}
  </details>`;
}

/** History of a deleted playlist, for users who may restore it. @param {{ playlistId: string }} props */
export function Deleted({ playlistId }) {
  const first = useLoad((signal) => listPlaylistEntries(playlistId, undefined, signal), [playlistId]);
  if (!first.value?.items.length) return null; // the playlist never existed, or belongs to another user
  return html`<section class="history playlist-history" aria-label=${texts.video.tabs.history}>
    <h2>${TEXT.deleted}</h2>
    <p>${TEXT.deletedHint}</p>
    <${Entries} playlistId=${playlistId} />
  </section>`;
}

/** @param {{ playlistId: string }} props */
function Entries({ playlistId }) {
  const pages = usePages((cursor, signal) => listPlaylistEntries(playlistId, cursor, signal), [playlistId]);
  const titles = useTitles(withSubject(pages.items));
  return html`
    <p><button type="button" onClick=${pages.reload}>${texts.common.refresh}</button></p>
    ${pages.isDone && !pages.items.length && html`<${Empty}>${texts.common.noHistory}<//>`}
    <${Timeline} entries=${pages.items} titles=${titles} />
    <${Failure} error=${pages.error} retry=${pages.items.length ? pages.more : pages.reload} />
    ${pages.isLoading ? html`<${Loading} />` : !pages.isDone && !pages.error && html`<button type="button" onClick=${pages.more}>${texts.common.loadMore}</button>`}`;
}
