// Actions on a video: share, edit and delete.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { noteProgress } from "../core/first-run.js";
import { hrefTo } from "../core/route.js";
import { Dialog, Icon, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import Edit from "./edit.js";
import { Remove } from "./remove.js";

const TEXT = texts.video;

/** @typedef {import("./fields.js").Video} Video */

/** @param {import("../screens/video.js").PartProps} props */
export default function Actions({ video, etag, isOwner, user, route, changed }) {
  const [isEdited, setEdited] = useState(false);
  const [isRemoved, setRemoved] = useState(false);
  const [shared, setShared] = useState("");
  const mayEdit = isOwner && video.status !== "deleted";
  const share = async () => {
    if (isOwner) noteProgress(user.subject, "shared");
    const link = new URL(hrefTo(["videos", video.videoId]), location.href).href;
    try {
      await navigator.clipboard.writeText(link);
      announceText(texts.common.linkCopied);
    } catch {
      setShared(link); // the browser denies access to the clipboard
    }
  };
  return html`<div class="video-actions">
    <button type="button" onClick=${share}><${Icon} name="share-2" />${texts.common.share}</button>
    ${mayEdit && html`<button type="button" onClick=${() => setEdited(true)}><${Icon} name="pencil" />${texts.common.edit}</button>`}
    ${mayEdit && html`<button type="button" class="quiet danger" onClick=${() => setRemoved(true)}><${Icon} name="trash" />${texts.common.delete}</button>`}
    ${isEdited && html`<${Edit} video=${video} etag=${etag} route=${route} onClose=${() => setEdited(false)}
      onSaved=${(/** @type {Video | undefined} */ after, /** @type {string | null} */ tag) => {
        changed(after, tag);
        setEdited(false);
      }} />`}
    ${isRemoved && html`<${Remove} video=${video} etag=${etag} changed=${changed} onClose=${() => setRemoved(false)} />`}
    ${shared && html`<${Dialog} title=${TEXT.shareTitle} onClose=${() => setShared("")}>
      <p><code>${shared}</code></p>
      <div class="actions"><button type="button" onClick=${() => setShared("")}>${texts.common.close}</button></div>
    <//>`}
  </div>`;
}
