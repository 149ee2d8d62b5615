// The first steps of a new owner: upload, publish, share and follow. It disappears when all are done, or when it is dismissed.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { noteProgress, progressOf } from "../core/first-run.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Icon, announceText } from "../design/parts.js";

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
    announceText("Link copied.");
    note("shared");
  };
  const steps = [
    { title: "Upload", text: "Select or drop a video file. Its details are read automatically.", isDone: videos.length > 0,
      action: html`<a class="button" href=${hrefTo(["upload"])}>Select a file</a>` },
    { title: "Publish", text: "Edit the video and set its visibility to Public.", isDone: Boolean(published),
      action: hidden && html`<a class="button" href=${hrefTo(["videos", hidden.videoId])}>Open the video</a>` },
    { title: "Share", text: "Send the link of a published video.", isDone: progress.shared === true,
      action: published && html`<button type="button" onClick=${() => void share(published)}>Copy the link</button>` },
    { title: "Follow", text: "Get a request to your own server for each change.", isDone: Boolean(hooks.value?.length),
      action: html`<a class="button" href=${hrefTo(["webhooks"])}>Set up a webhook</a>` },
  ];
  const done = steps.filter(({ isDone }) => isDone).length;
  if (progress.dismissed || (!hooks.value && !hooks.error) || done === steps.length) return null;
  return html`<section class="surface checklist" aria-labelledby="checklist-title">
    <div class="checklist-head">
      <h2 id="checklist-title">First steps</h2><span class="hint">${done} of ${steps.length} done</span>
      <button type="button" class="quiet" aria-label="Dismiss first steps" onClick=${() => note("dismissed")}><${Icon} name="x" /></button>
    </div>
    <ol>${steps.map(({ title, text, isDone, action }) => html`<li key=${title} class=${isDone ? "is-done" : ""}>
      <span class="state"><${Icon} name=${isDone ? "circle-check" : "chevron-right"} /></span>
      <div><strong>${title}</strong>${isDone && html`<span class="unseen">, done</span>`}<p class="hint">${text}</p>${!isDone && action}</div>
    </li>`)}</ol>
  </section>`;
}
