// Which of a film's files plays, and what happens when one does not.

import { api, ask, Problem } from "../core/api.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.player;

/**
 * @typedef {import("../core/api.js").Schemas["Playback"]} Playback
 * @typedef {{ name: string, type: string, url: string, width?: number, height?: number, size?: number, bitRate?: number }} Quality
 */

/** The name of the film as it was uploaded, among those of renditions. */
export const SOURCE = "source";

/** An address that is not older ends for another reason than its age. */
const FRESH_MS = 30_000;

/** Ratio of widths from which the source, which may be heavy, looks better than the largest rendition. */
const MUCH_LARGER = 1.5;

/** What somebody chose last, for all films of this visit. */
let preferred = "";

/** A film that is shown in a video element. It chooses what plays, and goes on at the same place when an address has ended. */
export class PlaybackSession {
  /** @type {Playback | null} */
  playback = null;
  /** Why there is nothing to play. @type {unknown} */
  error = null;
  /** What plays. @type {Quality | null} */
  current = null;
  /** The names of what this browser does not play. @type {Set<string>} */
  broken = new Set();
  /** The names of what it has played, whatever becomes of it. @type {Set<string>} */
  #known = new Set();
  hasBegun = false;
  speed = 1;

  /** @type {HTMLVideoElement | null} */
  #element = null;
  #time = 0;
  #isPlaying = false;
  /** Whether it has a new file, whose beginning is not where people are. */
  #isMoving = false;
  /** When its address was renewed last. */
  #renewedAt = -Infinity;
  #stop = new AbortController();

  /** @param {string} videoId @param {() => void} draw called after a change @param {() => void} began called once it plays */
  constructor(videoId, draw, began) {
    this.videoId = videoId;
    this.draw = draw;
    this.began = began;
  }

  /** All that there is, in the order in which it is tried. @returns {Quality[]} */
  get qualities() {
    const { renditions = [], source } = this.playback ?? {};
    return source ? [...renditions, { ...source, name: SOURCE }] : renditions;
  }

