// Captions of a video by language: WebVTT or SubRip files, which the service stores as WebVTT.

import { html } from "htm/preact";
import { useEffect, useId, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { usePages } from "../core/load.js";
import { saveFile } from "../core/save.js";
import { size } from "../core/formats.js";
import { Empty, Failure, Field, LoadMore, useValidity } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName } from "./names.js";
import { parameterFault, ItemForm, RemoveButton } from "./item-form.js";

const TEXT = texts.video.captions;

/** @typedef {import("../core/api.js").Schemas["Captions"]} Caption Captions of one language. */

const LISTED = 100;
const SUBRIP = "application/x-subrip";
const WEBVTT = "text/vtt";
/** Maximum bytes of a file. Captions are much smaller, so a larger file was selected by mistake. */
const MAX_BYTES = 4_000_000;
/** Language in a file name, such as `film.pt-BR.srt`. */
const NAMED = /\.([a-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,2})\.(?:vtt|srt)$/i;

/** @param {import("../screens/video.js").PartProps} props */
export default function Captions({ video, isOwner, textChanges, onTextsChanged }) {
  const { videoId } = video;
  const [edited, setEdited] = useState(/** @type {Caption | "new" | null} */ (null));
  const pages = usePages(async (cursor, signal) => {
    const params = { path: { videoId }, query: { limit: LISTED, cursor } };
    return (await ask(api.GET("/v1/videos/{videoId}/captions", { params, signal }))).data;
  }, [videoId]);
  useEffect(() => void (textChanges && pages.reload()), [textChanges]);
  const mayEdit = isOwner && video.status !== "deleted";
  const close = () => setEdited(null);
  const saved = () => {
    close();
    onTextsChanged();
  };
  return html`<div class="above">
      <h2>${TEXT.title}</h2>
      ${mayEdit && html`<button type="button" onClick=${() => setEdited("new")}>${TEXT.add}</button>`}
    </div>
    ${pages.isDone && !pages.items.length && html`<${Empty}>${TEXT.empty}<//>`}
    <ul class="items">
      ${pages.items.map((caption) => html`<li key=${caption.language}>
        <div>
          <strong>${languageName(caption.language)}</strong> <small>${caption.language}</small><br />
          <small>${(caption.origin === "film" ? TEXT.aboutFromFile : TEXT.about)(caption.cues, size(caption.size))}</small>
        </div>
        <span class="buttons">
          <${Download} videoId=${videoId} language=${caption.language} />
          ${mayEdit && html`
            <button type="button" class="quiet" aria-label=${TEXT.replaceItem(languageName(caption.language))} onClick=${() => setEdited(caption)}>${TEXT.replace}</button>
            <${RemoveButton} label=${TEXT.removeItem(languageName(caption.language))} question=${TEXT.removeQuestion(languageName(caption.language))} onRemoved=${onTextsChanged} remove=${() => ask(api.DELETE(
              "/v1/videos/{videoId}/captions/{language}",
              { params: { path: { videoId, language: caption.language }, header: { "If-Match": `"${caption.version}"` } } },
            ))} />`}
        </span>
      </li>`)}
    </ul>
    <${LoadMore} pages=${pages} />
    ${edited && html`<${CaptionsForm} videoId=${videoId} caption=${edited === "new" ? null : edited} onSaved=${saved} onClose=${close} />`}`;
}

/** Return the language in a file name; undefined if there is none. @param {string} name */
export function languageOfFile(name) {
  return NAMED.exec(name)?.[1];
}


/** Button that downloads the captions of a language. @param {{ videoId: string, language: string }} props */
function Download({ videoId, language }) {
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const save = async () => {
    setError(null);
    try {
      const params = { path: { videoId, language } };
      const { data } = await ask(api.GET("/v1/videos/{videoId}/captions/{language}", { params, parseAs: "text" }));
      saveFile(`${videoId}.${language}.vtt`, data, WEBVTT);
    } catch (reason) {
      setError(reason);
    }
  };
  return html`<button type="button" class="quiet" aria-label=${TEXT.downloadItem(languageName(language))} onClick=${save}>${TEXT.download}</button>
    <${Failure} error=${error} />`;
}

/** @param {{ videoId: string, caption: Caption | null, onSaved: () => void, onClose: () => void }} props */
function CaptionsForm({ videoId, caption, onSaved, onClose }) {
  const [tag, setTag] = useState(caption?.language ?? "");
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const language = tag.trim();
  const choose = (/** @type {File | null} */ chosen) => {
    setFile(chosen);
    setProblem(null);
    const named = languageOfFile(chosen?.name ?? "");
    if (named && !language) setTag(named);
  };
  const save = async (/** @type {Record<string, string>} */ header) => {
    if (!file) return;
    if (file.size > MAX_BYTES) {
      throw new Problem({ status: 413, title: TEXT.tooLargeTitle, detail: TEXT.tooLarge(size(file.size)) });
    }
    await ask(api.PUT("/v1/videos/{videoId}/captions/{language}", {
      params: { path: { videoId, language }, header },
      headers: { "Content-Type": /\.srt$/i.test(file.name) ? SUBRIP : WEBVTT },
      body: /** @type {string} */ (/** @type {unknown} */ (file)), // unchanged bytes: the API detects the encoding
      bodySerializer: (body) => body,
    }));
  };
  const fresh = async () => {
    const params = { path: { videoId }, query: { limit: LISTED } };
    const { data } = await ask(api.GET("/v1/videos/{videoId}/captions", { params }));
    const item = data.items.find((other) => other.language.toLowerCase() === language.toLowerCase());
    return item ? { version: item.version, item } : null;
  };
  return html`<${ItemForm} title=${caption ? TEXT.replaceItem(languageName(caption.language)) : TEXT.add} version=${caption?.version ?? null}
    save=${save} fresh=${fresh} take=${onSaved} onError=${setProblem} onSaved=${onSaved} onClose=${onClose}>
    <${FileField} onChoose=${choose} faults=${(problem?.errors ?? []).filter(({ parameter }) => !parameter)} />
    ${!caption && html`<${Field} label=${texts.fields.language} value=${tag} onInput=${setTag} error=${parameterFault(problem, "language")}
      autocomplete="off" spellcheck=${false} required hint=${TEXT.languageHint} />
      <p class="hint" role="status">${language && languageName(language) !== language ? languageName(language) : ""}</p>`}
  <//>`;
}

