// Cast and crew of a video, in credit order.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Empty, Failure, Field, Loading, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import Person, { ShownRole } from "./person.js";
import { listFault, parameterFault, lines, ItemForm, RemoveButton } from "./item-form.js";

const TEXT = texts.video.credits;

/**
 * @typedef {import("../core/api.js").Schemas["Credit"]} Credit
 * @typedef {{ id: number, category: string, job: string, characters: string }} Role Typed texts of a role.
 */

/** Maximum number of credits to load. The API lists them by person, so the page loads all before it sorts them. */
const MAX_CREDITS = 2000;

/** @param {import("../screens/video.js").PartProps} props */
export default function Credits({ video, isOwner, route }) {
  const { videoId } = video;
  const [edited, setEdited] = useState(/** @type {Credit | "new" | null} */ (null));
  const list = useLoad((signal) => allCredits(videoId, signal), [videoId]);
  const credits = list.value ?? [];
  const mayEdit = isOwner && video.status !== "deleted";
  const person = route.query.get("person");
  const saved = () => {
    setEdited(null);
    list.reload();
  };
  return html`<div class="above">
      <h2>${TEXT.title}</h2>
      ${mayEdit && html`<button type="button" onClick=${() => setEdited("new")}>${TEXT.add}</button>`}
    </div>
    ${person && html`<${Person} personId=${person} name=${credits.find(({ personId }) => personId === person)?.name} videoId=${videoId} />`}
    <${Failure} error=${list.error} retry=${list.reload} />
    ${!list.value && list.isLoading && html`<${Loading} />`}
    ${list.value && !credits.length && html`<${Empty}>${TEXT.empty}<//>`}
    <ol class="items">
      ${credits.map((credit) => html`<li key=${credit.personId}>
        <div>
          <a href=${hrefTo(["videos", videoId], { tab: "credits", person: credit.personId })}><${UserText}>${credit.name ?? credit.personId}<//></a>
          <ul class="plain">${credit.roles.map((role) => html`<li><${ShownRole} ...${role} /></li>`)}</ul>
        </div>
        ${mayEdit && html`<span class="buttons">
          <button type="button" class="quiet" aria-label=${TEXT.editItem(credit.name ?? credit.personId)} onClick=${() => setEdited(credit)}>${texts.common.edit}</button>
          <${RemoveButton} label=${TEXT.removeItem(credit.name ?? credit.personId)} question=${TEXT.removeQuestion(credit.name ?? credit.personId)} onRemoved=${list.reload} remove=${() => ask(api.DELETE(
            "/v1/videos/{videoId}/credits/{personId}",
            { params: { path: { videoId, personId: credit.personId }, header: { "If-Match": `"${credit.version}"` } } },
          ))} />
        </span>`}
      </li>`)}
    </ol>
    ${edited && html`<${CreditForm} videoId=${videoId} credit=${edited === "new" ? null : edited}
      next=${Math.max(0, ...credits.map(({ ordering }) => ordering)) + 1} onSaved=${saved} onClose=${() => setEdited(null)} />`}`;
}

/** @param {string} videoId @param {AbortSignal} signal */
async function allCredits(videoId, signal) {
  /** @type {Credit[]} */
  const credits = [];
  /** @type {string | undefined} */
  let cursor;
  do {
    const params = { path: { videoId }, query: { limit: 100, cursor } };
    const { data } = await ask(api.GET("/v1/videos/{videoId}/credits", { params, signal }));
    credits.push(...data.items);
    cursor = data.nextCursor ?? undefined;
  } while (cursor && credits.length < MAX_CREDITS);
  return credits.sort((one, other) => one.ordering - other.ordering);
}

/** @param {{ videoId: string, credit: Credit | null, next: number, onSaved: () => void, onClose: () => void }} props */
function CreditForm({ videoId, credit, next, onSaved, onClose }) {
  const [personId, setPersonId] = useState(credit?.personId ?? "");
  const [name, setName] = useState(credit?.name ?? "");
  const [ordering, setOrdering] = useState(String(credit?.ordering ?? next));
  const [roles, setRoles] = useState(() => toRoles(credit));
  const [problem, setProblem] = useState(/** @type {import("../core/api.js").Problem | null} */ (null));
  const path = { videoId, personId: personId.trim() };
  const take = (/** @type {Credit} */ theirs) => {
    setName(theirs.name ?? "");
    setOrdering(String(theirs.ordering));
    setRoles(toRoles(theirs));
  };
  const save = (/** @type {Record<string, string>} */ header) => ask(api.PUT("/v1/videos/{videoId}/credits/{personId}", {
    params: { path, header },
    body: {
      name: name || null,
      ordering: /** @type {number} */ (/^\d+$/.test(ordering.trim()) ? Number(ordering) : ordering), // the API validates it
      roles: roles.map(({ category, job, characters }) => ({ category, job: job || null, characters: lines(characters) })),
    },
  }));
  const fresh = async () => {
    const { data } = await ask(api.GET("/v1/videos/{videoId}/credits/{personId}", { params: { path } }));
    return { version: data.version, item: data };
  };
  const set = (/** @type {number} */ id, /** @type {Partial<Role>} */ part) =>
    setRoles(roles.map((role) => (role.id === id ? { ...role, ...part } : role)));
  return html`<${ItemForm} title=${credit ? TEXT.edit : TEXT.add} version=${credit?.version ?? null}
    save=${save} fresh=${fresh} take=${take} onError=${setProblem} onSaved=${onSaved} onClose=${onClose}>
    ${!credit && html`<${Field} label=${TEXT.person} value=${personId} onInput=${setPersonId} error=${parameterFault(problem, "personId")}
      hint=${TEXT.personHint} spellcheck=${false} autocomplete="off" required />`}
    <${Field} label=${TEXT.name} value=${name} onInput=${setName} error=${problem?.at("/name")} hint=${TEXT.nameHint} autocomplete="off" />
    <${Field} label=${TEXT.position} value=${ordering} onInput=${setOrdering} error=${problem?.at("/ordering")} hint=${TEXT.positionHint} inputmode="numeric" />
    ${roles.map((role, index) => html`<fieldset class="card" key=${role.id}>
      <legend>${TEXT.role(index + 1)}</legend>
      <${Field} label=${texts.fields.category} value=${role.category} error=${problem?.at(`/roles/${index}/category`)}
        onInput=${(/** @type {string} */ category) => set(role.id, { category })} hint=${TEXT.categoryHint} />
      <${Field} label=${TEXT.job} value=${role.job} error=${problem?.at(`/roles/${index}/job`)}
        onInput=${(/** @type {string} */ job) => set(role.id, { job })} hint=${TEXT.jobHint} />
      <${Field} label=${TEXT.characters} kind="textarea" rows="2" value=${role.characters} error=${listFault(problem, `/roles/${index}/characters`)}
        onInput=${(/** @type {string} */ characters) => set(role.id, { characters })} hint=${TEXT.charactersHint} />
      ${roles.length > 1 && html`<button type="button" onClick=${() => setRoles(roles.filter(({ id }) => id !== role.id))}>${TEXT.removeRole(index + 1)}</button>`}
    </fieldset>`)}
    ${problem?.at("/roles") && html`<p class="fault">${problem.at("/roles")}</p>`}
    <button type="button" onClick=${() => setRoles([...roles, empty()])}>${TEXT.addRole}</button>
  <//>`;
}

let last = 0;

/** @returns {Role} */
function empty() {
  return { id: ++last, category: "", job: "", characters: "" };
}

/** @param {Credit | null} credit @returns {Role[]} */
function toRoles(credit) {
  if (!credit) return [empty()];
  return credit.roles.map(({ category, job, characters }) => ({ id: ++last, category, job: job ?? "", characters: characters.join("\n") }));
}
