// Titles of a video by region and language.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { usePages } from "../core/load.js";
import { Empty, Field, LoadMore, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName, regionName } from "./names.js";
import { listFault, parameterFault, lines, ItemForm, RemoveButton } from "./item-form.js";

const TEXT = texts.video.titles;

/**
 * @typedef {import("../core/api.js").Schemas["Release"]} Release
 * @typedef {import("../core/api.js").Schemas["Region"]} Region
 * @typedef {{ id: number, title: string, types: string, attributes: string }} Title Typed texts of a title.
 */

/** @param {import("../screens/video.js").PartProps} props */
export default function Titles({ video, isOwner }) {
  const { videoId } = video;
  const [edited, setEdited] = useState(/** @type {Release | "new" | null} */ (null));
  const pages = usePages(async (cursor, signal) => {
    const params = { path: { videoId }, query: { limit: 50, cursor } };
    return (await ask(api.GET("/v1/videos/{videoId}/releases", { params, signal }))).data;
  }, [videoId]);
  const mayEdit = isOwner && video.status !== "deleted";
  const saved = () => {
    setEdited(null);
    pages.reload();
  };
  return html`<div class="above">
      <h2>${TEXT.title}</h2>
      ${mayEdit && html`<button type="button" onClick=${() => setEdited("new")}>${TEXT.add}</button>`}
    </div>
    ${pages.isDone && !pages.items.length && html`<${Empty}>${TEXT.empty}<//>`}
    <ul class="items">
      ${pages.items.map((release) => html`<li key=${`${release.region} ${release.language ?? ""}`}>
        <div>
          <strong>${placeOf(release)}</strong> <small>${release.region}${release.language && ` ${release.language}`}</small>
          <ul class="plain">${release.titles.map(({ title, types, attributes }) => html`<li><${UserText}>${title}<//>
            ${[...types, ...attributes].length > 0 && html` <small>${
              [...types, ...attributes].map((note, index) => html`${index > 0 && ", "}<${UserText}>${note}<//>`)}</small>`}</li>`)}</ul>
        </div>
        ${mayEdit && html`<span class="buttons">
          <button type="button" class="quiet" aria-label=${TEXT.editItem(placeOf(release))} onClick=${() => setEdited(release)}>${texts.common.edit}</button>
          <${RemoveButton} label=${TEXT.removeItem(placeOf(release))} question=${TEXT.removeQuestion(placeOf(release))} remove=${() => remove(release)} onRemoved=${pages.reload} />
        </span>`}
      </li>`)}
    </ul>
    <${LoadMore} pages=${pages} />
    ${edited && html`<${TitlesForm} videoId=${videoId} release=${edited === "new" ? null : edited} onSaved=${saved} onClose=${() => setEdited(null)} />`}`;
}

/** @param {Release} release */
function placeOf({ region, language }) {
  return language ? `${regionName(region)}, ${languageName(language)}` : regionName(region);
}

/** @param {Release} release */
function remove({ videoId, region, language, version }) {
  const header = { "If-Match": `"${version}"` };
  return language
    ? ask(api.DELETE("/v1/videos/{videoId}/releases/{region}/{language}", { params: { path: { videoId, region, language }, header } }))
    : ask(api.DELETE("/v1/videos/{videoId}/releases/{region}", { params: { path: { videoId, region }, header } }));
}

/** @param {{ videoId: string, release: Release | null, onSaved: () => void, onClose: () => void }} props */
function TitlesForm({ videoId, release, onSaved, onClose }) {
  const [place, setPlace] = useState({ region: release?.region ?? "", language: release?.language ?? "" });
  const [titles, setTitles] = useState(() => toTitles(release));
  const [problem, setProblem] = useState(/** @type {import("../core/api.js").Problem | null} */ (null));
  const region = /** @type {Region} */ (place.region.trim()); // the API validates it
  const language = place.language.trim();
  const save = (/** @type {Record<string, string>} */ header) => {
    const body = { titles: titles.map(({ title, types, attributes }) => ({ title, types: lines(types), attributes: lines(attributes) })) };
    return language
      ? ask(api.PUT("/v1/videos/{videoId}/releases/{region}/{language}", { params: { path: { videoId, region, language }, header }, body }))
      : ask(api.PUT("/v1/videos/{videoId}/releases/{region}", { params: { path: { videoId, region }, header }, body }));
  };
  const fresh = async () => {
    const { data } = await ask(api.GET("/v1/videos/{videoId}/releases/{region}", { params: { path: { videoId, region }, query: { limit: 100 } } }));
    const item = data.items.find((other) => (other.language ?? "").toLowerCase() === language.toLowerCase());
    return item ? { version: item.version, item } : null;
  };
  const set = (/** @type {number} */ id, /** @type {Partial<Title>} */ part) =>
    setTitles(titles.map((title) => (title.id === id ? { ...title, ...part } : title)));
  return html`<${ItemForm} title=${release ? TEXT.formTitle(placeOf(release)) : TEXT.add} version=${release?.version ?? null}
    save=${save} fresh=${fresh} take=${(/** @type {Release} */ theirs) => setTitles(toTitles(theirs))} onError=${setProblem}
    onSaved=${onSaved} onClose=${onClose}>
    ${!release && html`
      <${Field} label=${TEXT.region} value=${place.region} error=${parameterFault(problem, "region")} autocomplete="off" spellcheck=${false} required
        hint=${TEXT.regionHint}
        onInput=${(/** @type {string} */ typedRegion) => setPlace({ ...place, region: typedRegion })} />
      <${Field} label=${texts.fields.language} value=${place.language} error=${parameterFault(problem, "language")} autocomplete="off" spellcheck=${false}
        hint=${TEXT.languageHint}
        onInput=${(/** @type {string} */ typedLanguage) => setPlace({ ...place, language: typedLanguage })} />`}
    ${titles.map((title, index) => html`<fieldset class="card" key=${title.id}>
      <legend>${TEXT.item(index + 1)}</legend>
      <${Field} label=${texts.fields.title} value=${title.title} error=${problem?.at(`/titles/${index}/title`)} autocomplete="off"
        onInput=${(/** @type {string} */ text) => set(title.id, { title: text })} />
      <${Field} label=${TEXT.types} kind="textarea" rows="2" value=${title.types} error=${listFault(problem, `/titles/${index}/types`)}
        onInput=${(/** @type {string} */ types) => set(title.id, { types })} hint=${TEXT.typesHint} />
      <${Field} label=${TEXT.attributes} kind="textarea" rows="2" value=${title.attributes} error=${listFault(problem, `/titles/${index}/attributes`)}
        onInput=${(/** @type {string} */ attributes) => set(title.id, { attributes })} hint=${TEXT.attributesHint} />
      ${titles.length > 1 && html`<button type="button" onClick=${() => setTitles(titles.filter(({ id }) => id !== title.id))}>${TEXT.removeTitle(index + 1)}</button>`}
    </fieldset>`)}
    ${problem?.at("/titles") && html`<p class="fault">${problem.at("/titles")}</p>`}
    <button type="button" onClick=${() => setTitles([...titles, empty()])}>${TEXT.addOne}</button>
  <//>`;
}

let last = 0;

/** @returns {Title} */
function empty() {
  return { id: ++last, title: "", types: "", attributes: "" };
}

/** @param {Release | null} release @returns {Title[]} */
function toTitles(release) {
  if (!release) return [empty()];
  return release.titles.map(({ title, types, attributes }) => ({ id: ++last, title, types: types.join("\n"), attributes: attributes.join("\n") }));
}
