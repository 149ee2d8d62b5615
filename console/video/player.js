// The player, with captions, with chapters, and with pictures of the storyboard on its scrubber.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { isServed } from "../core/media.js";
import { hrefTo } from "../core/route.js";
import { time } from "../core/words.js";
import { Failure, Icon, Loading, Poster } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName } from "./names.js";
import { humanize } from "./sentences.js";
import { PlaybackSession, SOURCE } from "./playback.js";
import { putOnScrubber, useStoryboard } from "./storyboard.js";
import { Chapters, divide, prefer, Tracks, useCaptions } from "./tracks.js";

const TEXT = texts.video.player;

/**
 * @typedef {import("../screens/video.js").PartProps} PartProps
 * @typedef {import("./playback.js").Quality} Quality
 */

/** Where a tab keeps the name by which it counts as one viewer. */
const VIEWER = "viewer";
const RATE = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2];
/** Of what there is nothing, the same at each drawing. @type {never[]} */
const NONE = [];
/** Keys that the player would take as its own; an element says that it uses them itself. */
const KEYS = "ArrowUp ArrowDown ArrowLeft ArrowRight Space Enter Escape c f k m";

/** @param {PartProps} props */
export default function Player(props) {
  // Another film is another film, though the video is the same.
  return html`<${PlayerMedia} ...${props} key=${props.video.source?.uploadId} />`;
}

/** @param {PartProps} props */
function PlayerMedia({ video, isOwner, user, viewed, playing, textChanges, route }) {
  const [, draw] = useState({});
  const [element, setElement] = useState(/** @type {HTMLVideoElement | null} */ (null));
  const isOwn = video.userId === user.subject;
  const began = () => {
    if (!isOwn) count(video.videoId).then(viewed, () => undefined); // nobody watches worse for it
  };
  const [showing] = useState(() => new PlaybackSession(video.videoId, () => draw({}), began));
  const isDefined = useChrome();
  const made = Object.keys(video.resolutions ?? video.renditions ?? {}).join();
  const { poster } = video.thumbnails ?? {};
  useEffect(() => void showing.ask(), [video.status, video.visibility, video.expiresAt, video.publishAt, made, poster?.url, textChanges]);
  // Where a link leads, in seconds, and the language in which something is said there.
  const [start, said] = [Number(route.query.get("t")), route.query.get("captions")];
  useEffect(() => {
    if (said) prefer(said);
    if (start > 0) showing.seek(start);
  }, [start, said]);
  useEffect(() => {
    playing.current = showing;
    return () => {
      playing.current = null;
      showing.close();
    };
  }, []);

  const { playback, error, current, broken, qualities } = showing;
  const tiles = useStoryboard(playback?.storyboard?.url);
  useEffect(() => {
    if (element && tiles) putOnScrubber(element, tiles);
  }, [element, tiles]);
  const { captions = NONE, chapters = NONE, duration = 0 } = playback ?? {};
  const subtitles = useCaptions(video.videoId, captions, element);
  const divisions = JSON.stringify(chapters);
  useEffect(() => {
    if (element) divide(element, chapters, duration);
  }, [element, divisions, duration]);

  const attach = useRef((/** @type {HTMLVideoElement | null} */ shown) => {
    setElement(shown);
    showing.attach(shown);
  });
  const style = { aspectRatio: poster?.width && poster.height ? Math.min(2.4, Math.max(4 / 3, poster.width / poster.height)) : 16 / 9 };
  if (!isDefined || (!playback && !error)) {
    return html`<div class="player-place" style=${style}><${Poster} url=${poster?.url} /><${Loading} what=${TEXT.loading} /></div>`;
  }
  if (!playback) return html`<${Unplayable} error=${error} video=${video} isOwn=${isOwner} retry=${() => showing.again()} style=${style} />`;
  const playable = qualities.filter(({ name }) => !broken.has(name));
  return html`
    ${playable.length
      ? html`<media-controller class="player" style=${style} lang="en" ...${showing.wishes}>
          <video slot="media" playsinline preload="metadata" ref=${attach.current} ...${showing.handlers}>
            <${Tracks} captions=${captions} source=${subtitles.source} />
          </video>
          ${poster && isServed(poster.url) && html`<media-poster-image slot="poster" src=${poster.url}></media-poster-image>`}
          <media-loading-indicator slot="centered-chrome" noautohide></media-loading-indicator>
          <media-control-bar class="scrubber"><media-time-range></media-time-range></media-control-bar>
          <media-control-bar>
            <media-play-button></media-play-button>
            <media-seek-backward-button seekoffset="10"></media-seek-backward-button>
            <media-seek-forward-button seekoffset="10"></media-seek-forward-button>
            <media-mute-button></media-mute-button>
            <media-volume-range></media-volume-range>
            <media-time-display showduration notoggle></media-time-display>
            <span class="gap"></span>
            <${Speed} showing=${showing} />
            <${Language} captions=${captions} subtitles=${subtitles} />
            <${Choice} showing=${showing} />
            <media-pip-button></media-pip-button>
            <media-fullscreen-button></media-fullscreen-button>
          </media-control-bar>
        </media-controller>`
      : html`<div class="player-place" style=${style}>
          <${Poster} url=${poster?.url} />
          <div class="why" role="alert">
            <p><strong>${unusable(video) ? TEXT.unplayable : TEXT.unplayableHere}</strong> ${unplayable(video, qualities)}</p>
            ${!unusable(video) && html`<button type="button" onClick=${() => showing.again()}>${texts.common.tryAgain}</button>`}
          </div>
        </div>`}
    <p class="notice" role="status">${playable.length && current ? fellBack(qualities, broken, current) : ""}</p>
    <${Failure} error=${error} retry=${() => showing.again()} />
    <${Failure} error=${subtitles.error} retry=${subtitles.reload} />
    ${playable.length > 0 && html`<${Chapters} chapters=${chapters} showing=${showing} element=${element} />`}
    ${playback.whyHidden && video.status === "ready" && html`<p class="notice">${TEXT.onlyYou} ${hidden(video, playback.whyHidden)}</p>`}`;
}

