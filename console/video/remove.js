// Deletion and restoration of a video.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { time } from "../core/formats.js";
import { Dialog, Failure, announceText, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.remove;

/** @typedef {import("../screens/video.js").PartProps} PartProps */

/** Dialog that confirms the deletion. @param {Pick<PartProps, "video" | "etag" | "changed"> & { onClose: () => void }} props */
export function Remove({ video, etag, changed, onClose }) {
  const { videoId } = video;
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const isOther = error instanceof Problem && error.kind === "version-mismatch";
  const remove = async () => {
    setBusy(true);
    try {
      await ask(api.DELETE("/v1/videos/{videoId}", { params: { path: { videoId }, header: { "If-Match": etag ?? `"${video.version}"` } } }));
      announceText(TEXT.deleted);
      onClose();
      changed();
    } catch (reason) {
      setError(reason);
      if (reason instanceof Problem && reason.kind === "version-mismatch") changed(); // shows the current version
    } finally {
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${TEXT.question} onClose=${onClose}>
    <p>${TEXT.warning(html`<strong><${UserText}>${video.title}<//></strong>`)}</p>
    ${isOther ? html`<p class="fault" role="alert">${TEXT.conflict}</p>` : html`<${Failure} error=${error} />`}
    <div class="actions">
      <button type="button" class="danger" disabled=${isBusy} onClick=${remove}>${texts.common.delete}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    </div>
  <//>`;
}

/** Banner of a deleted video, with a button for its owner to restore it. @param {PartProps} props */
export function Deleted({ video, isOwner, changed }) {
  const { videoId } = video;
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const key = useRef(crypto.randomUUID());
  const isDeleted = video.status === "deleted";
  const wasDeleted = useRef(isDeleted);
  const banner = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (isDeleted && !wasDeleted.current) banner.current?.focus(); // the focused element was removed
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
      announceText(TEXT.restored);
      changed({ ...data, viewCount: video.viewCount }, etag);
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  return html`<div class="deleted" ref=${banner} tabindex="-1">
    <p><strong>${TEXT.deleted}</strong>${video.purgeAt !== undefined && ` ${TEXT.restoreUntil(time(video.purgeAt))}`}</p>
    ${isOwner && html`<button type="button" class="primary" disabled=${isBusy} onClick=${restore}>${TEXT.restore}</button>`}
    <${Failure} error=${error} />
  </div>`;
}
