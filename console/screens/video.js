// Screen of a video: player, processing and details. Components are in `video/`.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useChanges } from "../core/changes.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { Breadcrumbs, Failure, Loading, Status, Time, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import Actions from "../video/actions.js";
import Details from "../video/details.js";
import Processing from "../video/processing.js";
import Player from "../video/player.js";
import Rating from "../video/rating.js";
import Similar from "../video/similar.js";

const TEXT = texts.video;

/** @typedef {import("../core/api.js").Schemas["FetchedVideo"]} Video */
/** Props of each part of the screen.
 *
 * `changed` sets the video after a change, or reads it again if called without one. `viewed` sets the view count. `playing` is the
 * player's session; null without a player. `textChanges` counts changes of captions and chapters, and `onTextsChanged` increments it.
 * @typedef {{ video: Video, etag: string | null, isOwner: boolean, user: import("../core/session.js").User,
 *   changed: (video?: Video, etag?: string | null) => void, viewed: (count: number) => void,
 *   playing: { current: import("../video/playback.js").PlaybackSession | null }, textChanges: number, onTextsChanged: () => void,
 *   route: import("../core/route.js").Route }} PartProps */

/** @typedef {{ route: import("../core/route.js").Route, user: import("../core/session.js").User }} ScreenProps */

/** @param {ScreenProps} props */
export default function VideoScreen(props) {
  return html`<${VideoPage} ...${props} key=${props.route.path[1]} />`;
}

/** @param {ScreenProps} props */
function VideoPage({ route, user }) {
  const videoId = route.path[1] ?? "";
  const loaded = useLoad(async (signal) => {
    const { data, etag } = await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId } }, signal }));
    return { video: /** @type {Video} */ (data), etag };
  }, [videoId]);
  const [viewed, setViewed] = useState(0);
  const views = useRef(0);
  const playing = useRef(null);
  const [textChanges, setTextChanges] = useState(0);
  const onTextsChanged = () => setTextChanges((number) => number + 1);
  const shown = loaded.value?.video;
  useChanges(shown && owns(shown, user) ? shown.userId : null, (changes) => {
    const isNewer = changes?.some(({ type, version = 0, ...change }) =>
      change.videoId === videoId && type.startsWith("video.") && version > (shown?.version ?? 0));
    if (!changes || isNewer) loaded.reload();
    if (!changes || changes.some((change) => change.videoId === videoId && /^(captions|chapters)\./.test(change.type))) onTextsChanged();
  });
  if (!loaded.value) return loaded.error ? html`<${Missing} error=${loaded.error} retry=${loaded.reload} />` : html`<${Loading} />`;
  const { video, etag } = loaded.value;
  // Responses to writes have no view count, and an older response must not lower it.
  views.current = Math.max(views.current, viewed, video.viewCount ?? 0);
  const isOwner = owns(video, user);
  /** @type {PartProps} */
  const props = {
    video, etag, user, route, isOwner, playing, textChanges, onTextsChanged,
    changed: (after, tag = null) => (after ? loaded.set({ video: after, etag: tag }) : loaded.reload()),
    viewed: setViewed,
  };
  return html`<${Breadcrumbs} path=${[[texts.library.title, hrefTo([])]]} here=${video.title} />
  <article class="video">
    <div>
      <${Player} ...${props} />
      <div class="video-head"><h1><${UserText}>${video.title}<//></h1><${Actions} ...${props} /></div>
      <p class="facts">
        ${isOwner && html`<${Status} of=${video.status} />`}
        ${isOwner && video.status !== "deleted" && html`<${Status} of=${video.visibility} />`}
        <span>${texts.common.views(views.current)}</span>
        <span><${Time} at=${video.createdAt * 1000} /></span>
        <${UserText}>${video.userId}<//>
      </p>
      ${video.description && html`<${Description} text=${video.description} />`}
    </div>
    <div class="side-column"><${Processing} ...${props} />${video.status !== "deleted" && html`<${Rating} video=${video} />`}<${Similar} videoId=${videoId} /></div>
    <div><${Details} ...${props} /></div>
    ${loaded.error && html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`}
  </article>`;
}

/** Description, of which only the first lines are shown until the user opens it. @param {{ text: string }} props */
function Description({ text }) {
  const [isOpen, setOpen] = useState(false);
  const isLong = text.length > 320 || text.split("\n").length > 4;
  return html`<p class=${`description ${isLong && !isOpen ? "is-cut" : ""}`}><${UserText}>${text}<//></p>
    ${isLong && html`<button type="button" class="quiet" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>${isOpen ? TEXT.showLess : TEXT.showMore}</button>`}`;
}

/** @param {Video} video @param {import("../core/session.js").User} user */
function owns({ userId }, { isAdmin, subject }) {
  return isAdmin || userId === subject;
}

/** Error page of a video that cannot be read. @param {{ error: unknown, retry: () => void }} props */
function Missing({ error, retry }) {
  if (!(error instanceof Problem && error.status === 404)) return html`<h1>${texts.common.video}</h1><${Failure} error=${error} retry=${retry} />`;
  return html`<h1>${TEXT.unavailable}</h1>
    <p>${error.message} ${TEXT.unavailableHint}</p>
    <p class="actions"><a class="button" href=${hrefTo([])}>${texts.common.goToLibrary}</a></p>`;
}
