// Adds a video to a playlist, by the address of its page or its id.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useAttempt } from "../core/load.js";
import { Failure, Field, messageOf, announceText } from "../design/parts.js";
import { useIdempotencyKey } from "./idempotency.js";

/** @typedef {import("../core/api.js").Schemas["ListedEntry"]} Entry */

const ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/i;
const ADDRESS = new RegExp(`videos/(${ID.source})`, "i");

/** `added` gets null when it is not known how lists show the entry.
 * @param {{ playlistId: string, added: (entry: Entry | null) => void }} props */
export default function AddVideo({ playlistId, added }) {
  const [text, setText] = useState("");
  const [fault, setFault] = useState("");
  const once = useIdempotencyKey();
  const { error, isBusy, run } = useAttempt(async () => {
    const videoId = idIn(text);
    setFault(videoId ? "" : "Enter the address of a video page or a video ID.");
    if (!videoId) return;
    const { data } = await once(videoId, (key) => {
      const params = { path: { playlistId }, header: { "Idempotency-Key": key } };
      return ask(api.POST("/v1/playlists/{playlistId}/entries", { params, body: { videoId } }));
    });
    const video = await summaryOf(data.videoId).catch(() => null); // the video is added all the same
    setText("");
    added(video && { ...data, video });
    announceText("Added to the end of the playlist.");
  });
  // The one field is what a refusal is about; without an answer it is not.
  const isAbout = error instanceof Problem && [400, 409, 422].includes(error.status);
  const said = isAbout ? error.at("/videoId") ?? messageOf(error).detail : undefined;
  const add = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    run();
  };
  return html`<form class="adding" onSubmit=${add}>
    <${Field} label="Add a video" hint="Address of the video page or video ID" value=${text} onInput=${setText}
      error=${fault || said} autocomplete="off" spellcheck=${false} readOnly=${isBusy} />
    <button disabled=${isBusy}>Add</button>
    ${!isAbout && html`<${Failure} error=${error} />`}
  </form>`;
}

/** The id of the video that a text names; undefined: none.
 * @param {string} text */
export function idIn(text) {
  return (ADDRESS.exec(text)?.[1] ?? ID.exec(text)?.[0])?.toLowerCase();
}

/** A video as lists show it. @param {string} videoId @returns {Promise<Entry["video"]>} */
async function summaryOf(videoId) {
  const { data } = await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId } } }));
  const video = /** @type {import("../core/api.js").Schemas["FetchedVideo"]} */ (data);
  const poster = video.thumbnails.poster?.url;
  return { ...video, ...(poster ? { poster } : {}) };
}
