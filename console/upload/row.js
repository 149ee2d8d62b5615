// List item of a submitted upload: its progress, errors and actions.

import { html } from "htm/preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { useRoute } from "../core/route.js";
import { asSentence, size, formatRange } from "../core/formats.js";
import { Dialog, Failure, Icon, Loading, Poster, announceText, messageOf, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { forget } from "./list.js";
import { UnreadableFile } from "./put.js";
import { cancel, attachFile, pause, resume, setDetails } from "./queue.js";
import Steps from "./steps.js";

const TEXT = texts.upload.row;

/** @typedef {import("./list.js").Upload} Upload */
/** @typedef {import("../core/api.js").Schemas["FetchedVideo"]} Video */

/** Percent between two announcements to screen readers. */
const STEP = 25;
/** Style and label of each state's badge. @type {Partial<Record<Upload["state"], [string, string]>>} */
const STATES = {
  creating: ["queued", TEXT.waiting], waiting: ["queued", TEXT.waiting], sending: ["running", TEXT.uploading], paused: ["paused", TEXT.paused],
  interrupted: ["paused", TEXT.interrupted], failed: ["failed", TEXT.failed],
};
/** 4xx statuses after which a retry may succeed. */
const RETRYABLE = [401, 403, 408, 409, 412, 429];

/** @param {{ upload: Upload, takesFocus: boolean, onRemove: () => void }} props */
export default function Row({ upload, takesFocus, onRemove }) {
  const [poster, setPoster] = useState(/** @type {string | undefined} */ (undefined));
  const [isAsking, setAsking] = useState(false);
  const [isEditing, setEditing] = useState(false);
  const id = useId();
  const row = useRef(/** @type {HTMLElement | null} */ (null));
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const { about, details, state } = upload;
  useLayoutEffect(() => {
    if (takesFocus) heading.current?.focus(); // the form that had the focus was removed
  }, []);
  const hadFocus = row.current?.contains(document.activeElement);
  useLayoutEffect(() => {
    if (hadFocus && !row.current?.contains(document.activeElement)) heading.current?.focus(); // the focused element was removed
  });
  const remove = () => {
    forget([upload]);
    onRemove();
  };
  const isSent = state === "sent";
  return html`<article class="row" aria-labelledby=${id} ref=${row}>
    <div class="row-line">
      <${Poster} url=${poster} of=${{ videoId: upload.videoId ?? upload.id, title: details.title }} />
      <div class="row-name">
        <h2 id=${id} tabindex="-1" ref=${heading}><${UserText} class="title">${details.title}<//></h2>
        <p class="file soft"><${UserText} class="name">${about.name}<//> <span>${size(about.size)}</span></p>
      </div>
      ${!isSent && html`<${TransferProgress} upload=${upload} />`}
      <div class="actions">
        ${!isSent && html`<${Action} upload=${upload} />`}
        ${upload.isNew && upload.videoId && html`<button type="button" class="quiet" onClick=${() => setEditing(true)}><${Icon} name="pencil" />${TEXT.editDetails}</button>`}
        ${!isSent && html`<button type="button" class=${isPermanent(upload) ? "primary" : "quiet"} onClick=${() => setAsking(true)}>${isPermanent(upload) ? texts.common.remove : texts.common.cancel}</button>`}
      </div>
    </div>
    ${isSent ? html`<${Steps} upload=${upload} onPoster=${setPoster} onDismiss=${remove} />` : html`<${UploadProblem} upload=${upload} />`}
    ${isAsking && html`<${CancelDialog} upload=${upload} onClose=${() => setAsking(false)} onGone=${onRemove} />`}
    ${isEditing && html`<${Details} upload=${upload} onClose=${() => setEditing(false)} />`}
  </article>`;
}

/** Progress of an upload. @param {{ upload: Upload }} props */
function TransferProgress({ upload }) {
  const { about, loaded, state } = upload;
  const id = useId();
  const percent = Math.floor((loaded / about.size) * 100);
  const [look, word] = STATES[state] ?? [];
  if (!["sending", "paused"].includes(state)) return html`<p class="row-progress"><span class=${`status status-${look}`}>${word}</span></p>`;
  return html`<div class="row-progress">
    <label class=${`status status-${look}`} for=${id}>${word}</label>
    <progress id=${id} max=${about.size} value=${loaded}></progress>
    <p class="soft amount">${amount(upload)}</p>
    <p class="visually-hidden" role="status">${announcement(upload, percent)}</p>
  </div>`;
}

/** Button that pauses, resumes or retries. A single element, so that it keeps the focus when its action changes.
 * @param {{ upload: Upload }} props */
function Action({ upload }) {
  const { state } = upload;
  const canPause = ["waiting", "sending"].includes(state);
  const act = canPause ? TEXT.pause : { paused: TEXT.resume, failed: texts.common.tryAgain }[/** @type {string} */ (state)];
  if (!act || isPermanent(upload)) return null;
  return html`<button type="button" class=${canPause ? "" : "primary"} onClick=${() => (canPause ? pause : resume)(upload)}>${act}</button>`;
}

/** Whether a retry would also fail. @param {Upload} upload */
function isPermanent({ state, error }) {
  if (state !== "failed") return false;
  if (error instanceof UnreadableFile) return true;
  return error instanceof Problem && error.status >= 400 && error.status < 500 && !RETRYABLE.includes(error.status);
}

/** Reason why an upload waits or has failed. @param {{ upload: Upload }} props */
function UploadProblem({ upload }) {
  const { error, state, trouble } = upload;
  return html`${trouble && html`<p class="trouble" role="status"><span class="spinner" aria-hidden="true"></span> ${trouble}</p>`}
    ${state === "interrupted" && html`<${Interrupted} upload=${upload} />`}
    ${state === "failed" && html`<${Failed} error=${error} />`}`;
}

/** Input to select the file of an interrupted upload again. @param {{ upload: Upload }} props */
function Interrupted({ upload }) {
  const [fault, setFault] = useState(/** @type {string | undefined} */ (undefined));
  const id = useId();
  const choose = (/** @type {Event} */ event) => {
    const [file] = /** @type {HTMLInputElement} */ (event.currentTarget).files ?? [];
    if (file) setFault(attachFile(upload, file));
  };
  return html`<p>${TEXT.reloaded}</p>
    <label class="button primary file-button">${TEXT.selectAgain}
      <input type="file" onChange=${choose} aria-describedby=${fault && id} />
    </label>
    ${fault && html`<p class="fault" id=${id} role="alert">${fault}</p>`}`;
}

/** Error of a failed upload, in one line. @param {{ error: unknown }} props */
function Failed({ error }) {
  const { title, detail } = messageOf(error);
  const faults = error instanceof Problem ? error.errors.map((fault) => asSentence(fault.detail)) : [];
  return html`<p class="failure" role="alert"><strong>${asSentence(title)}</strong> ${faults.join(" ") || detail}</p>`;
}

/** Dialog that edits the video during the upload. @param {{ upload: Upload, onClose: () => void }} props */
function Details({ upload, onClose }) {
  const videoId = upload.videoId ?? "";
  const route = useRoute();
  const loaded = useLoad(async (signal) => {
    const call = api.GET("/v1/videos/{videoId}", { params: { path: { videoId } }, signal });
    const [{ default: Edit }, { data, etag }] = await Promise.all([import("../video/edit.js"), ask(call)]);
    return { Edit, video: /** @type {Video} */ (data), etag };
  }, [videoId]);
  const { value } = loaded;
  if (!value) return html`<${Dialog} title=${texts.video.edit.title} onClose=${onClose}>${loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />` : html`<${Loading} />`}<//>`;
  const saved = (/** @type {Video | undefined} */ video) => {
    if (video) setDetails(upload, { title: video.title, category: video.category ?? "", tags: (video.tags ?? []).join(", "), visibility: video.visibility });
    onClose();
  };
  return html`<${value.Edit} video=${value.video} etag=${value.etag} route=${route} onSaved=${saved} onClose=${onClose} />`;
}