/** How fast it plays: the component's own button is called otherwise than it reads. @param {{ showing: PlaybackSession }} props */
function Speed({ showing }) {
  const choose = (/** @type {Event} */ event) => showing.hurry(Number(/** @type {HTMLSelectElement} */ (event.currentTarget).value));
  return html`<${PlayerChoice} class="speed" icon="gauge" label=${TEXT.speed} value=${showing.speed} onChange=${choose}>
    ${SPEEDS.map((speed) => html`<option value=${speed}>${speed}×</option>`)}
  <//>`;
}

/** The choice among the languages of the captions.
 * @param {{ captions: import("./playback.js").Playback["captions"], subtitles: ReturnType<typeof useCaptions> }} props */
function Language({ captions, subtitles: { shown, choose } }) {
  if (!captions.length) return null;
  const chosen = (/** @type {Event} */ event) => choose(/** @type {HTMLSelectElement} */ (event.currentTarget).value);
  return html`<${PlayerChoice} icon="captions" label=${texts.video.captions.title} value=${shown} onChange=${chosen}>
    <option value="">${TEXT.captionsOff}</option>
    ${captions.map(({ language }) => html`<option value=${language}>${languageName(language)}</option>`)}
  <//>`;
}

/** The choice among a film's qualities. @param {{ showing: PlaybackSession }} props */
function Choice({ showing }) {
  const { qualities, current, broken } = showing;
  const choose = (/** @type {Event} */ event) => showing.choose(/** @type {HTMLSelectElement} */ (event.currentTarget).value);
  return html`<${PlayerChoice} icon="film" label=${TEXT.qualityChoice} value=${current?.name} onChange=${choose}>
    ${qualities.map((quality) => html`<option value=${quality.name} disabled=${broken.has(quality.name)}>${label(quality)}</option>`)}
  <//>`;
}