  /** Ask what there is. What plays goes on: its address is good until it ends. */
  async ask() {
    if (await this.#asked()) this.#settle();
    this.draw();
  }

  /** Try all again, with new addresses. */
  async again() {
    this.broken.clear();
    await this.#renew();
  }

  /** @param {HTMLVideoElement | null} element */
  attach = (element) => {
    this.#element = element;
    if (!element) return;
    this.#keepSpeed();
    if (this.playback) this.#settle();
  };

  /** @param {string} name of what somebody wants to see */
  choose(name) {
    preferred = name;
    this.error = null;
    const wanted = this.qualities.find((quality) => quality.name === name);
    if (wanted) this.#show(wanted);
  }

  /** @param {number} speed at which it goes on, whatever file it has */
  hurry(speed) {
    this.speed = speed;
    this.#keepSpeed();
    this.draw();
  }

  /** Where it is, in seconds. */
  get time() {
    return this.#element?.currentTime ?? this.#time;
  }

  /** @param {number} seconds where it goes on, playing or not as it is now */
  seek(seconds) {
    this.#time = seconds;
    if (this.#element) this.#element.currentTime = seconds;
  }

  #keepSpeed() {
    if (this.#element) this.#element.playbackRate = this.#element.defaultPlaybackRate = this.speed;
  }

  close() {
    this.#stop.abort();
  }

  /** What to do when somebody wants something of the player; while an address is renewed, the video element refuses to play. */
  wishes = {
    onmediaplayrequest: () => (this.#isPlaying = true),
    onmediapauserequest: () => (this.#isPlaying = false),
  };

  /** What to do when the video element reports something. */
  handlers = {
    onLoadedMetadata: () => {
      if (this.#element && this.#time > 0) this.#element.currentTime = this.#time;
      this.#isMoving = false;
      if (this.current) this.#known.add(this.current.name);
    },
    onTimeUpdate: () => {
      if (this.#element && !this.#isMoving) this.#time = this.#element.currentTime;
    },
    onPlay: () => (this.#isPlaying = true),
    onPause: () => {
      if (!this.#element?.error) this.#isPlaying = false; // else nobody wanted it
    },
    onPlaying: () => {
      if (this.hasBegun) return;
      this.hasBegun = true;
      this.began();
      this.draw();
    },
    onRateChange: () => {
      const rate = this.#element?.playbackRate;
      if (rate && rate !== this.speed) this.hurry(rate); // by a key of the player
    },
    onError: () => {
      const code = this.#element?.error?.code;
      if (!code || !this.current) return;
      // An address that has ended looks like a file of an unknown kind: only another one tells which it was.
      const isFresh = performance.now() - this.#renewedAt < FRESH_MS;
      if (code === MediaError.MEDIA_ERR_DECODE) this.#next();
      else if (!isFresh) void this.#renew();
      else if (code === MediaError.MEDIA_ERR_NETWORK || this.#known.has(this.current.name)) this.#lost();
      else this.#next();
    },
  };

  async #renew() {
    this.#renewedAt = performance.now();
    const name = this.current?.name;
    if (await this.#asked()) {
      const renewed = this.qualities.find((quality) => quality.name === name);
      if (renewed) this.#show(renewed);
      else this.#settle();
    }
    this.draw();
  }

  /** Resolves to whether there is something to play. */
  async #asked() {
    const { signal } = this.#stop;
    const params = { path: { videoId: this.videoId } };
    try {
      this.playback = (await ask(api.GET("/v1/videos/{videoId}/playback", { params, signal }))).data;
      this.error = null;
    } catch (error) {
      if (signal.aborted) return false;
      this.error = error;
      if (error instanceof Problem && (error.status === 409 || error.status === 404)) this.playback = this.current = null;
      return false;
    }
    const probe = document.createElement("video");
    for (const { name, type } of this.qualities) if (!probe.canPlayType(type)) this.broken.add(name);
    return true;
  }

  /** Keep what plays, or choose. */
  #settle() {
    const playable = this.qualities.filter(({ name }) => !this.broken.has(name));
    const kept = playable.find(({ name }) => name === this.current?.name);
    const hasStarted = this.hasBegun || this.#time > 0;
    const isFine = this.#element?.src && !this.#element.error;
    if (kept && hasStarted && isFine) return;
    const { clientWidth = 0, clientHeight = 0 } = this.#element ?? {};
    const scale = devicePixelRatio;
    const best = (hasStarted ? kept : null) ?? playable.find(({ name }) => name === preferred)
      ?? bestQuality(playable, clientWidth * scale, clientHeight * scale);
    if (!best) this.current = null;
    else if (best.name !== this.current?.name || !isFine) this.#show(best);
  }

  /** Say that what can be played does not come. */
  #lost() {
    this.error = new Problem({ status: 0, title: TEXT.interruptedTitle, detail: TEXT.interrupted });
    this.draw();
  }

  /** Go on with another file than the present one. */
  #next() {
    if (this.current) this.broken.add(this.current.name);
    this.#renewedAt = -Infinity;
    const next = this.qualities.find(({ name }) => !this.broken.has(name));
    if (next) this.#show(next);
    else this.current = null;
    this.draw();
  }

  /** @param {Quality} quality */
  #show(quality) {
    this.current = quality;
    if (this.#element) {
      this.#isMoving = true;
      this.#element.src = quality.url;
      if (this.#isPlaying) this.#element.play().catch(() => undefined); // whatever is wrong comes as an event too
    }
    this.draw();
  }
}

/** Choose the smallest rendition that is large enough for a place. If none is, choose the source if it is much larger than the largest rendition, or else
 * that rendition.
 * @param {Quality[]} qualities the largest rendition first, and the source last
 * @param {number} width @param {number} height of the place, in pixels of the screen */
export function bestQuality(qualities, width, height) {
  const made = qualities.filter(({ name }) => name !== SOURCE);
  const enough = made.filter((one) => one.width && one.height && Math.min(width / one.width, height / one.height) <= 1);
  const [largest] = made;
  const source = qualities.find(({ name }) => name === SOURCE);
  const isMuchLarger = source?.width && largest?.width && source.width >= MUCH_LARGER * largest.width;
  return enough.at(-1) ?? (isMuchLarger ? source : largest) ?? source;
}
