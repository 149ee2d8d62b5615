// Upload: select files, describe their videos, and see the progress of upload and processing. Components are in `upload/`.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Failure, Icon, Loading, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import Draft from "../upload/draft.js";
import { useUploads } from "../upload/list.js";
import { ACCEPTED, addFiles, submit } from "../upload/queue.js";
import Row from "../upload/row.js";

const TEXT = texts.upload;

/** @typedef {import("../core/session.js").User} User */

/** @param {{ route: import("../core/route.js").Route, user: User }} props */
export default function Upload({ route, user }) {
  const videoId = route.query.get("video");
  const video = useLoad(async (signal) => {
    if (!videoId) return null;
    const { data } = await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId }, query: { fields: ["title"] } }, signal }));
    return { videoId, title: data.title ?? "" };
  }, [videoId]);
  if (video.error) return html`<h1>${TEXT.title}</h1><${Failure} error=${video.error} retry=${video.reload} />`;
  if (video.value?.videoId !== (videoId ?? undefined)) return html`<h1>${TEXT.title}</h1><${Loading} />`;
  return html`<${Uploads} user=${user} video=${video.value ?? undefined} key=${videoId} />`;
}

/** @param {{ user: User, video?: { videoId: string, title: string } }} props */
function Uploads({ user, video }) {
  const uploads = useUploads();
  const [faults, setFaults] = useState(/** @type {string[]} */ ([]));
  const title = useRef(/** @type {HTMLElement | null} */ (null));
  /** Upload submitted last; the first of several submitted together. */
  const latest = useRef(/** @type {import("../upload/list.js").Upload | undefined} */ (undefined));
  const drafts = uploads.filter(({ state }) => state === "draft");
  const others = uploads.filter(({ state }) => state !== "draft");

  const take = (/** @type {File[]} */ files) => {
    const isTooMany = video && files.length > 1;
    const before = new Set(uploads);
    setFaults(isTooMany ? [TEXT.oneOnly] : addFiles(files, user.subject, video));
    return before;
  };
  const isOver = useDrop(take);
  const send = (/** @type {typeof uploads} */ sent) => {
    latest.current = sent[0];
    for (const upload of sent) void submit(upload);
  };
  const toTop = () => title.current?.focus();

  return html`
    <h1 tabindex="-1" ref=${title}>${video ? TEXT.replace(html`<${UserText}>${video.title}<//>`) : TEXT.title}</h1>
    ${video && html`<p>${TEXT.replaceHint} <a href=${hrefTo(["upload"])}>${TEXT.newInstead}</a></p>`}
    <div class=${`drop ${isOver ? "over" : ""}`}>
      <${Icon} name="upload" />
      <p>${video ? TEXT.dropOne : TEXT.drop}</p>
      <${Choose} several=${!video} isFirst=${!uploads.length} onChoose=${take} />
      <p class="hint">${TEXT.formats}</p>
    </div>
    <div role="alert">${faults.length > 0 && html`<ul class="failure faults">
      ${faults.map((fault) => html`<li><${UserText}>${fault}<//></li>`)}
    </ul>`}</div>
    ${drafts.length > 1 && html`<div class="actions">
      <button type="button" class="primary" onClick=${() => send(drafts)}>${TEXT.uploadAll(drafts.length)}</button>
    </div>`}
    <ul class="uploads">
      ${drafts.map((upload) => html`<li key=${upload.id}><${Draft} upload=${upload} isOnly=${drafts.length === 1} onSend=${() => send([upload])} onRemove=${toTop} /></li>`)}
      ${others.map((upload) => html`<li key=${upload.id}><${Row} upload=${upload} takesFocus=${upload === latest.current} onRemove=${toTop} /></li>`)}
    </ul>`;
}

/** @param {{ several: boolean, isFirst: boolean, onChoose: (files: File[]) => void }} props */
function Choose({ several, isFirst, onChoose }) {
  const change = (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    onChoose([...(input.files ?? [])]);
    input.value = ""; // otherwise selecting the same file again has no event
  };
  return html`<label class=${`button file-button ${isFirst ? "primary" : ""}`}>${several ? TEXT.selectFiles : TEXT.selectFile}
    <input type="file" multiple=${several} accept=${ACCEPTED} onChange=${change} />
  </label>`;
}

/** Call `take` with files that are dropped anywhere on the page. Returns whether files are being dragged over it.
 * @param {(files: File[]) => void} take */
function useDrop(take) {
  const [depth, setDepth] = useState(0);
  const latest = useRef(take);
  latest.current = take;
  useLayoutEffect(() => {
    const stop = new AbortController();
    /** @param {"dragenter" | "dragover" | "dragleave" | "drop"} name @param {(event: DragEvent) => void} react */
    const on = (name, react) => document.addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault(); // otherwise the browser opens the file instead of this page
      react(event);
    }, { signal: stop.signal });
    on("dragenter", () => setDepth((number) => number + 1)); // also fires for each element inside
    on("dragleave", () => setDepth((number) => Math.max(0, number - 1)));
    on("dragover", () => undefined);
    on("drop", ({ dataTransfer }) => {
      setDepth(0);
      latest.current(filesOf(dataTransfer));
    });
    return () => stop.abort();
  }, []);
  return depth > 0;
}

/** Return the dropped files, without folders. @param {DataTransfer | null} dropped */
function filesOf(dropped) {
  const items = [...(dropped?.items ?? [])].filter(({ kind }) => kind === "file");
  return items.filter((item) => !item.webkitGetAsEntry()?.isDirectory).map((item) => item.getAsFile()).filter((file) => file !== null);
}
