// Deleting a video, and getting it back.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { time } from "../core/words.js";
import { Dialog, Failure, announceText, UserText } from "../design/parts.js";

/** @typedef {import("../screens/video.js").PartProps} PartProps */

/** Asks before it deletes. @param {Pick<PartProps, "video" | "etag" | "changed"> & { onClose: () => void }} props */
export function Remove({ video, etag, changed, onClose }) {
  const { videoId } = video;
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const isOther = error instanceof Problem && error.kind === "version-mismatch";
  const remove = async () => {
    setBusy(true);
    try {
      await ask(api.DELETE("/v1/videos/{videoId}", { params: { path: { videoId }, header: { "If-Match": etag ?? `"${video.version}"` } } }));
      announceText("Deleted.");
      onClose();
      changed();
    } catch (reason) {
      setError(reason);
      if (reason instanceof Problem && reason.kind === "version-mismatch") changed(); // it is shown as it is now
    } finally {
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Delete this video?" onClose=${onClose}>
    <p><strong><${UserText}>${video.title}<//></strong> can no longer be found or played. You can restore it for a limited time.</p>
    ${isOther ? html`<p class="fault" role="alert">Another user changed the video. Delete it anyway?</p>` : html`<${Failure} error=${error} />`}
    <div class="actions">
      <button type="button" class="danger" disabled=${isBusy} onClick=${remove}>Delete</button>
      <button type="button" onClick=${onClose}>Cancel</button>
    </div>
  <//>`;
}

/** What became of a video that is deleted. @param {PartProps} props */
export function Deleted({ video, isOwner, changed }) {
  const { videoId } = video;
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const key = useRef(crypto.randomUUID());
  const isDeleted = video.status === "deleted";
  const wasDeleted = useRef(isDeleted);
  const banner = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (isDeleted && !wasDeleted.current) banner.current?.focus(); // what had the focus is gone
    wasDeleted.current = isDeleted;
  }, [isDeleted]);
  if (!isDeleted) return null;
  const restore = async () => {
    setBusy(true);
    try {
      const params = { path: { videoId }, header: { "Idempotency-Key": key.current } };
      const { data, etag } = await ask(api.POST("/v1/videos/{videoId}/restore", { params }));
      key.current = crypto.randomUUID();
      setError(null);
      announceText("Restored.");
      changed({ ...data, viewCount: video.viewCount }, etag);
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  return html`<div class="deleted" ref=${banner} tabindex="-1">
    <p><strong>Deleted.</strong>${video.purgeAt !== undefined && html` You can restore it until ${time(video.purgeAt)}. Then it is permanently deleted.`}</p>
    ${isOwner && html`<button type="button" class="primary" disabled=${isBusy} onClick=${restore}>Restore</button>`}
    <${Failure} error=${error} />
  </div>`;
}
