// All fields of a video in groups, with a mark for the origin of fields that the service reads from the file.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { isStored } from "../core/media.js";
import { hrefTo } from "../core/route.js";
import { lookUp } from "../core/lookup.js";
import { asSentence, count, duration, size, time } from "../core/formats.js";
import { Icon, UserText, stateName } from "../design/parts.js";
import { texts } from "../texts/index.js";
import Episodes from "./episodes.js";
import { INPUTS, PROBED } from "./schema.js";
import { LABELS, languageName, nameOf } from "./names.js";

const TEXT = texts.video.overview;

/**
 * @typedef {import("../screens/video.js").PartProps} PartProps
 * @typedef {import("../screens/video.js").Video} Video
 * @typedef {Omit<Video, "viewCount" | "updatedAt" | "schemaVersion"> & { viewCount?: number, updatedAt?: number }} Shown
 *   Past versions lack some fields.
 */

/** Marks of values by their origin. @type {Record<string, [import("../design/icons.js").IconName, string]>} */
const ORIGINS = { person: ["pencil", TEXT.edited], job: ["film", TEXT.readFromFile], import: ["download", TEXT.imported] };

/** @param {PartProps} props */
export default function Overview({ video }) {
  return html`<${VideoFields} video=${video} />
    <${Episodes} video=${video} />`;
}

/** All fields of a current or past version of a video, in groups. @param {{ video: Shown }} props */
export function VideoFields({ video }) {
  return html`<div class="fact-groups">
    <section class="surface wide"><h3>${texts.video.tabs.details}</h3><${About} video=${video} /></section>
    <section class="surface"><h3>${texts.fields.source}</h3><${SourceFile} video=${video} /></section>
    <section class="surface"><h3>${texts.fields.resolutions}</h3><${Renditions} video=${video} /></section>
  </div>`;
}

/** Fields of the first group. Omits those shown at the top of the page; the series includes its season and episode. */
const ABOUT = [...Object.keys(INPUTS).filter((name) => !["title", "description", "season", "episode"].includes(name)), "purgeAt"];

