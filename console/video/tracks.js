// Captions of the player, and chapters on its scrubber and in a list.

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { formatClock } from "../core/formats.js";
import { UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName } from "./names.js";

const TEXT = texts.video.chapters;

/**
 * @typedef {import("./playback.js").Playback} Playback
 * @typedef {import("./playback.js").PlaybackSession} Session
 * @typedef {Playback["chapters"][number]} Chapter `start` is in milliseconds.
 */

const CHAPTERS = "chapters";

/** Last captions language that the user selected, for all videos until the page is reloaded; empty for none. */
let preferred = "";

/** State of a player's captions. Each language has a track, and only the shown one loads its text.
 *
 * The text comes from the API, and the track gets it as a blob. A track is fetched in the CORS mode of its video, so a URL of the
 * media bucket would require CORS for the video.
 * @param {string} videoId
 * @param {Playback["captions"]} captions
 * @param {HTMLVideoElement | null} element null until it is rendered */
export function useCaptions(videoId, captions, element) {
  const [shown, setShown] = useState("");
  const [source, setSource] = useState(/** @type {{ language: string, url: string } | null} */ (null));
  const languages = captions.map(({ language }) => language).join();
  useEffect(() => {
    if (!element) return;
    const follow = () => setShown(tracksOf(element).find(({ mode }) => mode === "showing")?.language ?? "");
    const { textTracks } = element;
    const events = ["change", "addtrack", "removetrack"];
    for (const event of events) textTracks.addEventListener(event, follow);
    follow(); // the user may have selected captions before
    if (preferred) show(element, preferred);
    return () => events.forEach((event) => textTracks.removeEventListener(event, follow));
  }, [element, languages]);

  // The URL without its signature identifies the text, because changed captions get a new URL.
  const text = captions.find(({ language }) => language === shown)?.url.split("?")[0];
  const { value, error, reload } = useLoad(async (signal) => {
    if (!text) return null;
    const params = { path: { videoId, language: shown } };
    const { data } = await ask(api.GET("/v1/videos/{videoId}/captions/{language}", { params, parseAs: "text", signal }));
    return { language: shown, content: data };
  }, [text]);
  useEffect(() => {
    const url = value && URL.createObjectURL(new Blob([value.content], { type: "text/vtt" }));
    setSource(value && url ? { language: value.language, url } : null);
    return () => void (url && URL.revokeObjectURL(url));
  }, [value]);
  const choose = (/** @type {string} */ language) => {
    preferred = language;
    if (element) show(element, language);
  };
  return { shown, source, choose, error, reload };
}

/** Set the captions language for videos that are opened later. @param {string} language */
export function setPreferredLanguage(language) {
  preferred = language;
}

/** Track elements of the captions.
 * @param {{ captions: Playback["captions"], source: { language: string, url: string } | null }} props */
export function Tracks({ captions, source }) {
  return captions.map(({ language }) => html`<track key=${language} kind="subtitles" srclang=${language} label=${languageName(language)}
    src=${source?.language === language ? source.url : undefined} />`);
}

/** @param {HTMLVideoElement} element */
function tracksOf({ textTracks }) {
  return [...textTracks].filter(({ kind }) => kind === "subtitles");
}

/** @param {HTMLVideoElement} element @param {string} wanted */
function show(element, wanted) {
  for (const track of tracksOf(element)) {
    const mode = track.language === wanted ? "showing" : "disabled";
    if (track.mode !== mode) track.mode = mode;
  }
}

/** Add the chapters to the player, which divides its scrubber by them and shows their titles.
 * @param {HTMLVideoElement} element @param {Chapter[]} chapters @param {number} end of the video, in milliseconds */
export function addChapters(element, chapters, end) {
  const known = [...element.textTracks].find(({ kind }) => kind === CHAPTERS);
  if (!known && !chapters.length) return;
  const track = known ?? element.addTextTrack(CHAPTERS, TEXT.title);
  track.mode = "hidden"; // loaded, but not rendered
  for (const cue of [...(track.cues ?? [])]) track.removeCue(cue);
  for (const [index, { start, title }] of chapters.entries()) {
    const until = chapters[index + 1]?.start ?? Math.max(end, start + 1);
    track.addCue(new VTTCue(start / 1000, until / 1000, escaped(title)));
  }
  track.mode = "disabled"; // the player reads chapters when the mode of a track changes
  track.mode = "hidden";
}

/** Escape a title for the text of a cue, which may contain tags. @param {string} title */
export function escaped(title) {
  return title.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** List of chapters. A click plays from the chapter's start.
 * @param {{ chapters: Chapter[], session: Session, element: HTMLVideoElement | null }} props */
export function Chapters({ chapters, session, element }) {
  const [at, setAt] = useState(-1);
  useEffect(() => {
    if (!element) return;
    const follow = () => setAt(chapters.findLastIndex(({ start }) => start <= element.currentTime * 1000));
    const events = ["timeupdate", "seeking", "loadedmetadata"];
    for (const event of events) element.addEventListener(event, follow);
    follow();
    return () => events.forEach((event) => element.removeEventListener(event, follow));
  }, [element, chapters]);
  if (!chapters.length) return null;
  return html`<details class="folded chapters" open>
    <summary>${TEXT.number(chapters.length)}</summary>
    <ol>${chapters.map(({ start, title }, index) => html`<li key=${start}>
      <button type="button" class="quiet" aria-current=${index === at ? "true" : undefined} onClick=${() => session.seek(start / 1000)}>
        <span class="start">${formatClock(start)}</span> <${UserText}>${title}<//>
      </button>
    </li>`)}</ol>
  </details>`;
}
