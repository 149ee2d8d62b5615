// A film's storyboard: pictures of its moments, all on one sheet, and WebVTT that says which belongs to what time.

import { html } from "htm/preact";
import { useLoad } from "../core/load.js";
import { isServed } from "../core/media.js";

/** A moment of a film, in seconds, and where on a sheet its picture is, in pixels.
 * @typedef {{ start: number, end: number, url: string, x: number, y: number, width: number, height: number }} Tile */

/** By address; the name of a storyboard's folder stands for what is in it, so none ever changes.
 * @type {Map<string, Promise<Tile[]>>} */
const kept = new Map();

const LABEL = "thumbnails";
/** What media-chrome looks for. */
const TIMES = /(?:(\d+):)?(\d\d):(\d\d\.\d{3}) --> (?:(\d+):)?(\d\d):(\d\d\.\d{3})/;
const PLACE = /^(.+)#xywh=(\d+),(\d+),(\d+),(\d+)$/;

/** The tiles of a storyboard; null while there are none.
 * @param {string | undefined} url of its WebVTT
 * @returns {Tile[] | null} */
export function useStoryboard(url) {
  // Without pictures a film plays as well, so what goes wrong is not shown.
  return useLoad(async () => (url && isServed(url) ? tilesAt(url) : null), [url]).value;
}

/** @param {string} url */
function tilesAt(url) {
  const known = kept.get(url) ?? fetchTiles(url);
  kept.set(url, known);
  known.catch(() => kept.delete(url));
  return known;
}

/** @param {string} url */
async function fetchTiles(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`storyboard: status ${answer.status}`);
  return parseTiles(await answer.text(), url);
}

/** @param {string} text @param {string} base what the addresses in it are relative to
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

/** Give the tiles to the player, which shows them above its scrubber.
 *
 * As cues of a script: a track element would be fetched with the rules of the film, so where pictures come from another
 * origin, the film would have to be asked for with CORS too, which its signed address need not allow.
 * @param {HTMLVideoElement} element
 * @param {Tile[]} tiles */
export function putOnScrubber(element, tiles) {
  const track = [...element.textTracks].find(({ label }) => label === LABEL) ?? element.addTextTrack("metadata", LABEL);
  track.mode = "hidden"; // which means read, but not drawn
  for (const cue of [...(track.cues ?? [])]) track.removeCue(cue);
  for (const { start, end, url, x, y, width, height } of tiles) {
    track.addCue(new VTTCue(start, end, `${url}#xywh=${x},${y},${width},${height}`));
  }
}

/** The picture of a moment, as large as its place. @param {{ tile: Tile }} props */
export function Picture({ tile: { url, x, y, width, height } }) {
  return html`<svg class="tile" viewBox=${`${x} ${y} ${width} ${height}`} aria-hidden="true"><image href=${url} /></svg>`;
}
