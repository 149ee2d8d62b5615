// Dialogs that create, edit and delete a playlist.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useAttempt, useLoad } from "../core/load.js";
import { Dialog, Failure, Field, Loading, announceText, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { useIdempotencyKey } from "./idempotency.js";

const TEXT = texts.playlists.editor;

/** @typedef {import("../core/api.js").Schemas["Playlist"]} Playlist */
/** @typedef {"public" | "private"} Visibility */
/** Content of the form. An empty description removes it.
 * @typedef {{ title: string, description: string, visibility: string }} Content */
/** @typedef {{ title?: string, description?: string | null, visibility?: Visibility }} Patch */
/** @typedef {{ playlist: Playlist, etag: string | null }} Version */

/** @type {["title", "description", "visibility"]} */
const FIELDS = ["title", "description", "visibility"];
const LABELS = texts.fields;

/** @param {{ onClose: () => void, onSaved: (playlist: Playlist) => void }} props */
export function Create({ onClose, onSaved }) {
  const [content, setContent] = useState(/** @type {Content} */ ({ title: "", description: "", visibility: "private" }));
  const once = useIdempotencyKey();
  const { error, isBusy, run } = useAttempt(async () => {
    const { title, description } = content;
    const body = { title, description: description || null, visibility: /** @type {Visibility} */ (content.visibility) };
    const { data } = await once(body, (key) =>
      ask(api.POST("/v1/playlists", { params: { header: { "Idempotency-Key": key } }, body })));
    onSaved(data);
  });
  return html`<${Dialog} title=${texts.playlists.create} onClose=${onClose}>
    <${Form} content=${content} onInput=${setContent} error=${error} isBusy=${isBusy} onSubmit=${run}>
      <button class="primary" disabled=${isBusy}>${texts.common.create}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    <//>
  <//>`;
}

/** Dialog to edit a playlist. Reads the current version first, because each change of an entry creates a new version.
 * @param {{ playlistId: string, onClose: () => void, onSaved: (playlist: Playlist) => void }} props */
export function Edit({ playlistId, onClose, onSaved }) {
  const fetched = useLoad((signal) => read(playlistId, signal), [playlistId]);
  return html`<${Dialog} title=${TEXT.title} onClose=${onClose}>
    ${fetched.value ? html`<${EditForm} start=${fetched.value} onClose=${onClose} onSaved=${onSaved} />` : html`
      ${fetched.error ? html`<${Failure} error=${fetched.error} retry=${fetched.reload} />` : html`<${Loading} />`}
      <div class="actions"><button type="button" onClick=${onClose}>${texts.common.cancel}</button></div>`}
  <//>`;
}

/** @param {{ start: Version, onClose: () => void, onSaved: (playlist: Playlist) => void }} props */
function EditForm({ start, onClose, onSaved }) {
  const { playlistId } = start.playlist;
  const [base, setBase] = useState(start);
  const [content, setContent] = useState(contentOf(start.playlist));
  /** Changes by others while this form was open; null if there are none or the user resolved the conflict. */
  const [theirs, setTheirs] = useState(/** @type {Patch | null} */ (null));

  /** Save if the playlist still has the version `on`. Changes of entries alone do not conflict.
   * @param {Version} on @returns {Promise<void>} */
  const save = async (on) => {
    const before = contentOf(on.playlist);
    const body = patchBetween(before, content);
    if (!Object.keys(body).length) return onSaved(on.playlist);
    const header = { "If-Match": on.etag ?? undefined };
    const headers = { "Content-Type": "application/merge-patch+json" };
    try {
      const params = { path: { playlistId }, header };
      const { data } = await ask(api.PATCH("/v1/playlists/{playlistId}", { params, headers, body }));
      announceText(TEXT.saved);
      onSaved(data);
    } catch (error) {
      if (!(error instanceof Problem && error.status === 412)) throw error;
      const now = await read(playlistId);
      const changes = patchBetween(before, contentOf(now.playlist));
      if (!Object.keys(changes).length) return save(now); // only entries changed, which is no conflict
      setBase(now);
      setTheirs(changes);
      setContent({ ...contentOf(now.playlist), ...pick(content, Object.keys(body)) });
    }
  };
  const { error, isBusy, run } = useAttempt(() => save(base));
  const take = () => {
    setContent(contentOf(base.playlist));
    setTheirs(null);
  };
  return html`<${Form} content=${content} onInput=${setContent} error=${error} isBusy=${isBusy} onSubmit=${run}>
    ${theirs && html`<${Conflict} theirs=${theirs} />`}
    <button class="primary" disabled=${isBusy}>${theirs ? texts.common.keepMine : texts.common.save}</button>
    ${theirs && html`<button type="button" disabled=${isBusy} onClick=${take}>${texts.common.takeTheirs}</button>`}
    <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
  <//>`;
}

/** @param {{ theirs: Patch }} props */
function Conflict({ theirs }) {
  return html`<div class="failure conflict" role="alert">
    <strong>${texts.common.changedByAnother}</strong>
    <p>${TEXT.conflict}</p>
    <dl>
      ${FIELDS.filter((name) => name in theirs).map((name) => html`<div>
        <dt>${LABELS[name]}</dt><dd>${TEXT.theirValue(html`<${UserText}>${theirs[name] || texts.common.empty}<//>`)}</dd>
      </div>`)}
    </dl>
  </div>`;
}

/** @param {{ playlist: Playlist, onClose: () => void, onDeleted: () => void }} props */
export function Delete({ playlist: { playlistId, title }, onClose, onDeleted }) {
  const { error, isBusy, run } = useAttempt(async () => {
    try {
      await ask(api.DELETE("/v1/playlists/{playlistId}", { params: { path: { playlistId } } }));
    } catch (reason) {
      if (!(reason instanceof Problem && reason.status === 404)) throw reason; // already deleted
    }
    onDeleted();
  });
  return html`<${Dialog} title=${TEXT.deleteQuestion} onClose=${onClose}>
    <p>${TEXT.deleteWarning(html`<${UserText}>${title}<//>`)}</p>
    <${Failure} error=${error} />
    <div class="actions">
      <button type="button" class="danger" disabled=${isBusy} onClick=${run}>${texts.common.delete}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    </div>
  <//>`;
}

/** Form of a playlist. It is read-only while it is saved, because later input would be lost; the focus stays.
 * @param {{ content: Content, onInput: (content: Content) => void, error: unknown, isBusy: boolean, onSubmit: () => void,
 *   children?: import("../design/parts.js").Children }} props */
function Form({ content, onInput, error, isBusy, onSubmit, children }) {
  const at = (/** @type {keyof Content} */ name) => (error instanceof Problem ? error.at(`/${name}`) : undefined);
  const set = (/** @type {keyof Content} */ name) => (/** @type {string} */ value) => onInput({ ...content, [name]: value });
  const isShown = FIELDS.some(at);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    onSubmit();
  };
  return html`<form onSubmit=${submit}>
    <${Field} label=${LABELS.title} value=${content.title} onInput=${set("title")} error=${at("title")}
      autocomplete="off" readOnly=${isBusy} />
    <${Field} label=${LABELS.description} kind="textarea" rows="4" readOnly=${isBusy}
      value=${content.description} onInput=${set("description")} error=${at("description")} />
    <${Field} label=${LABELS.visibility} kind="select" disabled=${isBusy}
      value=${content.visibility} onInput=${set("visibility")} error=${at("visibility")}>
      <option value="private">${texts.states.private}</option>
      <option value="public">${texts.states.public}</option>
    <//>
    ${!isShown && html`<${Failure} error=${error} />`}
    <div class="actions">${children}</div>
  </form>`;
}

/** @param {string} playlistId @param {AbortSignal} [signal] @returns {Promise<Version>} */
export async function read(playlistId, signal) {
  const { data, etag } = await ask(api.GET("/v1/playlists/{playlistId}", { params: { path: { playlistId } }, signal }));
  return { playlist: data, etag };
}

/** @param {Playlist} playlist @returns {Content} */
function contentOf({ title, description = "", visibility }) {
  return { title, description, visibility };
}

/** Return the merge patch (RFC 7396) from `before` to `after`.
 * @param {Content} before @param {Content} after */
function patchBetween(before, after) {
  /** @type {Patch} */
  const patch = {};
  if (after.title !== before.title) patch.title = after.title;
  if (after.description !== before.description) patch.description = after.description || null;
  if (after.visibility !== before.visibility) patch.visibility = /** @type {Visibility} */ (after.visibility);
  return patch;
}

/** @param {Content} content @param {string[]} names @returns {Partial<Content>} */
function pick(content, names) {
  return Object.fromEntries(Object.entries(content).filter(([name]) => names.includes(name)));
}
