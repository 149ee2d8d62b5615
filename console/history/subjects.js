// Subjects of entries and reports, with their titles.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { hrefTo } from "../core/route.js";
import { ShortId, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { entryOf, subjectName } from "./labels.js";

/** @typedef {import("./requests.js").Subject} Reference @typedef {Map<string, string>} Titles */

/** Videos per request. */
const BATCH_SIZE = 100;
/** Tabs of the video's page, by entity. @type {Record<string, string>} */
const TABS = { credit: "credits", release: "titles", captions: "captions", chapters: "captions" };

/** Load the current titles of the videos and playlists that the user may read. Each is requested once per `round`.
 * @param {Reference[]} subjects @param {number} [round] @returns {Titles} */
export function useTitles(subjects, round = 0) {
  const [titles, setTitles] = useState(/** @type {Titles} */ (new Map()));
  const requested = useRef(/** @type {Set<string>} */ (new Set()));
  useEffect(() => requested.current.clear(), [round]);
  useEffect(() => {
    const fresh = (/** @type {(string | undefined)[]} */ ids) => [...new Set(ids)].filter((id) => id !== undefined && !requested.current.has(id));
    const videos = /** @type {string[]} */ (fresh(subjects.map(({ videoId }) => videoId)));
    const playlists = /** @type {string[]} */ (fresh(subjects.map(({ playlistId }) => playlistId)));
    for (const id of [...videos, ...playlists]) requested.current.add(id);
    const add = (/** @type {[string, string][]} */ some) => setTitles((before) => new Map([...before, ...some]));
    const failed = () => undefined; // without a title, the id is shown
    for (let start = 0; start < videos.length; start += BATCH_SIZE) {
      ask(api.POST("/v1/videos/batch-get", { body: { videoIds: videos.slice(start, start + BATCH_SIZE) } }))
        .then(({ data }) => add(data.items.map(({ videoId, title }) => [videoId, title])), failed);
    }
    for (const playlistId of playlists) {
      ask(api.GET("/v1/playlists/{playlistId}", { params: { path: { playlistId } } }))
        .then(({ data }) => add([[playlistId, data.title]]), failed);
    }
  }, [subjects, round]);
  return titles;
}

/** Return the videos that entries of playlists added, moved or removed.
 * @param {import("./requests.js").Entry[]} entries @returns {Reference[]} */
export function withSubject(entries) {
  return entries.flatMap(({ changes }) => changes.map(({ field }) => ({ entity: /** @type {const} */ ("video"), videoId: entryOf(field) }))).filter(({ videoId }) => videoId);
}

/** Link to the video or playlist of a change. Without `isEntityKnown`, preceded by the entity, such as a credit.
 * @param {{ of: Reference, titles: Titles, isEntityKnown?: boolean }} props */
export function Subject({ of, titles, isEntityKnown }) {
  const { entity, videoId, playlistId } = of;
  const id = videoId ?? playlistId ?? "";
  const title = titles.get(id);
  const place = playlistId ? hrefTo(["playlists", playlistId]) : hrefTo(["videos", id], { tab: TABS[entity] ?? "history" });
  return html`${!isEntityKnown && entity !== "video" && html`${subjectName(of)} · `}<a class="subject" href=${place}>${title === undefined
    ? html`${(isEntityKnown || entity === "video") && `${texts.history.entities[playlistId ? "playlist" : "video"]} `}<${ShortId} id=${id} />`
    : html`<${UserText}>${title}<//>`}</a>`;
}
