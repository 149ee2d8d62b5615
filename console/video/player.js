// Player with captions, chapters, and storyboard thumbnails on its scrubber.

import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { isServed } from "../core/media.js";
import { hrefTo } from "../core/route.js";
import { time } from "../core/formats.js";
import { Failure, Icon, Loading, Poster } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { languageName } from "./names.js";
import { humanize } from "./sentences.js";
import { PlaybackSession, SOURCE } from "./playback.js";
import { addThumbnails, useStoryboard } from "./storyboard.js";
import { Chapters, addChapters, setPreferredLanguage, Tracks, useCaptions } from "./tracks.js";

const TEXT = texts.video.player;

/**
 * @typedef {import("../screens/video.js").PartProps} PartProps
 * @typedef {import("./playback.js").Quality} Quality
 */

/** Key in sessionStorage of the tab's random viewer id. */
const VIEWER = "viewer";
const RATE = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2];
/** Empty list, the same object in each render. @type {never[]} */
const NONE = [];
/** Keyboard shortcuts of the player that the select elements handle themselves. */
const KEYS = "ArrowUp ArrowDown ArrowLeft ArrowRight Space Enter Escape c f k m";

/** @param {PartProps} props */
export default function Player(props) {
  // A replaced source file needs a new player.
  return html`<${PlayerMedia} ...${props} key=${props.video.source?.uploadId} />`;
}

/** @param {PartProps} props */
function PlayerMedia({ video, isOwner, user, viewed, playing, textChanges, route }) {
  const [, draw] = useState({});
  const [element, setElement] = useState(/** @type {HTMLVideoElement | null} */ (null));
  const isOwn = video.userId === user.subject;
  const began = () => {
    if (!isOwn) count(video.videoId).then(viewed, () => undefined); // a failed count does not affect the playback
  };
  const [session] = useState(() => new PlaybackSession(video.videoId, () => draw({}), began));
  const isDefined = useMediaChrome();
  const made = Object.keys(video.resolutions ?? video.renditions ?? {}).join();
  const { poster } = video.thumbnails ?? {};
  useEffect(() => void session.load(), [video.status, video.visibility, video.expiresAt, video.publishAt, made, poster?.url, textChanges]);
  // Position of a link in seconds, and the language of its caption line.
  const [start, said] = [Number(route.query.get("t")), route.query.get("captions")];
  useEffect(() => {
    if (said) setPreferredLanguage(said);
    if (start > 0) session.seek(start);
  }, [start, said]);
  useLayoutEffect(() => {
    playing.current = session;
    return () => {
      playing.current = null;
      session.close();
    };
  }, []);

  const { playback, error, current, broken, qualities } = session;
  const tiles = useStoryboard(playback?.storyboard?.url);
  useEffect(() => {
    if (element && tiles) addThumbnails(element, tiles);
  }, [element, tiles]);
  const { captions = NONE, chapters = NONE, duration = 0 } = playback ?? {};
  const subtitles = useCaptions(video.videoId, captions, element);
  const divisions = JSON.stringify(chapters);
  useEffect(() => {
    if (element) addChapters(element, chapters, duration);
  }, [element, divisions, duration]);

  const attach = useRef((/** @type {HTMLVideoElement | null} */ shown) => {
    setElement(shown);
    session.attach(shown);
  });
  const style = { aspectRatio: poster?.width && poster.height ? Math.min(2.4, Math.max(4 / 3, poster.width / poster.height)) : 16 / 9 };
  if (!isDefined || (!playback && !error)) {
    return html`<div class="player-place" style=${style}><${Poster} url=${poster?.url} /><${Loading} what=${TEXT.loading} /></div>`;
  }
  if (!playback) return html`<${Unplayable} error=${error} video=${video} isOwn=${isOwner} retry=${() => session.retry()} style=${style} />`;
  const playable = qualities.filter(({ name }) => !broken.has(name));
  return html`
    ${playable.length
      ? html`<media-controller class="player" style=${style} lang="en" ...${session.requestHandlers}>
          <video slot="media" playsinline preload="metadata" ref=${attach.current} ...${session.handlers}>
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
            <${Speed} session=${session} />
            <${Language} captions=${captions} subtitles=${subtitles} />
            <${Choice} session=${session} />
            <media-pip-button></media-pip-button>
            <media-fullscreen-button></media-fullscreen-button>
          </media-control-bar>
        </media-controller>`
      : html`<div class="player-place" style=${style}>
          <${Poster} url=${poster?.url} />
          <div class="why" role="alert">
            <p><strong>${sourceFault(video) ? TEXT.unplayable : TEXT.unplayableHere}</strong> ${unplayableReason(video, qualities)}</p>
            ${!sourceFault(video) && html`<button type="button" onClick=${() => session.retry()}>${texts.common.tryAgain}</button>`}
          </div>
        </div>`}
    <p class="notice" role="status">${playable.length && current ? fallbackNotice(qualities, broken, current) : ""}</p>
    <${Failure} error=${error} retry=${() => session.retry()} />
    <${Failure} error=${subtitles.error} retry=${subtitles.reload} />
    ${playable.length > 0 && html`<${Chapters} chapters=${chapters} session=${session} element=${element} />`}
    ${playback.whyHidden && video.status === "ready" && html`<p class="notice">${TEXT.onlyYou} ${hiddenReason(video, playback.whyHidden)}</p>`}`;
}

