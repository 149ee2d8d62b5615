// Page of one playlist: its fields and its entries.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { Breadcrumbs, Failure, Icon, Loading, Status, Time, announceText, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { Delete, Edit, read } from "./editor.js";
import Entries from "./entries.js";
import History, { Deleted } from "./history.js";

const TEXT = texts.playlists;

/** @typedef {import("../core/api.js").Schemas["Playlist"]} Playlist */

/** @param {{ playlistId: string, user: import("../core/session.js").User }} props */
export default function PlaylistScreen({ playlistId, user }) {
  const loaded = useLoad((signal) => read(playlistId, signal), [playlistId]);
  const [dialog, setDialog] = useState("");
  /** Entries added since the playlist was read, minus those removed. */
  const [difference, setDifference] = useState(0);
  const close = () => setDialog("");
  if (!loaded.value) {
    return html`<${Breadcrumbs} path=${[[TEXT.title, hrefTo(["playlists"])]]} here=${TEXT.playlist} /><h1>${TEXT.playlist}</h1>
      ${loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />` : html`<${Loading} />`}
      ${loaded.error instanceof Problem && loaded.error.status === 404 && html`<${Deleted} playlistId=${playlistId} />`}`;
  }
  const { playlist } = loaded.value;
  const { title, description, visibility, userId, entryCount, updatedAt } = playlist;
  const isOwner = user.isAdmin || userId === user.subject;
  const lists = userId === user.subject ? hrefTo(["playlists"]) : hrefTo(["playlists"], { userId });
  const count = entryCount === undefined ? undefined : Math.max(entryCount + difference, 0);
  const saved = (/** @type {Playlist} */ after) => {
    loaded.set({ playlist: after, etag: null });
    setDifference(0);
    close();
  };
  const deleted = () => {
    announceText(TEXT.deleted);
    navigate(lists, { replace: true });
  };
  return html`<article class="playlist">
    <${Breadcrumbs} path=${[[userId === user.subject ? TEXT.title : TEXT.of(userId), lists]]} here=${title} />
    <h1><${UserText}>${title}<//></h1>
    <p class="playlist-facts">
      <${Status} of=${visibility} />
      ${count !== undefined && html`<span>${texts.common.videoCount(count)}</span>`}
      <span>${texts.common.byUser(html`<${UserText}>${userId}<//>`)}</span>
      <span>${TEXT.updated(html`<${Time} at=${updatedAt * 1000} />`)}</span>
    </p>
    ${description && html`<p class="playlist-text"><${UserText}>${description}<//></p>`}
    ${isOwner && html`<div class="actions">
      <button type="button" onClick=${() => setDialog("edit")}><${Icon} name="pencil" />${texts.common.edit}</button>
      <button type="button" class="quiet danger" onClick=${() => setDialog("delete")}><${Icon} name="trash" />${texts.common.delete}</button>
    </div>`}
    <${Entries} playlistId=${playlistId} userId=${userId} isOwner=${isOwner} count=${count}
      changed=${(/** @type {number} */ by) => setDifference((before) => before + by)} />
    ${isOwner && html`<${History} playlistId=${playlistId} />`}
    ${dialog === "edit" && html`<${Edit} playlistId=${playlistId} onClose=${close} onSaved=${saved} />`}
    ${dialog === "delete" && html`<${Delete} playlist=${playlist} onClose=${close} onDeleted=${deleted} />`}
  </article>`;
}
