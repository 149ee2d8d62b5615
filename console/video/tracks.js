// What a film says and how it is divided: its captions over the picture, and its chapters on the scrubber and in a list.

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { formatClock } from "../core/words.js";
import { UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName } from "./names.js";

const TEXT = texts.video.chapters;

/**
 * @typedef {import("./playback.js").Playback} Playback
 * @typedef {import("./playback.js").PlaybackSession} Showing
 * @typedef {Playback["chapters"][number]} Chapter Its start is in milliseconds.
 */

const CHAPTERS = "chapters";

/** The language that somebody chose last, for all films of this visit; "" is none. */
let preferred = "";

/** The captions of a player: one track for each language, of which the one that is shown gets its text.
 *
 * The text is asked of the API and handed to the track as a blob. A track with an address of the media bucket would be fetched
 * by the rules of the film, so the film would have to be asked for with CORS too.
 * @param {string} videoId
 * @param {Playback["captions"]} captions
 * @param {HTMLVideoElement | null} element null while there is none */
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
    if (preferred) show(element, preferred);
    return () => events.forEach((event) => textTracks.removeEventListener(event, follow));
  }, [element, languages]);

  // A text never changes: another one has another address, but for its signature.
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

/** Show captions in this language, in every film that is opened from now on. @param {string} language */
export function prefer(language) {
  preferred = language;
}

/** The tracks of a film's captions.
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

/** Give the chapters to the player, which divides its scrubber by them and names them there.
 * @param {HTMLVideoElement} element @param {Chapter[]} chapters @param {number} end of the film, in milliseconds */
export function divide(element, chapters, end) {
  const known = [...element.textTracks].find(({ kind }) => kind === CHAPTERS);
  if (!known && !chapters.length) return;
  const track = known ?? element.addTextTrack(CHAPTERS, TEXT.title);
  track.mode = "hidden"; // which means read, but not drawn
  for (const cue of [...(track.cues ?? [])]) track.removeCue(cue);
  for (const [index, { start, title }] of chapters.entries()) {
    const until = chapters[index + 1]?.start ?? Math.max(end, start + 1);
    track.addCue(new VTTCue(start / 1000, until / 1000, escaped(title)));
  }
  track.mode = "disabled"; // the player looks for chapters whenever the mode of a track changes
  track.mode = "hidden";
}

/** As the text of a cue, which has tags. @param {string} title */
export function escaped(title) {
  return title.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The chapters of a film, each a way there. @param {{ chapters: Chapter[], showing: Showing, element: HTMLVideoElement | null }} props */
export function Chapters({ chapters, showing, element }) {
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
      <button type="button" class="quiet" aria-current=${index === at ? "true" : undefined} onClick=${() => showing.seek(start / 1000)}>
        <span class="start">${formatClock(start)}</span> <${UserText}>${title}<//>
      </button>
    </li>`)}</ol>
  </details>`;
}
