// Controls that select the videos of the library. Each change navigates to another URL.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { lookUp } from "../core/lookup.js";
import { useLoad } from "../core/load.js";
import { navigate } from "../core/route.js";
import { count } from "../core/formats.js";
import { Field, UserText, stateName } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { regionName } from "../video/names.js";
import { BY_TIME, KINDS, STATUSES, countFilters, filtersOf, hasOrders, sortOf, withKind, withOrder, withValue, withoutFilters } from "./filters.js";

const TEXT = texts.library.controls;

/**
 * @typedef {import("./filters.js").Choice} Choice
 * @typedef {import("./filters.js").Kind} Kind
 * @typedef {import("../core/session.js").User} User
 * @typedef {import("../core/api.js").Problem} Problem
 * @typedef {{ choice: Choice, problem: Problem | null }} Props
 */

/** Orders that omit videos without a value. @type {Record<string, string>} */
const OMITTED = TEXT.omitted;

/** Labels of the parameters that the service's errors name. @type {Record<string, string>} */
const NAMES = TEXT.parameters;

/** @param {Props & { user: User }} props */
export default function Controls({ choice, user, problem }) {
  const { kind } = choice;
  const kinds = Object.fromEntries(Object.entries(KINDS).filter(([name]) => name !== "status" || user.isAdmin || kind === "status"));
  const filters = filtersOf(choice, user);
  const set = countFilters(choice, user);
  const props = { choice, problem };
  return html`<form class="choice" role="search" aria-label=${TEXT.title} onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <div class="controls">
      <${Field} kind="select" label=${texts.common.show} value=${kind}
        onInput=${(/** @type {string} */ name) => navigate(withKind(choice, /** @type {Kind} */ (name)))}><${Options} of=${kinds} chosen=${kind} /><//>
      <${Selector} ...${props} />
      ${kind === "top"
        ? html`<${Select} ...${props} name="window" label=${texts.common.period} options=${TEXT.windows} usual="day" />
          <${Select} ...${props} name="sort" label=${texts.common.sortBy} options=${{ "-views": TEXT.mostViews, "-rise": TEXT.fastestRising, "-viewCount": TEXT.mostViewsEver }} usual="-views" />
          <${Entry} ...${props} name="category" label=${texts.fields.category} />`
        : html`<${Order} ...${props} />`}
    </div>
    ${filters.length > 0 && html`<details open=${set > 0}>
      <summary>${TEXT.filters}${set > 0 && html` <span class="number">${count(set)}<span class="visually-hidden">${TEXT.filtersSet}</span></span>`}</summary>
      <div class="controls">${filters.map((name) => html`<${Filter} key=${name} ...${props} name=${name} />`)}</div>
      ${set > 0 && html`<a class="button" href=${withoutFilters(choice)}>${texts.common.clearFilters}</a>`}
    </details>`}
  </form>`;
}

/** Input of the parameter that selects the list. @param {Props} props */
function Selector(props) {
  const { kind, values } = props.choice;
  switch (kind) {
    case "folder":
      return html`<${Entry} key="folder" ...${props} name="folder" label=${texts.fields.folder} />
        ${values.folder && html`<${Select} ...${props} name="subfolders" label=${texts.common.videos} options=${TEXT.levels} usual="false" />`}`;
    case "tag":
      return html`<${Tag} ...${props} />`;
    case "region":
      return html`<${Region} ...${props} />`;
    case "category":
      return html`<${Entry} key="category" ...${props} name="category" label=${texts.fields.category} />`;
    case "user":
      return html`<${Entry} key="userId" ...${props} name="userId" label=${texts.fields.userId} />`;
    case "status":
      return html`<${Status} ...${props} empty=${values.status ? null : TEXT.chooseOne} />`;
    default:
      return null;
  }
}

