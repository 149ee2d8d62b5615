// What is done with a video as a whole: share, edit and delete it.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { hrefTo, navigate } from "../core/route.js";
import { Dialog, Icon, announceText } from "../design/parts.js";
import { Remove } from "./remove.js";

/** @param {import("../screens/video.js").PartProps} props */
export default function Actions({ video, etag, isOwner, route, changed, isEdited, setEdited }) {
  const [isRemoved, setRemoved] = useState(false);
  const [shared, setShared] = useState("");
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const wasEdited = useRef(isEdited);
  useLayoutEffect(() => {
    if (wasEdited.current && !isEdited) button.current?.focus(); // the form had the focus
    wasEdited.current = isEdited;
  }, [isEdited]);
  const mayEdit = isOwner && video.status !== "deleted";
  const edit = () => {
    setEdited(true);
    if ((route.query.get("tab") ?? "facts") !== "facts") navigate(hrefTo(route.path, { tab: "facts" }), { replace: true }); // where the form is
  };
  const share = async () => {
    const link = new URL(hrefTo(["videos", video.videoId]), location.href).href;
    try {
      await navigator.clipboard.writeText(link);
      announceText("Link copied.");
    } catch {
      setShared(link); // the browser does not let the page copy it
    }
  };
  return html`<div class="video-actions">
    <button type="button" onClick=${share}><${Icon} name="share-2" />Share</button>
    ${mayEdit && !isEdited && html`<button type="button" ref=${button} onClick=${edit}><${Icon} name="pencil" />Edit</button>`}
    ${mayEdit && html`<button type="button" class="quiet danger" onClick=${() => setRemoved(true)}><${Icon} name="trash" />Delete</button>`}
    ${isRemoved && html`<${Remove} video=${video} etag=${etag} changed=${changed} onClose=${() => setRemoved(false)} />`}
    ${shared && html`<${Dialog} title="Share this video" onClose=${() => setShared("")}>
      <p><code>${shared}</code></p>
      <div class="actions"><button type="button" onClick=${() => setShared("")}>Close</button></div>
    <//>`}
  </div>`;
}
