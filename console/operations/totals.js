// Totals of a user.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { count, duration, size } from "../core/formats.js";
import { Failure, Field, Loading, UserText, stateName } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { Panel } from "./panel.js";

const TEXT = texts.operations.totals;

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
  useLayoutEffect(() => {
    if (!userId) return;
    setName(userId);
    place.current?.scrollIntoView({ block: "nearest" }); // a link in another panel selected this user
  }, [userId]);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (name.trim() === userId) loaded.reload();
    else navigate(hrefTo(["operations"], { user: name.trim() }));
  };
  return html`<${Panel} title=${TEXT.title} class="panel-broad" refresh=${userId ? loaded.reload : undefined}>
    <form class="panel-form" onSubmit=${submit} ref=${place}>
      <${Field} label=${texts.common.user} value=${name} onInput=${setName} autocomplete="off" spellcheck=${false} />
      <button>${texts.common.show}</button>
    </form>
    ${!userId ? html`<p class="hint">${TEXT.hint}</p>`
      : loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`
        : loaded.value ? html`<${Numbers} of=${loaded.value} />` : html`<${Loading} />`}
  <//>`;
}

/** @param {{ of: User }} props */
function Numbers({ of: { userId, videos, bytes, duration: length, playlists } }) {
  const fact = (/** @type {string} */ name, /** @type {unknown} */ value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<h3><${UserText}>${userId}<//></h3>
    <dl class="totals">
      ${fact(texts.common.videos, html`<a href=${hrefTo([], { userId })}>${count(videos.total)}</a>`)}
      ${STATUSES.map((status) => fact(stateName(status), count(videos[status])))}
      ${fact(texts.fields.fileSize, size(bytes))}
      ${fact(texts.fields.duration, duration(length))}
      ${fact(texts.playlists.title, html`<a href=${hrefTo(["playlists"], { userId })}>${count(playlists)}</a>`)}
    </dl>
    <p class="hint">${TEXT.updatedLater}</p>`;
}
