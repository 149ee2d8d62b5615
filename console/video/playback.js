// Selection of the file to play, and the fallback if one fails.

import { api, ask, Problem } from "../core/api.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.player;

/**
 * @typedef {import("../core/api.js").Schemas["Playback"]} Playback
 * @typedef {{ name: string, type: string, url: string, width?: number, height?: number, size?: number, bitRate?: number }} Quality
 */

/** Name of the source file among the names of renditions. */
export const SOURCE = "source";

/** Milliseconds after a renewal within which an error cannot be an expired URL. */
const FRESH_MS = 30_000;

/** Minimum ratio of widths for which the source is preferred to the largest rendition, despite its higher bit rate. */
const MUCH_LARGER = 1.5;

/** Last quality that the user selected, for all videos until the page is reloaded. */
let preferred = "";

/** Playback of a video in a video element. Selects the quality, and resumes at the same position after a signed URL has expired. */
export class PlaybackSession {
  /** @type {Playback | null} */
  playback = null;
  /** Error of the last request, or of the playback. @type {unknown} */
  error = null;
  /** Selected quality. @type {Quality | null} */
  current = null;
  /** Names of the qualities that this browser cannot play. @type {Set<string>} */
  broken = new Set();
  /** Names of the qualities that this browser has loaded successfully. @type {Set<string>} */
  #playable = new Set();
  hasBegun = false;
  speed = 1;

  /** @type {HTMLVideoElement | null} */
  #element = null;
  #time = 0;
  #isPlaying = false;
  /** Whether a new file is loading, whose position is not yet restored. */
  #isSwitching = false;
  /** Time of the last renewal of the URLs, in milliseconds of `performance.now()`. */
  #renewedAt = -Infinity;
  #stop = new AbortController();

  /** @param {string} videoId @param {() => void} onChange called after each change @param {() => void} onBegin called when it first plays */
  constructor(videoId, onChange, onBegin) {
    this.videoId = videoId;
    this.onChange = onChange;
    this.onBegin = onBegin;
  }

  /** All qualities, in the order of fallback. @returns {Quality[]} */
  get qualities() {
    const { renditions = [], source } = this.playback ?? {};
    return source ? [...renditions, { ...source, name: SOURCE }] : renditions;
  }

  /** Load the qualities. A file that plays continues, because its URL remains valid. */
  async load() {
    if (await this.#read()) this.#selectQuality();
    this.onChange();
  }

  /** Retry all qualities with new URLs. */
  async retry() {
    this.broken.clear();
    await this.#renew();
  }

  /** @param {HTMLVideoElement | null} element */
  attach = (element) => {
    this.#element = element;
    if (!element) return;
    this.#keepSpeed();
    if (this.playback) this.#selectQuality();
  };

  /** Switch to the quality that the user selected. @param {string} name */
  choose(name) {
    preferred = name;
    this.error = null;
    const wanted = this.qualities.find((quality) => quality.name === name);
    if (wanted) this.#show(wanted);
  }

  /** Set the playback rate, also for later files. @param {number} speed */
  setSpeed(speed) {
    this.speed = speed;
    this.#keepSpeed();
    this.onChange();
  }

  /** Position in seconds. */
  get time() {
    return this.#element?.currentTime ?? this.#time;
  }

  /** Go to a position, without changing whether it plays. @param {number} seconds */
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

  /** Handlers of the controls' requests. While a URL is renewed, the video element rejects them, so the state is stored here. */
  requestHandlers = {
    onmediaplayrequest: () => (this.#isPlaying = true),
    onmediapauserequest: () => (this.#isPlaying = false),
  };

  /** Handlers of the video element's events. */
  handlers = {
    onLoadedMetadata: () => {
      if (this.#element && this.#time > 0) this.#element.currentTime = this.#time;
      this.#isSwitching = false;
      if (this.current) this.#playable.add(this.current.name);
    },
    onTimeUpdate: () => {
      if (this.#element && !this.#isSwitching) this.#time = this.#element.currentTime;
    },
    onPlay: () => (this.#isPlaying = true),
    onPause: () => {
      if (!this.#element?.error) this.#isPlaying = false; // after an error, the pause is not the user's
    },
    onPlaying: () => {
      if (this.hasBegun) return;
      this.hasBegun = true;
      this.onBegin();
      this.onChange();
    },
    onRateChange: () => {
      const rate = this.#element?.playbackRate;
      if (rate && rate !== this.speed) this.setSpeed(rate); // changed by a keyboard shortcut of the player
    },
    onError: () => {
      const code = this.#element?.error?.code;
      if (!code || !this.current) return;
      // An expired URL causes the same error as an unsupported file, so renew the URL to distinguish them.
      const isFresh = performance.now() - this.#renewedAt < FRESH_MS;
      if (code === MediaError.MEDIA_ERR_DECODE) this.#fallBack();
      else if (!isFresh) void this.#renew();
      else if (code === MediaError.MEDIA_ERR_NETWORK || this.#playable.has(this.current.name)) this.#reportLost();
      else this.#fallBack();
    },
  };

  async #renew() {
    this.#renewedAt = performance.now();
    const name = this.current?.name;
    if (await this.#read()) {
      const renewed = this.qualities.find((quality) => quality.name === name);
      if (renewed) this.#show(renewed);
      else this.#selectQuality();
    }
    this.onChange();
  }

  /** Read the playback from the API. Resolves to whether that succeeded. */
  async #read() {
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

  /** Keep the quality that plays, or select one. */
  #selectQuality() {
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

  /** Report that a playable file cannot be loaded. */
  #reportLost() {
    this.error = new Problem({ status: 0, title: TEXT.interruptedTitle, detail: TEXT.interrupted });
    this.onChange();
  }

  /** Mark the current quality as broken, and continue with the next one. */
  #fallBack() {
    if (this.current) this.broken.add(this.current.name);
    this.#renewedAt = -Infinity;
    const next = this.qualities.find(({ name }) => !this.broken.has(name));
    if (next) this.#show(next);
    else this.current = null;
    this.onChange();
  }

  /** @param {Quality} quality */
  #show(quality) {
    this.current = quality;
    if (this.#element) {
      this.#isSwitching = true;
      this.#element.src = quality.url;
      if (this.#isPlaying) this.#element.play().catch(() => undefined); // an error is also reported as an event
    }
    this.onChange();
  }
}

/** Return the smallest rendition that fills an area. If none does, return the source if it is much larger than the largest rendition;
 * otherwise that rendition.
 * @param {Quality[]} qualities the largest rendition first, and the source last
 * @param {number} width @param {number} height of the area, in device pixels */
export function bestQuality(qualities, width, height) {
  const made = qualities.filter(({ name }) => name !== SOURCE);
  const enough = made.filter((one) => one.width && one.height && Math.min(width / one.width, height / one.height) <= 1);
  const [largest] = made;
  const source = qualities.find(({ name }) => name === SOURCE);
  const isMuchLarger = source?.width && largest?.width && source.width >= MUCH_LARGER * largest.width;
  return enough.at(-1) ?? (isMuchLarger ? source : largest) ?? source;
}
