// An upload that was asked for: how far it is, and what can be done about it.

import { html } from "htm/preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { size, formatRange } from "../core/words.js";
import { Dialog, Failure, Poster, announceText, UserText } from "../design/parts.js";
import { forget } from "./list.js";
import { cancel, attachFile, pause, resume } from "./queue.js";
import Steps from "./steps.js";

/** @typedef {import("./list.js").Upload} Upload */
/** @typedef {import("preact").ComponentChildren} Children */

/** Percent between two announcements. */
const STEP = 25;

/** @param {{ upload: Upload, takesFocus: boolean, onRemove: () => void }} props */
export default function Row({ upload, takesFocus, onRemove }) {
  const [poster, setPoster] = useState(/** @type {string | undefined} */ (undefined));
  const [isAsking, setAsking] = useState(false);
  const id = useId();
  const row = useRef(/** @type {HTMLElement | null} */ (null));
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const { about, details, state } = upload;
  useLayoutEffect(() => {
    if (takesFocus) heading.current?.focus(); // the form where the focus was has gone
  }, []);
  const hadFocus = row.current?.contains(document.activeElement);
  useLayoutEffect(() => {
    if (hadFocus && !row.current?.contains(document.activeElement)) heading.current?.focus(); // what had it has gone
  });
  const remove = () => {
    forget([upload]);
    onRemove();
  };
  return html`<article class="row" aria-labelledby=${id} ref=${row}>
    <${Poster} url=${poster} />
    <div>
      <h2 id=${id} tabindex="-1" ref=${heading}><${UserText} class="title">${details.title}<//></h2>
      <p class="file soft"><${UserText} class="name">${about.name}<//> <span>${size(about.size)}</span></p>
      ${state === "sent"
        ? html`<${Steps} upload=${upload} onPoster=${setPoster} onDismiss=${remove} />`
        : html`<${Sending} upload=${upload} onCancel=${() => setAsking(true)} />`}
      ${isAsking && html`<${Cancelling} upload=${upload} onClose=${() => setAsking(false)} onGone=${onRemove} />`}
    </div>
  </article>`;
}

/** @param {{ upload: Upload, onCancel: () => void }} props */
function Sending({ upload, onCancel }) {
  const { about, error, loaded, state, trouble } = upload;
  const id = useId();
  const percent = Math.floor((loaded / about.size) * 100);
  const isMoving = ["sending", "paused"].includes(state);
  const canPause = ["waiting", "sending"].includes(state);
  // One button for all of them: one that came and went would take the focus with it.
  const act = canPause ? "Pause" : { paused: "Resume", failed: "Try again" }[/** @type {string} */ (state)];
  return html`
    ${isMoving && html`<label for=${id}>${state === "paused" ? "Paused" : "Uploading"}</label>
      <progress id=${id} max=${about.size} value=${loaded}></progress>
      <p class="soft amount">${amount(upload)}</p>
      <p class="heard" role="status">${speak(upload, percent)}</p>`}
    ${trouble && html`<p class="trouble" role="status"><span class="spinner" aria-hidden="true"></span> ${trouble}</p>`}
    ${["creating", "waiting"].includes(state) && html`<p class="soft">Waiting to upload.</p>`}
    ${state === "interrupted" && html`<${Interrupted} upload=${upload} />`}
    ${state === "failed" && html`<${Failed} error=${error} />`}
    <div class="actions">
      ${act && html`<button type="button" class=${canPause ? "" : "primary"} onClick=${() => (canPause ? pause : resume)(upload)}>${act}</button>`}
      <button type="button" onClick=${onCancel}>Cancel</button>
    </div>`;
}

/** Where to choose the file again. @param {{ upload: Upload }} props */
function Interrupted({ upload }) {
  const [fault, setFault] = useState(/** @type {string | undefined} */ (undefined));
  const id = useId();
  const choose = (/** @type {Event} */ event) => {
    const [file] = /** @type {HTMLInputElement} */ (event.currentTarget).files ?? [];
    if (file) setFault(attachFile(upload, file));
  };
  return html`<p>The page was reloaded during the upload. Select the same file to resume. Only missing parts are uploaded.</p>
    <label class="button primary file-button">Select file again
      <input type="file" onChange=${choose} aria-describedby=${fault && id} />
    </label>
    ${fault && html`<p class="fault" id=${id} role="alert">${fault}</p>`}`;
}

/** @param {{ error: unknown }} props */
function Failed({ error }) {
  const faults = error instanceof Problem ? error.errors : [];
  return html`<${Failure} error=${error} />
    ${faults.length > 0 && html`<ul class="fault">${faults.map(({ detail }) => html`<li>${detail}</li>`)}</ul>`}`;
}

/** @param {{ upload: Upload, onClose: () => void, onGone: () => void }} props */
function Cancelling({ upload, onClose, onGone }) {
  const [withVideo, setWithVideo] = useState(upload.isNew);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const confirm = async () => {
    setBusy(true);
    try {
      const isGone = await cancel(upload, withVideo);
      onClose();
      if (isGone) onGone();
      announceText(isGone ? "Upload cancelled." : "The upload was already complete and cannot be cancelled.");
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Cancel this upload?" onClose=${onClose}>
    <p>The uploaded part of <${UserText}>${upload.about.name}<//> is discarded.</p>
    ${upload.isNew && upload.videoId && html`<label class="check"><input type="checkbox" checked=${withVideo}
      onChange=${() => setWithVideo(!withVideo)} /> Also delete the video</label>`}
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="danger" disabled=${isBusy} onClick=${confirm}>Cancel upload</button>
      <button type="button" disabled=${isBusy} onClick=${onClose}>Keep uploading</button>
    </div>
  <//>`;
}

/** Such as `12.0 MB of 40.0 MB, 3.1 MB/s, 9 seconds left`. @param {Upload} upload */
function amount({ about, loaded, samples, state }) {
  const text = `${size(loaded)} of ${size(about.size)}`;
  const [first, last] = [samples[0], samples.at(-1)];
  if (loaded === about.size) return `${text}: waiting for confirmation`;
  if (state === "paused" || !first || !last) return text;
  const speed = ((last.loaded - first.loaded) / (last.at - first.at)) * 1000;
  if (!(speed > 0)) return text;
  return `${text}, ${size(speed)}/s, ${formatRange((about.size - loaded) / speed)} left`;
}

/** What those hear who do not see the bar: seldom, so that it does not disturb. @param {Upload} upload @param {number} percent */
function speak({ about, state }, percent) {
  if (state === "paused") return `${about.name} is paused.`;
  return `${about.name}: ${Math.floor(percent / STEP) * STEP} percent uploaded.`;
}