/** A choice in the control bar. On a phone its icon is shown instead of the selected option.
 * @param {{ icon: import("../design/icons.js").IconName, label: string, class?: string, value?: string | number, onChange: (event: Event) => void,
 *   children?: import("../design/parts.js").Children }} props */
function PlayerChoice({ icon, label: name, class: kind = "", children, ...more }) {
  return html`<span class=${`player-choice ${kind}`}><${Icon} name=${icon} /><select aria-label=${name} keysused=${KEYS} ...${more}>${children}</select></span>`;
}

/** Why there is no player.
 * @param {{ error: unknown, video: import("../screens/video.js").Video, isOwn: boolean, retry: () => void, style: object }} props */
function Unplayable({ error, video, isOwn, retry, style }) {
  const isExpected = error instanceof Problem && error.status === 409;
  return html`<div class="player-place" style=${style}>
    <${Poster} url=${video.thumbnails?.poster?.url} />
    ${isExpected
      ? html`<div class="why">
          <p>${humanize(error.message)}</p>
          ${isOwn && !video.source && video.status !== "deleted" && html`<a class="button primary" href=${hrefTo(["upload"], { video: video.videoId })}>${TEXT.uploadFile}</a>`}
        </div>`
      : html`<div class="why"><${Failure} error=${error} retry=${retry} /></div>`}
  </div>`;
}

/** Whether the elements of media-chrome are defined; they are loaded when the first film is shown. */
function useChrome() {
  const [isDefined, setDefined] = useState(Boolean(customElements.get("media-controller")));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  useEffect(() => {
    if (!isDefined) import("media-chrome").then(() => setDefined(true), setError);
  }, []);
  if (error) throw error; // the screen says so
  return isDefined;
}

/** Count one view of this tab's; resolves to the new count. @param {string} videoId */
async function count(videoId) {
  const viewerId = sessionStorage.getItem(VIEWER) ?? crypto.randomUUID();
  sessionStorage.setItem(VIEWER, viewerId);
  const { data } = await ask(api.POST("/v1/videos/{videoId}/views", { params: { path: { videoId } }, body: { viewerId } }));
  return data.viewCount;
}

/** Such as `720p, 2.5 Mbit/s` or `240p, 440 kbit/s`. @param {Quality} quality */
function label({ name, bitRate }) {
  const shown = name === SOURCE ? TEXT.original : name;
  if (!bitRate) return shown;
  return bitRate < 1e6 ? TEXT.slowQuality(shown, RATE.format(bitRate / 1e3)) : TEXT.quality(shown, RATE.format(bitRate / 1e6));
}

/** Why the service cannot use the film, whatever browser plays it: undefined if it can, or does not know yet.
 * @param {import("../screens/video.js").Video} video */
function unusable({ status, failure }) {
  return status === "failed" && failure?.job === "probe" ? failure.reason : undefined;
}

/** Why nothing plays, as far as is known. @param {import("../screens/video.js").Video} video @param {Quality[]} qualities */
export function unplayable(video, qualities) {
  const reason = unusable(video);
  if (reason) return reason;
  const types = [...new Set(qualities.map(({ type }) => type))].join(", ");
  return (video.status === "processing" ? TEXT.unsupportedYet : TEXT.unsupported)(types);
}

/** What does not play, if something else does instead. @param {Quality[]} qualities @param {Set<string>} broken @param {Quality} current */
function fellBack(qualities, broken, current) {
  const failed = qualities.filter(({ name }) => broken.has(name)).map(label);
  return failed.length ? TEXT.fellBack(failed.join(TEXT.and), label(current)) : "";
}

/** @param {import("../screens/video.js").Video} video @param {string} why */
function hidden({ publishAt, visibility }, why) {
  return visibility === "public" && publishAt && publishAt > Date.now() / 1000 ? TEXT.scheduled(time(publishAt)) : humanize(why);
}