/** @param {{ upload: Upload, onClose: () => void, onGone: () => void }} props */
function CancelDialog({ upload, onClose, onGone }) {
  const [withVideo, setWithVideo] = useState(upload.isNew);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const confirm = async () => {
    setBusy(true);
    try {
      const isGone = await cancel(upload, withVideo);
      onClose();
      if (isGone) onGone();
      announceText(isGone ? TEXT.cancelled : TEXT.tooLate);
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${TEXT.cancelQuestion} onClose=${onClose}>
    <p>${TEXT.cancelWarning(html`<${UserText}>${upload.about.name}<//>`)}</p>
    ${upload.isNew && upload.videoId && html`<label class="check"><input type="checkbox" checked=${withVideo}
      onChange=${() => setWithVideo(!withVideo)} /> ${TEXT.alsoDelete}</label>`}
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="danger" disabled=${isBusy} onClick=${confirm}>${TEXT.cancelUpload}</button>
      <button type="button" disabled=${isBusy} onClick=${onClose}>${TEXT.keepUploading}</button>
    </div>
  <//>`;
}

/** Return the progress as text, such as `12.0 MB of 40.0 MB, 3.1 MB/s, 9 seconds left`. @param {Upload} upload */
function amount({ about, loaded, samples, state }) {
  const text = TEXT.amount(size(loaded), size(about.size));
  const [first, last] = [samples[0], samples.at(-1)];
  if (loaded === about.size) return TEXT.confirming(text);
  if (state === "paused" || !first || !last) return text;
  const speed = ((last.loaded - first.loaded) / (last.at - first.at)) * 1000;
  if (!(speed > 0)) return text;
  return TEXT.speed(text, size(speed), formatRange((about.size - loaded) / speed));
}

/** Return the progress for screen readers, in steps of STEP percent, so that announcements are rare.
 * @param {Upload} upload @param {number} percent */
function announcement({ about, state }, percent) {
  if (state === "paused") return TEXT.pausedFile(about.name);
  return TEXT.percent(about.name, Math.floor(percent / STEP) * STEP);
}
