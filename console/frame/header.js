// Header: navigation, search, progress of uploads, and the user menu.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { hrefTo, isNavigationGuarded, useRoute } from "../core/route.js";
import { signOut } from "../core/session.js";
import { Dialog, Icon, Menu, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { useProgress } from "../upload/list.js";
import Search from "./search.js";

const TEXT = texts.frame;

/** @typedef {import("../design/icons.js").IconName} IconName */

/** Screens in the navigation: path, title and icon. @type {[string, string, IconName][]} */
const SCREENS = [
  ["", texts.library.title, "library"], ["upload", texts.upload.title, "upload"], ["playlists", texts.playlists.title, "list-video"],
  ["webhooks", texts.webhooks.title, "webhook"],
];
/** @type {[string, string, IconName]} */
const OPERATIONS = ["operations", texts.operations.title, "gauge"];

/** @param {{ user: import("../core/session.js").User }} props */
export default function Header({ user: { subject, isAdmin } }) {
  const route = useRoute();
  const { percent, isInterrupted, isAtRisk } = useProgress();
  const [isLeaving, setLeaving] = useState(false);
  return html`<header class="top"><div class="top-row">
    <a class="brand" href=${hrefTo([])} aria-label=${texts.common.product}><img src=${new URL("../icon.svg", import.meta.url).href} alt="" width="24" height="24" /><span>${texts.common.product}</span></a>
    <nav aria-label=${TEXT.screens}>
      ${(isAdmin ? [...SCREENS, OPERATIONS] : SCREENS).map(([name, title, icon]) => html`<a
        href=${hrefTo(name ? [name] : [])} aria-current=${(route.path[0] ?? "") === name ? "page" : undefined}><${Icon} name=${icon} />${title}</a>`)}
    </nav>
    <${Search} route=${route} />
    <span class="header-end">
      ${percent !== null && html`<a class="uploading" href=${hrefTo(["upload"])}>
        <${Icon} name="upload" /><progress max="100" value=${percent} aria-hidden="true"></progress> <span>${TEXT.uploading(percent)}</span>
      </a>`}
      ${percent === null && isInterrupted && html`<a class="uploading" href=${hrefTo(["upload"])}><${Icon} name="upload" /><span>${TEXT.resumeUpload}</span></a>`}
      <${Menu} class="account" aria-label=${TEXT.account(subject)} label=${html`<${Icon} name="circle-user-round" /><${UserText}>${subject}<//><${Icon} name="chevron-down" />`}>
        <p>${(isAdmin ? TEXT.signedInAsAdmin : TEXT.signedInAs)(html`<${UserText}>${subject}<//>`)}</p>
        <a href=${hrefTo(["changesets"])}><${Icon} name="undo-2" />${texts.changeSets.list}</a>
        <a href="../docs"><${Icon} name="globe" />${TEXT.apiDocumentation}</a>
        <button type="button" onClick=${() => (isAtRisk || isNavigationGuarded() ? setLeaving(true) : void signOut())}><${Icon} name="log-out" />${TEXT.signOut}</button>
      <//>
    </span>
    </div>
    ${isLeaving && html`<${Dialog} title=${percent === null ? texts.common.discardQuestion : TEXT.uploadQuestion} onClose=${() => setLeaving(false)}>
      <p>${percent === null ? TEXT.unsaved : TEXT.unsavedUpload}</p>
      <div class="actions">
        <button type="button" class="danger" onClick=${signOut}>${percent === null ? TEXT.signOut : TEXT.signOutAndCancel}</button>
        <button type="button" onClick=${() => setLeaving(false)}>${TEXT.staySignedIn}</button>
      </div>
    <//>`}
  </header>`;
}
