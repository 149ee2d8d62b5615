// All fields of a video, and for those that were read from the film who filled them in.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { isStored } from "../core/media.js";
import { hrefTo } from "../core/route.js";
import { count, duration, size, time } from "../core/words.js";
import { UserText, stateName } from "../design/parts.js";
import Edit from "./edit.js";
import Episodes from "./episodes.js";
import { INPUTS, LABELS, PROBED } from "./labels.js";
import { languageName } from "./names.js";

/**
 * @typedef {import("../screens/video.js").PartProps} PartProps
 * @typedef {import("../screens/video.js").Video} Video
 * @typedef {Omit<Video, "viewCount" | "updatedAt" | "schemaVersion"> & { viewCount?: number, updatedAt?: number }} Shown
 *   of an earlier version not all is kept
 */

/** Marks of values that do not come from the source file. */
const ORIGINS = { person: "edited", job: "", import: "imported" };

/** @param {PartProps} props */
export default function Overview({ video, etag, route, changed, isEdited, setEdited }) {
  const close = () => setEdited(false);
  if (isEdited) {
    return html`<h2>Edit</h2><${Edit} video=${video} etag=${etag} route=${route} onClose=${close}
      onSaved=${(/** @type {Video | undefined} */ after, /** @type {string | null} */ tag) => {
        changed(after, tag);
        close();
      }} />`;
  }
  return html`<${Known} video=${video} />
    <${Episodes} video=${video} />`;
}

/** All that a video says, as it is or as it was. @param {{ video: Shown }} props */
export function Known({ video }) {
  return html`<${About} video=${video} />
    <${SourceFile} video=${video} />
    <${Record} video=${video} />`;
}

/** What is shown above the film; the series with its season and episode. */
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
    <${Fact} label="Metadata" wide>${keys.length > 0 && html`<ul class="plain">
      ${keys.map(([key, value]) => html`<li key=${key}><${UserText} class="key">${key}<//>: <${UserText}>${
        typeof value === "boolean" ? (value ? "yes" : "no") : String(value)}<//></li>`)}</ul>`}<//>
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
    ${season !== undefined && html` season ${count(season)}`}${episode !== undefined && html` episode ${count(episode)}`}`;
}

/** @param {number | undefined} bytes */
const sizeOf = (bytes) => bytes !== undefined && ` ${size(bytes)}`;

/** @param {string | undefined} address */
const shown = (address) => address !== undefined && !isStored(address) && html` <code>${address}</code>`;

/** @param {{ video: Shown }} props */
function SourceFile({ video }) {
  const { source, failure, frameRate } = video;
  const renditions = Object.keys(video.resolutions ?? video.renditions ?? {});
  const read = {
    ...video,
    duration: video.duration !== undefined && duration(video.duration),
    fileSize: video.fileSize !== undefined && size(video.fileSize),
    frameRate: frameRate !== undefined && `${Number(frameRate.toFixed(3))} fps`,
  };
  const isKnown = source || failure || renditions.length > 0 || PROBED.some((name) => read[name] !== undefined && read[name] !== false);
  return html`<h3>Source file</h3>
    ${!isKnown && html`<p class="hint">No source file yet.</p>`}
    <dl class="fact-list">
      ${PROBED.map((name) => {
        const origin = video.origins?.[name];
        return html`<${Fact} key=${name} label=${LABELS[name]}>
          ${read[name] && html`<${UserText}>${read[name]}<//>${origin && ORIGINS[origin] && html` <small class=${`origin origin-${origin}`}>${ORIGINS[origin]}</small>`}`}<//>`;
      })}
      <${Fact} label="Upload">${source && html`<${UserText}>${source.contentType}<//>, ${size(source.fileSize)}, <${Time} at=${source.arrivedAt} />`}<//>
      <${Fact} label="Failure" wide>${failure && html`${failure.job}: <${UserText}>${failure.reason}<//> <small><${Time} at=${failure.at} /></small>`}<//>
    </dl>
    ${renditions.length > 0 && html`<h3>Renditions</h3>
      <ul class="plain">${renditions.map((name) => html`<li key=${name}><strong>${name}</strong>${sizeOf(video.renditions?.[name]?.size)}${shown(video.resolutions?.[name])}</li>`)}</ul>`}`;
}

/** @param {{ video: Shown }} props */
function Record({ video }) {
  return html`<h3>Record</h3>
    <dl class="fact-list">
      <${Fact} label="Owner"><${UserText}>${video.userId}<//><//>
      <${Fact} label="Views">${video.viewCount !== undefined && count(video.viewCount)}<//>
      <${Fact} label="Created"><${Time} at=${video.createdAt} /><//>
      <${Fact} label="Updated">${video.updatedAt !== undefined && html`<${Time} at=${video.updatedAt} /> `}<small>version ${count(video.version)}</small><//>
      <${Fact} label="ID"><code>${video.videoId}</code><//>
    </dl>`;
}

/** A field, if there is something in it.
 * @param {{ label: string, wide?: boolean, children?: import("../design/parts.js").Children }} props */
function Fact({ label, wide, children }) {
  const isThere = [children].flat().some((child) => child !== undefined && child !== null && child !== false && child !== "");
  return isThere ? html`<div class=${wide && "wide"}><dt>${label}</dt><dd>${children}</dd></div>` : null;
}

/** @param {{ at: number }} props seconds of the epoch */
function Time({ at }) {
  return html`<time datetime=${new Date(at * 1000).toISOString()}>${time(at)}</time>`;
}