/** File input, with the errors of the file's lines.
 * @param {{ onChoose: (file: File | null) => void, faults: import("../core/api.js").Fault[] }} props */
function FileField({ onChoose, faults }) {
  const id = useId();
  const { fault, onInvalid, clear } = useValidity();
  const described = fault || faults.length ? `${id}-error ${id}-hint` : `${id}-hint`;
  return html`<div class="field">
    <label for=${id}>${TEXT.file}</label>
    <input id=${id} type="file" accept=".vtt,.srt,text/vtt" required aria-invalid=${fault || faults.length ? "true" : undefined} aria-describedby=${described}
      onInvalid=${onInvalid} onChange=${(/** @type {Event} */ event) => {
        clear();
        onChoose(/** @type {HTMLInputElement} */ (event.currentTarget).files?.[0] ?? null);
      }} />
    <p class="hint" id=${`${id}-hint`}>${TEXT.fileHint}</p>
    ${fault && html`<p class="fault" id=${`${id}-error`}>${fault}</p>`}
    ${!fault && faults.length > 0 && html`<ul class="fault plain" id=${`${id}-error`}>${faults.map(({ line, detail }) => html`<li>
      ${line ? html`<strong>${TEXT.line(line)}</strong> ` : ""}<bdi>${detail}</bdi></li>`)}</ul>`}
  </div>`;
}