/** @param {{ video: Shown }} props */
function About({ video }) {
  const { tags = [], category, language, metadata } = video;
  const keys = Object.entries(metadata);
  const values = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (video));
  const special = /** @type {Record<string, unknown>} */ ({
    category: category && html`<a href=${hrefTo([], { category })}><${UserText}>${category}<//></a>`,
    tags: tags.length > 0 && html`<ul class="chips">
      ${tags.map((tag) => html`<li key=${tag}><a href=${hrefTo([], { tag })}><${UserText}>${tag}<//></a></li>`)}</ul>`,
    language: language && html`${languageName(language)} <small>${language}</small>`,
    seriesId: video.seriesId && html`<${Series} video=${video} />`,
  });
  const valueOf = (/** @type {string} */ name) => {
    const value = values[name];
    if (name in special) return special[name];
    if (value === undefined) return undefined;
    return INPUTS[name] === "time" || name === "purgeAt" ? html`<${Time} at=${value} />` : name === "visibility" ? stateName(String(value)) : html`<${UserText}>${value}<//>`;
  };
  return html`<dl class="fact-list">
    ${ABOUT.map((name) => html`<${Fact} key=${name} label=${LABELS[name]}>${valueOf(name)}<//>`)}
    <${Fact} label=${texts.fields.metadata} wide>${keys.length > 0 && html`<ul class="plain">
      ${keys.map(([key, value]) => html`<li key=${key}><${UserText} class="key">${key}<//>: <${UserText}>${
        typeof value === "boolean" ? (value ? texts.common.yes : texts.common.no) : String(value)}<//></li>`)}</ul>`}<//>
    <${Fact} label=${texts.fields.userId}><${UserText}>${video.userId}<//><//>
    <${Fact} label=${texts.fields.viewCount}>${video.viewCount !== undefined && count(video.viewCount)}<//>
    <${Fact} label=${texts.fields.createdAt}><${Time} at=${video.createdAt} /><//>
    <${Fact} label=${texts.fields.updatedAt}>${video.updatedAt !== undefined && html`<${Time} at=${video.updatedAt} /> `}<small>${TEXT.version(video.version)}</small><//>
    <${Fact} label=${texts.fields.videoId} wide><code>${video.videoId}</code><//>
  </dl>`;
}

/** @param {{ video: Shown }} props */
function Series({ video: { seriesId, season, episode } }) {
  const series = useLoad(async (signal) => {
    if (!seriesId) return null;
    const call = api.GET("/v1/videos/{videoId}", { params: { path: { videoId: seriesId }, query: { fields: ["title"] } }, signal });
    return (await ask(call)).data.title ?? null;
  }, [seriesId]);
  if (!seriesId) return null;
  return html`<a href=${hrefTo(["videos", seriesId])}><${UserText}>${series.value ?? seriesId}<//></a>
    ${season !== undefined && ` ${TEXT.season(season)}`}${episode !== undefined && ` ${TEXT.episode(episode)}`}`;
}

/** @param {{ video: Shown }} props */
function SourceFile({ video }) {
  const { source, failure, frameRate } = video;
  const read = {
    ...video,
    duration: video.duration !== undefined && duration(video.duration),
    fileSize: video.fileSize !== undefined && size(video.fileSize),
    frameRate: frameRate !== undefined && TEXT.framesPerSecond(Number(frameRate.toFixed(3))),
  };
  const isKnown = source || failure || PROBED.some((name) => read[name] !== undefined && read[name] !== false);
  if (!isKnown) return html`<p class="hint">${TEXT.noSource}</p>`;
  return html`<dl class="fact-list">
    ${PROBED.map((name) => html`<${Fact} key=${name} label=${LABELS[name]}>
      ${read[name] && html`<${UserText}>${read[name]}<//><${Origin} name=${video.origins?.[name]} />`}<//>`)}
    <${Fact} label=${TEXT.upload}>${source && html`<${UserText}>${source.contentType}<//>, ${size(source.fileSize)}, <${Time} at=${source.arrivedAt} />`}<//>
    <${Fact} label=${texts.fields.failure}>${failure && html`${nameOf(failure.job)}: <${UserText}>${failure.reason}<//> <small><${Time} at=${failure.at} /></small>`}<//>
  </dl>`;
}

/** Icon of a value's origin, with a tooltip. @param {{ name?: string }} props */
function Origin({ name }) {
  const [icon, text] = lookUp(ORIGINS, name ?? "") ?? [];
  return icon && html` <span class="origin" title=${asSentence(text ?? "").slice(0, -1)}><${Icon} name=${icon} /><span class="visually-hidden">${text}</span></span>`;
}

/** Renditions by name, with their size. For files outside the service's storage, the host is shown.
 * @param {{ video: Shown }} props */
function Renditions({ video }) {
  const names = Object.keys(video.resolutions ?? video.renditions ?? {});
  if (!names.length) return html`<p class="hint">${TEXT.noRenditions}</p>`;
  return html`<dl class="fact-list">${names.map((name) => {
    const bytes = video.renditions?.[name]?.size;
    return html`<div key=${name}><dt>${name}</dt><dd>${bytes === undefined ? TEXT.available : size(bytes)} <${UserText} class="hint">${hostOf(video.resolutions?.[name])}<//></dd></div>`;
  })}</dl>`;
}

/** Return the host of a file outside the service's storage; empty for a stored file. @param {string | undefined} address */
function hostOf(address) {
  return address === undefined || isStored(address) || !URL.canParse(address) ? "" : new URL(address).host;
}

/** Label and value of a field; nothing if the value is empty.
 * @param {{ label: string, wide?: boolean, children?: import("../design/parts.js").Children }} props */
function Fact({ label, wide, children }) {
  const isThere = [children].flat().some((child) => child !== undefined && child !== null && child !== false && child !== "");
  return isThere ? html`<div class=${wide && "wide"}><dt>${label}</dt><dd>${children}</dd></div>` : null;
}

/** @param {{ at: number }} props seconds of the epoch */
function Time({ at }) {
  return html`<time datetime=${new Date(at * 1000).toISOString()}>${time(at)}</time>`;
}