/** @param {Props & { name: string }} props */
function Filter({ name, ...props }) {
  switch (name) {
    case "userId":
      return html`<${Entry} ...${props} name=${name} label=${texts.fields.userId} hint=${TEXT.ownerHint} />`;
    case "category":
      return html`<${Entry} ...${props} name=${name} label=${texts.fields.category} />`;
    case "status":
      return html`<${Status} ...${props} empty=${TEXT.any} />`;
    case "releaseYear":
      return html`<${Entry} ...${props} name=${name} label=${texts.fields.releaseYear} inputmode="numeric" />`;
    case "format":
      return html`<${Entry} ...${props} name=${name} label=${texts.fields.format} hint=${TEXT.formatHint} />`;
    case "minDuration":
      return html`<${Entry} ...${props} ...${MINUTES} name=${name} label=${TEXT.minDuration} />`;
    case "maxDuration":
      return html`<${Entry} ...${props} ...${MINUTES} name=${name} label=${TEXT.maxDuration} />`;
    case "from":
      return html`<${Entry} ...${props} ...${DAY} name=${name} label=${TEXT.createdFrom} />`;
    default:
      return html`<${Entry} ...${props} ...${DAY} name=${name} label=${TEXT.createdBefore} />`;
  }
}

/** @typedef {{ kind: string, read: (value: string) => string, write: (entered: string) => string, [attribute: string]: unknown }} Converter */

/** Converts between minutes in the input and milliseconds of the API. @type {Converter} */
const MINUTES = {
  kind: "number", step: "any", inputmode: "decimal",
  read: (value) => (value && Number.isFinite(Number(value)) ? String(Number((Number(value) / 60000).toFixed(3))) : ""),
  write: (entered) => (entered === "" ? "" : String(Math.round(Number(entered) * 60000))),
};

/** Converts between a day in the input and the time of the API at which it starts in the browser's time zone.
 * @type {Converter} */
const DAY = {
  kind: "date",
  read: (value) => {
    const time = new Date(/^\d+$/.test(value) ? Number(value) * 1000 : value);
    if (Number.isNaN(time.getTime())) return "";
    const parts = [String(time.getFullYear()).padStart(4, "0"), time.getMonth() + 1, time.getDate()];
    return parts.map((part) => String(part).padStart(2, "0")).join("-");
  },
  write: (entered) => {
    const time = new Date(`${entered}T00:00`);
    return Number.isNaN(time.getTime()) ? "" : time.toISOString().replace(".000", "");
  },
};

/** @param {string} text */
const identity = (text) => text;

/** Text input of a parameter. It applies on change, that is, on Enter or when it loses the focus.
 * @param {Props & { name: string, label: string, hint?: string, read?: (value: string) => string, write?: (entered: string) => string,
 *   [attribute: string]: unknown }} props */
function Entry({ choice, problem, name, read = identity, write = identity, ...more }) {
  const value = choice.values[name] ?? "";
  const seen = useRef(value);
  const draft = useRef(/** @type {string | null} */ (null));
  const [, redraw] = useState({});
  if (seen.current !== value) { // not in an effect, which would discard text typed before it runs
    seen.current = value;
    draft.current = null;
  }
  const type = (/** @type {string} */ text) => {
    draft.current = text;
    redraw({});
  };
  const finish = (/** @type {Event} */ event) => {
    const wanted = write(/** @type {HTMLInputElement} */ (event.currentTarget).value.trim());
    if (wanted !== value) navigate(withValue(choice, name, wanted));
  };
  return html`<${Field} value=${draft.current ?? read(value)} onInput=${type} onChange=${finish} error=${problem?.on(name)?.replace(/`(\w+)`/g, (_, parameter) => lookUp(NAMES, parameter) ?? parameter)}
    autocomplete="off" spellcheck=${false} ...${more} />`;
}

