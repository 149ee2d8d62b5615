// What entries and reports are about, by title.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { hrefTo } from "../core/route.js";
import { ShortId, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { entryOf, subjectName } from "./words.js";

/** @typedef {import("./requests.js").Subject} Of @typedef {Map<string, string>} Titles */

/** Videos that one request asks for. */
const MOST = 100;
/** Where on the video's page its parts are. @type {Record<string, string>} */
const TABS = { credit: "credits", release: "titles", captions: "captions", chapters: "captions" };

/** The titles of videos and playlists as they are now, as far as one may see them; each is asked for once, and again in
 * another `round`.
 * @param {Of[]} subjects @param {number} [round] @returns {Titles} */
export function useTitles(subjects, round = 0) {
  const [titles, setTitles] = useState(/** @type {Titles} */ (new Map()));
  const asked = useRef(/** @type {Set<string>} */ (new Set()));
  useEffect(() => asked.current.clear(), [round]);
  useEffect(() => {
    const fresh = (/** @type {(string | undefined)[]} */ ids) => [...new Set(ids)].filter((id) => id !== undefined && !asked.current.has(id));
    const videos = /** @type {string[]} */ (fresh(subjects.map(({ videoId }) => videoId)));
    const playlists = /** @type {string[]} */ (fresh(subjects.map(({ playlistId }) => playlistId)));
    for (const id of [...videos, ...playlists]) asked.current.add(id);
    const add = (/** @type {[string, string][]} */ some) => setTitles((before) => new Map([...before, ...some]));
    const failed = () => undefined; // without a title, the id is shown
    for (let start = 0; start < videos.length; start += MOST) {
      ask(api.POST("/v1/videos/batch-get", { body: { videoIds: videos.slice(start, start + MOST) } }))
        .then(({ data }) => add(data.items.map(({ videoId, title }) => [videoId, title])), failed);
    }
    for (const playlistId of playlists) {
      ask(api.GET("/v1/playlists/{playlistId}", { params: { path: { playlistId } } }))
        .then(({ data }) => add([[playlistId, data.title]]), failed);
    }
  }, [subjects, round]);
  return titles;
}

/** The videos that entries put into playlists, moved, or took out. @param {import("./requests.js").Entry[]} entries @returns {Of[]} */
export function withSubject(entries) {
  return entries.flatMap(({ changes }) => changes.map(({ field }) => ({ entity: /** @type {const} */ ("video"), videoId: entryOf(field) }))).filter(({ videoId }) => videoId);
}

/** A link to the video or playlist that it is about; what beside the video it is, unless that is said already.
 * @param {{ of: Of, titles: Titles, isSaid?: boolean }} props */
export function Subject({ of, titles, isSaid }) {
  const { entity, videoId, playlistId } = of;
  const id = videoId ?? playlistId ?? "";
  const title = titles.get(id);
  const place = playlistId ? hrefTo(["playlists", playlistId]) : hrefTo(["videos", id], { tab: TABS[entity] ?? "history" });
  return html`${!isSaid && entity !== "video" && html`${subjectName(of)} · `}<a class="subject" href=${place}>${title === undefined
    ? html`${(isSaid || entity === "video") && `${texts.history.entities[playlistId ? "playlist" : "video"]} `}<${ShortId} id=${id} />`
    : html`<${UserText}>${title}<//>`}</a>`;
}
