// Bulk actions on the selected videos: edit fields, add to a playlist, delete.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Dialog, Failure, Field, Loading, UserText, messageOf } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.library.bulk;

/**
 * @typedef {import("../screens/library.js").Summary} Summary
 * @typedef {import("../core/api.js").Schemas["Batch"]["operations"][number]} Operation
 * @typedef {import("../core/api.js").Schemas["FetchedVideo"]} Video
 * @typedef {"edit" | "playlist" | "delete"} Kind
 * @typedef {{ visibility: string, category: string, folder: string, add: string, remove: string }} Wanted An empty text changes nothing.
 * @typedef {{ videoId: string, detail: string }} Fault
 * @typedef {{ done: number, succeeded: number, faults: Fault[], changeSets: string[], error?: unknown, isOver: boolean }} Run
 */

/** Videos per request. */
const BATCH_SIZE = 100;

/** @param {{ kind: Kind, videos: Summary[], userId: string, onClose: () => void, onDone: (videoIds: string[]) => void }} props */
export default function Bulk({ kind, videos, userId, onClose, onDone }) {
  const [run, setRun] = useState(/** @type {Run | null} */ (null));
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const start = async (/** @type {(show: (run: Run) => void, signal: AbortSignal) => Promise<void>} */ work) => {
    await work(setRun, stop.current.signal);
    if (!stop.current.signal.aborted) onDone(videos.map(({ videoId }) => videoId));
  };
  const title = TEXT.titles[kind](videos.length);
  const props = { videos, userId, onClose, start };
  return html`<${Dialog} title=${title} class="bulk" onClose=${() => (run && !run.isOver ? undefined : onClose())}>
    ${run ? html`<${Report} run=${run} videos=${videos} onClose=${onClose} onStop=${() => stop.current.abort()} />`
      : kind === "edit" ? html`<${EditForm} ...${props} />` : kind === "playlist" ? html`<${PlaylistForm} ...${props} />` : html`<${DeleteForm} ...${props} />`}
  <//>`;
}

/** @typedef {{ videos: Summary[], userId: string, onClose: () => void, start: (work: (show: (run: Run) => void, signal: AbortSignal) => Promise<void>) => Promise<void> }} FormProps */

/** @param {FormProps} props */
function EditForm({ videos, onClose, start }) {
  const [wanted, setWanted] = useState(/** @type {Wanted} */ ({ visibility: "", category: "", folder: "", add: "", remove: "" }));
  const tags = useLoad(async (signal) => (await ask(api.GET("/v1/tags", { params: { query: { limit: 100 } }, signal }))).data.items, []).value ?? [];
  const categories = [...new Set(videos.map(({ category }) => category).filter((category) => category !== undefined))];
  const set = (/** @type {keyof Wanted} */ name) => (/** @type {string} */ value) => setWanted({ ...wanted, [name]: value });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    void start((show, signal) => runBatch(videos, (video) => patchFor(video, wanted), show, signal));
  };
  return html`<form onSubmit=${submit}>
    <p class="hint">${TEXT.editHint}</p>
    <${Field} label=${texts.fields.visibility} kind="select" value=${wanted.visibility} onInput=${set("visibility")}>
      <option value="">${TEXT.noChange}</option><option value="public">${texts.states.public}</option><option value="private">${texts.states.private}</option>
    <//>
    <${Field} label=${texts.fields.category} value=${wanted.category} onInput=${set("category")} list="bulk-categories" autocomplete="off" />
    <datalist id="bulk-categories">${categories.map((category) => html`<option value=${category}></option>`)}</datalist>
    <${Field} label=${texts.fields.folder} value=${wanted.folder} onInput=${set("folder")} autocomplete="off" hint=${TEXT.folderHint} />
    <${Field} label=${TEXT.addTags} value=${wanted.add} onInput=${set("add")} list="bulk-tags" autocomplete="off" hint=${texts.common.separateTags} />
    <datalist id="bulk-tags">${tags.map(({ tag }) => html`<option value=${tag}></option>`)}</datalist>
    <${Field} label=${TEXT.removeTags} value=${wanted.remove} onInput=${set("remove")} autocomplete="off" hint=${texts.common.separateTags} />
    <div class="actions">
      <button type="submit" class="primary" disabled=${!Object.values(wanted).some((text) => text.trim())}>${texts.common.save}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    </div>
  </form>`;
}

