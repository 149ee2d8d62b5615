// Storyboard of a video: frames on sprite sheets, and a WebVTT file that maps times to them.

import { html } from "htm/preact";
import { useLoad } from "../core/load.js";
import { isServed } from "../core/media.js";

/** Frame of a storyboard: its time interval in seconds, and its position and size on the sheet in pixels.
 * @typedef {{ start: number, end: number, url: string, x: number, y: number, width: number, height: number }} Tile */

/** Tiles by the URL of their WebVTT file. Entries never change, because each new storyboard has a new URL.
 * @type {Map<string, Promise<Tile[]>>} */
const cache = new Map();

/** Label of the text track in which media-chrome looks for thumbnails. */
const LABEL = "thumbnails";
const TIMES = /(?:(\d+):)?(\d\d):(\d\d\.\d{3}) --> (?:(\d+):)?(\d\d):(\d\d\.\d{3})/;
const PLACE = /^(.+)#xywh=(\d+),(\d+),(\d+),(\d+)$/;

/** Return the tiles of a storyboard; null until they are loaded, or without a storyboard.
 * @param {string | undefined} url of its WebVTT
 * @returns {Tile[] | null} */
export function useStoryboard(url) {
  // An error is not shown, because the video plays without thumbnails.
  return useLoad(async () => (url && isServed(url) ? tilesAt(url) : null), [url]).value;
}

/** @param {string} url */
function tilesAt(url) {
  const known = cache.get(url) ?? fetchTiles(url);
  cache.set(url, known);
  known.catch(() => cache.delete(url));
  return known;
}

/** @param {string} url */
async function fetchTiles(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`storyboard: status ${response.status}`);
  return parseTiles(await response.text(), url);
}

/** @param {string} text @param {string} base base URL of the relative URLs in it
 * @returns {Tile[]} */
export function parseTiles(text, base) {
  const tiles = [];
  const lines = text.split(/\r?\n/);
  for (const [number, line] of lines.entries()) {
    const times = TIMES.exec(line);
    const place = PLACE.exec(lines[number + 1] ?? "");
    if (!times || !place) continue;
    const [x = 0, y = 0, width = 0, height = 0] = place.slice(2).map(Number);
    const url = new URL(place[1] ?? "", base).href;
    if (!isServed(url)) continue;
    tiles.push({ start: seconds(times.slice(1, 4)), end: seconds(times.slice(4, 7)), url, x, y, width, height });
  }
  return tiles;
}

/** @param {(string | undefined)[]} clock hours, minutes and seconds */
function seconds([hours = "0", minutes, rest]) {
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(rest);
}

/** Add the tiles to the player, which shows them above its scrubber.
 *
 * Creates the cues by script. A track element is fetched in the CORS mode of its video, so tiles of another origin would require
 * CORS for the video, which its signed URL may not support.
 * @param {HTMLVideoElement} element
 * @param {Tile[]} tiles */
export function addThumbnails(element, tiles) {
  const track = [...element.textTracks].find(({ label }) => label === LABEL) ?? element.addTextTrack("metadata", LABEL);
  track.mode = "hidden"; // loaded, but not rendered
  for (const cue of [...(track.cues ?? [])]) track.removeCue(cue);
  for (const { start, end, url, x, y, width, height } of tiles) {
    track.addCue(new VTTCue(start, end, `${url}#xywh=${x},${y},${width},${height}`));
  }
}

/** Frame of a tile, scaled to its container. @param {{ tile: Tile }} props */
export function Frame({ tile: { url, x, y, width, height } }) {
  return html`<svg class="tile" viewBox=${`${x} ${y} ${width} ${height}`} aria-hidden="true"><image href=${url} /></svg>`;
}