/** @param {Props & { name: string, label: string, options: Record<string, string>, usual: string }} props */
function Select({ choice, problem, name, label, options, usual }) {
  const value = choice.values[name] ?? usual;
  return html`<${Field} kind="select" label=${label} value=${value} error=${problem?.on(name)}
    onInput=${(/** @type {string} */ wanted) => navigate(withValue(choice, name, wanted === usual ? "" : wanted))}>
    <${Options} of=${Object.hasOwn(options, value) ? options : { [value]: value, ...options }} chosen=${value} />
  <//>`;
}

/** Sort order: by time, and for lists of one owner or category also by other fields. @param {Props} props */
function Order({ choice, problem }) {
  const sort = sortOf(choice);
  const value = `${sort}-${choice.values.order ?? "desc"}`;
  const options = { "createdAt-desc": texts.common.newestFirst, "createdAt-asc": texts.common.oldestFirst, ...(hasOrders(choice) ? orders() : {}) };
  return html`<${Field} kind="select" label=${texts.common.sortBy} value=${value} error=${problem?.on("order") ?? problem?.on("sort")} hint=${OMITTED[sort]}
    onInput=${(/** @type {string} */ chosen) => navigate(withOrder(choice, chosen.split("-")[0] ?? BY_TIME, chosen.endsWith("asc")))}>
    <${Options} of=${Object.hasOwn(options, value) ? options : { [value]: value, ...options }} chosen=${value} />
  <//>`;
}

/** Return the sort orders other than by time. @returns {Record<string, string>} */
function orders() {
  return {
    "title-asc": TEXT.titleAscending, "title-desc": TEXT.titleDescending, "duration-desc": TEXT.longest, "duration-asc": TEXT.shortest,
    "rating-desc": TEXT.bestRated, "rating-asc": TEXT.worstRated, "viewCount-desc": TEXT.mostViewed, "viewCount-asc": TEXT.leastViewed,
  };
}

/** @param {Props & { empty: string | null }} props `empty`: label of no status; null if one is required */
function Status({ choice, problem, empty }) {
  const { status = "", tag, region } = choice.values;
  // The service has no index of deleted videos by tag or region.
  const names = STATUSES.filter((name) => name !== "deleted" || !(tag || region) || status === name);
  const options = Object.fromEntries(names.map((name) => [name, stateName(name)]));
  return html`<${Select} choice=${choice} problem=${problem} name="status" label=${texts.fields.status} usual=""
    options=${empty === null ? options : { "": empty, ...options }} />`;
}

/** @param {{ of: Record<string, string>, chosen: string }} props */
function Options({ of, chosen }) {
  return Object.entries(of).map(([value, text]) => html`<option key=${value} value=${value} selected=${value === chosen}>${text}</option>`);
}

/** @param {Props} props */
function Region(props) {
  const code = (props.choice.values.region ?? "").toUpperCase();
  const name = regionName(code);
  return html`<${Entry} ...${props} name="region" label=${TEXT.region} hint=${name !== code ? name : TEXT.regionHint} />`;
}

/** Input of a tag, with the tags in use to select from. @param {Props} props */
function Tag(props) {
  // Tags can also be typed, so an error of this request is not shown.
  const { value: tags } = useLoad(async (signal) => {
    const { data } = await ask(api.GET("/v1/tags", { params: { query: { limit: 100 } }, signal }));
    return data.items;
  }, []);
  const hint = tags && !tags.length ? TEXT.noTags : undefined;
  return html`<${Entry} ...${props} name="tag" label=${TEXT.tag} list="library-tags" hint=${hint} />
    <datalist id="library-tags">${tags?.map(({ tag }) => html`<option key=${tag} value=${tag}></option>`)}</datalist>
    ${!props.choice.values.tag && tags && tags.length > 0 && html`<ul class="tags" role="list" aria-label=${TEXT.tagsInUse}>
      ${tags.map(({ tag, count: number }) => html`<li key=${tag}>
        <a class="button" href=${withValue(props.choice, "tag", tag)}><${UserText}>${tag}<//> <span class="number">${count(number)}</span></a>
      </li>`)}
    </ul>`}`;
}