/** Selection of the playback speed. The accessible name of media-chrome's own button differs from its visible text.
 * @param {{ session: PlaybackSession }} props */
function Speed({ session }) {
  const choose = (/** @type {Event} */ event) => session.setSpeed(Number(/** @type {HTMLSelectElement} */ (event.currentTarget).value));
  return html`<${PlayerChoice} class="speed" icon="gauge" label=${TEXT.speed} value=${session.speed} onChange=${choose}>
    ${SPEEDS.map((speed) => html`<option value=${speed}>${speed}×</option>`)}
  <//>`;
}

/** Selection of the captions' language.
 * @param {{ captions: import("./playback.js").Playback["captions"], subtitles: ReturnType<typeof useCaptions> }} props */
function Language({ captions, subtitles: { shown, choose } }) {
  if (!captions.length) return null;
  const chosen = (/** @type {Event} */ event) => choose(/** @type {HTMLSelectElement} */ (event.currentTarget).value);
  return html`<${PlayerChoice} icon="captions" label=${texts.video.captions.title} value=${shown} onChange=${chosen}>
    <option value="">${TEXT.captionsOff}</option>
    ${captions.map(({ language }) => html`<option value=${language}>${languageName(language)}</option>`)}
  <//>`;
}

/** Selection of the quality. @param {{ session: PlaybackSession }} props */
function Choice({ session }) {
  const { qualities, current, broken } = session;
  const choose = (/** @type {Event} */ event) => session.choose(/** @type {HTMLSelectElement} */ (event.currentTarget).value);
  return html`<${PlayerChoice} icon="film" label=${TEXT.qualityChoice} value=${current?.name} onChange=${choose}>
    ${qualities.map((quality) => html`<option value=${quality.name} disabled=${broken.has(quality.name)}>${label(quality)}</option>`)}
  <//>`;
}

/** Select element in the control bar. On a phone its icon is shown instead of the selected option.
 * @param {{ icon: import("../design/icons.js").IconName, label: string, class?: string, value?: string | number, onChange: (event: Event) => void,
 *   children?: import("../design/parts.js").Children }} props */
function PlayerChoice({ icon, label: name, class: kind = "", children, ...more }) {
  return html`<span class=${`player-choice ${kind}`}><${Icon} name=${icon} /><select aria-label=${name} keysused=${KEYS} ...${more}>${children}</select></span>`;
}

/** Reason why there is no player.
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

/** Import media-chrome at the first video. Returns whether its elements are defined. */
function useMediaChrome() {
  const [isDefined, setDefined] = useState(Boolean(customElements.get("media-controller")));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  useEffect(() => {
    if (!isDefined) import("media-chrome").then(() => setDefined(true), setError);
  }, []);
  if (error) throw error; // the error boundary of the screen shows it
  return isDefined;
}

/** Count a view by this tab, and return the new view count. @param {string} videoId */
async function count(videoId) {
  const viewerId = sessionStorage.getItem(VIEWER) ?? crypto.randomUUID();
  sessionStorage.setItem(VIEWER, viewerId);
  const { data } = await ask(api.POST("/v1/videos/{videoId}/views", { params: { path: { videoId } }, body: { viewerId } }));
  return data.viewCount;
}

/** Return the label of a quality, such as `720p, 2.5 Mbit/s` or `240p, 440 kbit/s`. @param {Quality} quality */
function label({ name, bitRate }) {
  const shown = name === SOURCE ? TEXT.original : name;
  if (!bitRate) return shown;
  return bitRate < 1e6 ? TEXT.slowQuality(shown, RATE.format(bitRate / 1e3)) : TEXT.quality(shown, RATE.format(bitRate / 1e6));
}

/** Return the reason why the service rejected the source file; undefined if it did not.
 * @param {import("../screens/video.js").Video} video */
function sourceFault({ status, failure }) {
  return status === "failed" && failure?.job === "probe" ? failure.reason : undefined;
}

/** Return the reason why no quality plays.
 * @param {import("../screens/video.js").Video} video @param {Quality[]} qualities */
export function unplayableReason(video, qualities) {
  const reason = sourceFault(video);
  if (reason) return reason;
  const types = [...new Set(qualities.map(({ type }) => type))].join(", ");
  return (video.status === "processing" ? TEXT.unsupportedYet : TEXT.unsupported)(types);
}

/** Return a notice about qualities that do not play while another one does; empty if none.
 * @param {Quality[]} qualities @param {Set<string>} broken @param {Quality} current */
function fallbackNotice(qualities, broken, current) {
  const failed = qualities.filter(({ name }) => broken.has(name)).map(label);
  return failed.length ? TEXT.fellBack(failed.join(TEXT.and), label(current)) : "";
}

/** @param {import("../screens/video.js").Video} video @param {string} why */
function hiddenReason({ publishAt, visibility }, why) {
  return visibility === "public" && publishAt && publishAt > Date.now() / 1000 ? TEXT.scheduled(time(publishAt)) : humanize(why);
}
