// The totals of a user.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { count, duration, size } from "../core/words.js";
import { Empty, Failure, Field, Loading, UserText, stateName } from "../design/parts.js";
import { Panel } from "./panel.js";

/** @typedef {import("../core/api.js").Schemas["User"]} User */

/** @type {["ready", "processing", "uploaded", "failed", "deleted"]} */
const STATUSES = ["ready", "processing", "uploaded", "failed", "deleted"];

/** @param {{ route: import("../core/route.js").Route }} props */
export default function Totals({ route }) {
  const userId = route.query.get("user") ?? "";
  const [name, setName] = useState(userId);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const loaded = useLoad(async (signal) => {
    if (!userId) return null;
    return (await ask(api.GET("/v1/users/{userId}", { params: { path: { userId } }, signal }))).data;
  }, [userId]);
  useEffect(() => {
    if (!userId) return;
    setName(userId);
    place.current?.scrollIntoView({ block: "nearest" }); // a link from another panel leads here
  }, [userId]);
  const look = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (name.trim() === userId) loaded.reload();
    else navigate(hrefTo(["operations"], { user: name.trim() }));
  };
  return html`<${Panel} title="User totals" class="panel-broad" refresh=${userId ? loaded.reload : undefined}>
    <form class="panel-form" onSubmit=${look} ref=${place}>
      <${Field} label="User" value=${name} onInput=${setName} autocomplete="off" spellcheck=${false} />
      <button>Show</button>
    </form>
    ${!userId ? html`<${Empty}>Enter a user ID: the subject of the user’s tokens.<//>`
      : loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`
        : loaded.value ? html`<${Numbers} of=${loaded.value} />` : html`<${Loading} />`}
  <//>`;
}

/** @param {{ of: User }} props */
function Numbers({ of: { userId, videos, bytes, duration: length, playlists } }) {
  const fact = (/** @type {string} */ name, /** @type {unknown} */ value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<h3><${UserText}>${userId}<//></h3>
    <dl class="totals">
      ${fact("Videos", html`<a href=${hrefTo([], { userId })}>${count(videos.total)}</a>`)}
      ${STATUSES.map((status) => fact(stateName(status), count(videos[status])))}
      ${fact("File size", size(bytes))}
      ${fact("Duration", duration(length))}
      ${fact("Playlists", html`<a href=${hrefTo(["playlists"], { userId })}>${count(playlists)}</a>`)}
    </dl>
    <p class="hint">Totals update shortly after a change. Deleted videos are counted separately.</p>`;
}
