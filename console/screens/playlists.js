// Playlists: the user's own, another user's public ones, or one playlist. Components are in `playlists/`.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { usePages } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { Empty, Icon, Loading, LoadMore, OwnerForm, Status, Time, UserText } from "../design/parts.js";
import { Create } from "../playlists/editor.js";
import PlaylistScreen from "../playlists/playlist.js";
import { texts } from "../texts/index.js";

const TEXT = texts.playlists;

/** @typedef {import("../core/api.js").Schemas["Playlist"]} Playlist */
/** @typedef {import("../core/session.js").User} User */

/** @param {{ route: import("../core/route.js").Route, user: User }} props */
export default function Playlists({ route, user }) {
  const playlistId = route.path[1];
  if (playlistId) return html`<${PlaylistScreen} key=${playlistId} playlistId=${playlistId} user=${user} />`;
  const owner = route.query.get("userId") || user.subject;
  return html`<${Lists} key=${owner} owner=${owner} user=${user} />`;
}

/** @param {{ owner: string, user: User }} props */
function Lists({ owner, user }) {
  const isOwn = owner === user.subject;
  const [isCreating, setIsCreating] = useState(false);
  const pages = usePages(async (cursor, signal) => {
    const query = { userId: owner, limit: 48, cursor };
    return (await ask(api.GET("/v1/playlists", { params: { query }, signal }))).data;
  }, [owner]);
  const isFirst = pages.isLoading && !pages.items.length;
  const create = html`<button type="button" class="primary" onClick=${() => setIsCreating(true)}><${Icon} name="plus" />${TEXT.create}</button>`;
  return html`
    <div class="playlists-head">
      <h1>${isOwn ? TEXT.title : TEXT.listOf(html`<${UserText}>${owner}<//>`)}</h1>
      ${isOwn && pages.items.length > 0 && create}
      <${OwnerForm} route="playlists" label=${TEXT.ofUser} owner=${isOwn ? "" : owner} />
    </div>
    ${!isOwn && html`<p><a href=${hrefTo(["playlists"])}>${TEXT.yours}</a></p>`}
    ${pages.isDone && !pages.items.length && html`<${Empty} icon="list-video">
      ${isOwn
        ? html`<p>${TEXT.none}</p>${create}`
        : html`<p>${TEXT.noneVisible(html`<${UserText}>${owner}<//>`)}</p>`}
    <//>`}
    <ul class="playlists">
      ${pages.items.map((playlist) => html`<li key=${playlist.playlistId}><${Card} playlist=${playlist} /></li>`)}
    </ul>
    ${isFirst ? html`<${Loading} />` : html`<${LoadMore} pages=${pages} />`}
    ${isCreating && html`<${Create}
      onClose=${() => setIsCreating(false)}
      onSaved=${(/** @type {Playlist} */ { playlistId }) => navigate(hrefTo(["playlists", playlistId]))} />`}`;
}

/** @param {{ playlist: Playlist }} props */
function Card({ playlist: { playlistId, title, description, visibility, entryCount, updatedAt } }) {
  return html`<a class="playlist-card" href=${hrefTo(["playlists", playlistId])}>
    <${UserText} class="title">${title}<//>
    ${description && html`<${UserText} class="playlist-about">${description}<//>`}
    <span class="playlist-facts">
      <${Status} of=${visibility} />
      ${entryCount !== undefined && html`<span>${texts.common.videoCount(entryCount)}</span>`}
      <span>${TEXT.updated(html`<${Time} at=${updatedAt * 1000} />`)}</span>
    </span>
  </a>`;
}