/** @param {FormProps} props */
function DeleteForm({ videos, onClose, start }) {
  const remove = () => start((show, signal) =>
    runBatch(videos, ({ videoId, version }) => ({ op: "delete", videoId, ifMatch: `"${version}"` }), show, signal));
  return html`<p>${TEXT.deleteHint}</p>
    <div class="actions">
      <button type="button" class="danger" onClick=${remove}>${texts.common.delete}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    </div>`;
}

/** @param {FormProps} props */
function PlaylistForm({ videos, userId, onClose, start }) {
  const playlists = useLoad(async (signal) =>
    (await ask(api.GET("/v1/playlists", { params: { query: { userId, limit: 100 } }, signal }))).data.items, [userId]);
  const [chosen, setChosen] = useState("");
  const playlistId = chosen || playlists.value?.[0]?.playlistId;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (playlistId) void start((show, signal) => addToPlaylist(videos, playlistId, show, signal));
  };
  return html`<form onSubmit=${submit}>
    <${Failure} error=${playlists.error} retry=${playlists.reload} />
    ${!playlists.value && playlists.isLoading && html`<${Loading} />`}
    ${playlists.value?.length === 0 && html`<p class="hint">${texts.common.noPlaylists} <a href=${hrefTo(["playlists"])}>${TEXT.createFirst}</a></p>`}
    ${playlists.value && playlists.value.length > 0 && html`<${Field} label=${TEXT.playlist} kind="select" value=${playlistId} onInput=${setChosen}>
      ${playlists.value.map((playlist) => html`<option value=${playlist.playlistId}>${playlist.title}</option>`)}
    <//>`}
    <div class="actions">
      <button type="submit" class="primary" disabled=${!playlistId}>${texts.common.add}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    </div>
  </form>`;
}

/** Progress and result of a run, with links to undo its changes.
 * @param {{ run: Run, videos: Summary[], onClose: () => void, onStop: () => void }} props */
function Report({ run: { done, succeeded, faults, changeSets, error, isOver }, videos, onClose, onStop }) {
  const titles = new Map(videos.map(({ videoId, title }) => [videoId, title]));
  return html`<progress max=${videos.length} value=${done} aria-label=${TEXT.progress}></progress>
    <p role="status">${(isOver ? TEXT.result : TEXT.progressText)(done, videos.length, succeeded, faults.length)}</p>
    <${Failure} error=${error} />
    ${faults.length > 0 && html`<ul class="plain">${faults.map(({ videoId, detail }) => html`<li key=${videoId}>
      <strong><${UserText}>${titles.get(videoId) ?? videoId}<//></strong>: ${detail}</li>`)}</ul>`}
    <div class="actions">
      ${isOver ? html`<button type="button" class="primary" onClick=${onClose}>${texts.common.done}</button>` : html`<button type="button" onClick=${onStop}>${texts.common.stop}</button>`}
      ${isOver && changeSets.map((id, index) => html`<a class="button" key=${id} href=${hrefTo(["changesets", id])}>${changeSets.length > 1 ? TEXT.undoPart(index + 1) : texts.common.undo}</a>`)}
    </div>`;
}

/** Send one operation per video, 100 per request, and report progress to `show`. A null operation counts as succeeded.
 *
 * A failed request ends the run, with its error in the last report.
 * @param {Pick<Summary, "videoId">[]} videos @param {(video: Video) => Operation | null} operationFor
 * @param {(run: Run) => void} show @param {AbortSignal} signal */
export async function runBatch(videos, operationFor, show, signal) {
  /** @type {Run} */
  let run = { done: 0, succeeded: 0, faults: [], changeSets: [], isOver: false };
  const update = (/** @type {Partial<Run>} */ part) => show((run = { ...run, ...part }));
  update({});
  try {
    for (let start = 0; start < videos.length && !signal.aborted; start += BATCH_SIZE) {
      const videoIds = videos.slice(start, start + BATCH_SIZE).map(({ videoId }) => videoId);
      const { data: read } = await ask(api.POST("/v1/videos/batch-get", { body: { videoIds }, signal }));
      const missing = [...read.missing, ...read.remaining].map((videoId) => ({ videoId, detail: TEXT.unreadable }));
      const operations = read.items.map(operationFor).filter((operation) => operation !== null);
      const unchanged = read.items.length - operations.length;
      const answer = operations.length ? await ask(api.POST("/v1/videos/batch", { body: { operations } })) : null;
      const failed = answer?.data.items.flatMap(({ problem }, index) =>
        (problem ? [{ videoId: idOf(operations[index]), detail: String(problem.detail ?? problem.title) }] : [])) ?? [];
      update({
        done: start + videoIds.length,
        succeeded: run.succeeded + unchanged + (answer?.data.succeeded ?? 0),
        faults: [...run.faults, ...missing, ...failed],
        changeSets: [...run.changeSets, ...(answer?.changeSet && answer.data.succeeded ? [answer.changeSet] : [])],
      });
    }
  } catch (error) {
    update({ error });
  }
  update({ isOver: true });
}

/** @param {Operation | undefined} operation */
function idOf(operation) {
  return operation && "videoId" in operation ? operation.videoId : "";
}

/** Return the operation that applies the wanted changes to one video; null if it already has them.
 * @param {Video} video @param {Wanted} wanted @returns {Operation | null} */
export function patchFor({ videoId, version, visibility, category, folder, tags = [] }, wanted) {
  const list = (/** @type {string} */ text) => text.split(",").map((tag) => tag.trim()).filter(Boolean);
  const removed = list(wanted.remove);
  const after = [...new Set([...tags, ...list(wanted.add)])].filter((tag) => !removed.includes(tag));
  /** @type {import("../core/api.js").Schemas["VideoPatch"]} */
  const patch = {};
  if (wanted.visibility && wanted.visibility !== visibility) patch.visibility = /** @type {"public" | "private"} */ (wanted.visibility);
  if (wanted.category.trim() && wanted.category.trim() !== category) patch.category = wanted.category.trim();
  if (wanted.folder.trim() && wanted.folder.trim() !== folder) patch.folder = wanted.folder.trim();
  if (after.length !== tags.length || after.some((tag) => !tags.includes(tag))) patch.tags = after;
  return Object.keys(patch).length ? { op: "patch", videoId, ifMatch: `"${version}"`, patch } : null;
}

/** @param {Summary[]} videos @param {string} playlistId @param {(run: Run) => void} show @param {AbortSignal} signal */
async function addToPlaylist(videos, playlistId, show, signal) {
  /** @type {Run} */
  let run = { done: 0, succeeded: 0, faults: [], changeSets: [], isOver: false };
  for (const { videoId } of videos) {
    if (signal.aborted) break;
    show(run);
    try {
      await ask(api.POST("/v1/playlists/{playlistId}/entries", { params: { path: { playlistId } }, body: { videoId } }));
      run = { ...run, done: run.done + 1, succeeded: run.succeeded + 1 };
    } catch (error) {
      const isThere = error instanceof Problem && error.kind === "already-exists";
      run = { ...run, done: run.done + 1, succeeded: run.succeeded + (isThere ? 1 : 0), faults: isThere ? run.faults : [...run.faults, { videoId, detail: messageOf(error).detail }] };
    }
  }
  show({ ...run, isOver: true });
}
