// The first steps of a new owner: upload, publish, share and connect. It disappears when all are done, or when it is dismissed.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { noteProgress, progressOf } from "../core/first-run.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Icon, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.library.checklist;

/** @typedef {import("../screens/library.js").Summary} Summary */

/** @param {{ videos: Summary[], subject: string }} props all videos of the user */
export default function Checklist({ videos, subject }) {
  const [progress, setProgress] = useState(() => progressOf(subject));
  const hooks = useLoad(async (signal) => (await ask(api.GET("/v1/webhooks", { params: { query: { limit: 1 } }, signal }))).data.items, []);
  const note = (/** @type {"shared" | "dismissed"} */ name) => {
    noteProgress(subject, name);
    setProgress({ ...progress, [name]: true });
  };
  const published = videos.find(({ visibility, status }) => visibility === "public" && status !== "deleted");
  const hidden = videos.find(({ visibility, status }) => visibility === "private" && status !== "deleted");
  const share = async (/** @type {Summary} */ { videoId }) => {
    await navigator.clipboard.writeText(new URL(hrefTo(["videos", videoId]), location.href).href);
    announceText(texts.common.linkCopied);
    note("shared");
  };
  const steps = [
    { title: texts.common.upload, text: TEXT.uploadHint, isDone: videos.length > 0, action: null }, // the empty library shows this button
    { title: TEXT.publish, text: TEXT.publishHint, isDone: Boolean(published),
      action: hidden && html`<a class="button" href=${hrefTo(["videos", hidden.videoId])}>${TEXT.openTheVideo}</a>` },
    { title: texts.common.share, text: TEXT.shareHint, isDone: progress.shared === true,
      action: published && html`<button type="button" onClick=${() => void share(published)}>${TEXT.copyTheLink}</button>` },
    { title: TEXT.connect, text: TEXT.connectHint, isDone: Boolean(hooks.value?.length),
      action: html`<a class="button" href=${hrefTo(["webhooks"])}>${TEXT.setUpAWebhook}</a>` },
  ];
  const done = steps.filter(({ isDone }) => isDone).length;
  if (progress.dismissed || (!hooks.value && !hooks.error) || done === steps.length) return null;
  return html`<section class="surface checklist" aria-labelledby="checklist-title">
    <div class="checklist-head">
      <h2 id="checklist-title">${TEXT.title}</h2><span class="hint">${TEXT.progress(done, steps.length)}</span>
      <button type="button" class="quiet" aria-label=${TEXT.dismiss} onClick=${() => note("dismissed")}><${Icon} name="x" /></button>
    </div>
    <ol>${steps.map(({ title, text, isDone, action }, index) => html`<li key=${title} class=${isDone ? "is-done" : ""}>
      <span class="state">${isDone ? html`<${Icon} name="circle-check" />` : html`<span class="number" aria-hidden="true">${index + 1}</span>`}</span>
      <div><strong>${title}</strong>${isDone && html`<span class="visually-hidden">${TEXT.stepDone}</span>`}<p class="hint">${text}</p>${!isDone && action}</div>
    </li>`)}</ol>
  </section>`;
}
