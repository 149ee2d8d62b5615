// Playlists that contain a video.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useAttempt, usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Dialog, Empty, Failure, Field, LoadMore, announceText, stateName, UserText } from "../design/parts.js";
import { useIdempotencyKey } from "../playlists/idempotency.js";
import { texts } from "../texts/index.js";
import { RemoveButton } from "./item-form.js";

const TEXT = texts.video.playlists;

/** @typedef {import("../core/api.js").Schemas["Playlist"]} Playlist */

/** @param {import("../screens/video.js").PartProps} props */
export default function VideoPlaylists({ video, user }) {
  const { videoId } = video;
  const [isAdding, setAdding] = useState(false);
  const pages = usePages(async (cursor, signal) => {
    const params = { path: { videoId }, query: { limit: 50, cursor } };
    return (await ask(api.GET("/v1/videos/{videoId}/playlists", { params, signal }))).data;
  }, [videoId]);
  const isIn = (/** @type {Playlist} */ { playlistId }) => pages.items.some((playlist) => playlist.playlistId === playlistId);
  return html`<div class="above">
      <h2>${texts.playlists.title}</h2>
      ${video.status !== "deleted" && html`<button type="button" onClick=${() => setAdding(true)}>${TEXT.addTo}</button>`}
    </div>
    ${pages.isDone && !pages.items.length && html`<${Empty}>${TEXT.none}<//>`}
    <ul class="items">
      ${pages.items.map((playlist) => html`<li key=${playlist.playlistId}>
        <div><a href=${hrefTo(["playlists", playlist.playlistId])}><${UserText}>${playlist.title}<//></a>${" "}
          <small>${playlist.userId === user.subject ? TEXT.yours : TEXT.ofUser(html`<${UserText}>${playlist.userId}<//>`)}, ${stateName(playlist.visibility)}</small></div>
        ${(playlist.userId === user.subject || user.isAdmin) && html`<${RemoveButton} label=${TEXT.removeItem(playlist.title)} question=${TEXT.removeQuestion(playlist.title)}
          onRemoved=${() => pages.change((items) => items.filter((other) => other !== playlist))}
          remove=${() => ask(api.DELETE("/v1/playlists/{playlistId}/entries/{videoId}",
            { params: { path: { playlistId: playlist.playlistId, videoId } } }))} />`}
      </li>`)}
    </ul>
    <${LoadMore} pages=${pages} />
    ${isAdding && html`<${Add} videoId=${videoId} userId=${user.subject} isIn=${isIn} onClose=${() => setAdding(false)}
      onAdded=${(/** @type {Playlist} */ playlist) => {
        setAdding(false);
        pages.change((items) => [playlist, ...items.filter(({ playlistId }) => playlistId !== playlist.playlistId)]);
      }} />`}`;
}

/** @param {{ videoId: string, userId: string, isIn: (playlist: Playlist) => boolean, onAdded: (playlist: Playlist) => void, onClose: () => void }} props */
function Add({ videoId, userId, isIn, onAdded, onClose }) {
  const [title, setTitle] = useState("");
  /** Playlist to add the video to; null for a new one. */
  const chosen = useRef(/** @type {Playlist | null} */ (null));
  const created = useRef(/** @type {Playlist | null} */ (null));
  const pages = usePages(async (cursor, signal) =>
    (await ask(api.GET("/v1/playlists", { params: { query: { userId, limit: 100, cursor } }, signal }))).data, [userId]);

  const createOnce = useIdempotencyKey(), addOnce = useIdempotencyKey();
  // If adding fails after the playlist was created, a retry must not create another.
  const make = async () => (created.current ??= (await createOnce(title, (key) =>
    ask(api.POST("/v1/playlists", { params: { header: { "Idempotency-Key": key } }, body: { title } })))).data);
  const { error, isBusy, run } = useAttempt(async () => {
    const playlist = chosen.current ?? await make();
    const { playlistId } = playlist;
    await addOnce(playlistId, (key) => {
      const params = { path: { playlistId }, header: { "Idempotency-Key": key } };
      return ask(api.POST("/v1/playlists/{playlistId}/entries", { params, body: { videoId } })).catch((reason) => {
        if (!(reason instanceof Problem) || reason.kind !== "already-exists") throw reason; // the video is already in the playlist
      });
    });
    announceText(TEXT.addedTo(playlist.title));
    onAdded(playlist);
  });
  const add = (/** @type {Playlist | null} */ playlist) => {
    chosen.current = playlist;
    void run();
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    add(null);
  };
  const fault = error instanceof Problem ? error.at("/title") : undefined;
  return html`<${Dialog} title=${TEXT.addTo} onClose=${onClose}>
    ${!fault && html`<${Failure} error=${error} />`}
    ${pages.isDone && !pages.items.length && html`<p class="hint">${texts.common.noPlaylists}</p>`}
    <ul class="items choices">
      ${pages.items.map((playlist) => html`<li key=${playlist.playlistId}>
        <div><${UserText}>${playlist.title}<//> <small>${playlist.entryCount !== undefined && texts.common.videoCount(playlist.entryCount)}</small></div>
        <button type="button" disabled=${isIn(playlist)} aria-label=${TEXT.addToItem(playlist.title)}
          onClick=${() => add(playlist)}>${isIn(playlist) ? TEXT.added : texts.common.add}</button>
      </li>`)}
    </ul>
    <${LoadMore} pages=${pages} />
    <form onSubmit=${submit} aria-label=${texts.playlists.create}>
      <${Field} label=${texts.playlists.create} value=${title} error=${fault} autocomplete="off" placeholder=${TEXT.title}
        onInput=${(/** @type {string} */ text) => {
          created.current = null;
          setTitle(text);
        }} />
      <div class="actions">
        <button type="submit" class="primary" disabled=${isBusy}>${TEXT.createAndAdd}</button>
        <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
      </div>
    </form>
  <//>`;
}
