// The header: navigation, search, uploads under way, and the menu of the user.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { hrefTo, isHeld, useRoute } from "../core/route.js";
import { signOut } from "../core/session.js";
import { Dialog, Icon, Menu, UserText } from "../design/parts.js";
import { useProgress } from "../upload/list.js";
import Search from "./search.js";

/** @typedef {import("../design/icons.js").IconName} IconName */

/** The screens in the navigation: path, title and icon. @type {[string, string, IconName][]} */
const SCREENS = [["", "Library", "library"], ["upload", "Upload", "upload"], ["playlists", "Playlists", "list-video"], ["webhooks", "Webhooks", "webhook"]];
/** @type {[string, string, IconName]} */
const OPERATIONS = ["operations", "Operations", "gauge"];

/** @param {{ user: import("../core/session.js").User }} props */
export default function Header({ user: { subject, isAdmin } }) {
  const route = useRoute();
  const { percent, isInterrupted, isAtRisk } = useProgress();
  const [isLeaving, setLeaving] = useState(false);
  return html`<header class="top"><div class="top-row">
    <a class="brand" href=${hrefTo([])} aria-label="Video metadata"><img src=${new URL("../icon.svg", import.meta.url).href} alt="" width="24" height="24" /><span>Video metadata</span></a>
    <nav aria-label="Screens">
      ${(isAdmin ? [...SCREENS, OPERATIONS] : SCREENS).map(([name, title, icon]) => html`<a
        href=${hrefTo(name ? [name] : [])} aria-current=${(route.path[0] ?? "") === name ? "page" : undefined}><${Icon} name=${icon} />${title}</a>`)}
    </nav>
    <${Search} route=${route} />
    <span class="who">
      ${percent !== null && html`<a class="uploading" href=${hrefTo(["upload"])}>
        <progress max="100" value=${percent} aria-hidden="true"></progress> Uploading, ${percent}%
      </a>`}
      ${percent === null && isInterrupted && html`<a class="uploading" href=${hrefTo(["upload"])}>Resume upload</a>`}
      <${Menu} class="account" aria-label=${`Account: ${subject}`} label=${html`<${Icon} name="circle-user-round" /><${UserText}>${subject}<//><${Icon} name="chevron-down" />`}>
        <p>Signed in as <${UserText}>${subject}<//>${isAdmin && " (admin)"}</p>
        <a href=${hrefTo(["changesets"])}><${Icon} name="undo-2" />Change sets</a>
        <a href="../docs"><${Icon} name="globe" />API documentation</a>
        <button type="button" onClick=${() => (isAtRisk || isHeld() ? setLeaving(true) : void signOut())}><${Icon} name="log-out" />Sign out</button>
      <//>
    </span>
    </div>
    ${isLeaving && html`<${Dialog} title=${percent === null ? "Discard changes?" : "Sign out during an upload?"} onClose=${() => setLeaving(false)}>
      <p>${percent === null ? "Your changes are not saved. Signing out discards them." : "Signing out cancels the uploads and discards unsaved changes."}</p>
      <div class="actions">
        <button type="button" class="danger" onClick=${signOut}>${percent === null ? "Sign out" : "Sign out and cancel uploads"}</button>
        <button type="button" onClick=${() => setLeaving(false)}>Stay signed in</button>
      </div>
    <//>`}
  </header>`;
}
