// Form that adds a video to a playlist: by search, by the URL of its page, or by its id.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useAttempt } from "../core/load.js";
import { duration } from "../core/formats.js";
import { useCombobox, useSuggestions } from "../design/combobox.js";
import { Failure, Field, messageOf, announceText, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { useIdempotencyKey } from "./idempotency.js";

const TEXT = texts.playlists.add;

/** @typedef {import("../core/api.js").Schemas["ListedEntry"]} Entry */

const ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/i;
const MAX_FOUND = 8;
const ADDRESS = new RegExp(`videos/(${ID.source})`, "i");

/** `added` receives the new entry, or null if its video cannot be read. `userId` is the owner, whose private videos the search finds.
 * @param {{ playlistId: string, userId: string, added: (entry: Entry | null) => void }} props */
export default function AddVideo({ playlistId, userId, added }) {
  const [text, setText] = useState("");
  const [fault, setFault] = useState("");
  const once = useIdempotencyKey();
  const { found, update, stop } = useSuggestions((q, signal) => search(q, userId, signal));
  const box = useCombobox(found.length);
  /** Id of the video to add: the selected option, or the id in the text. */
  const wanted = useRef(/** @type {string | undefined} */ (undefined));
  const { error, isBusy, run } = useAttempt(async () => {
    const videoId = wanted.current;
    setFault(videoId ? "" : TEXT.notChosen);
    if (!videoId) return;
    const { data } = await once(videoId, (key) => {
      const params = { path: { playlistId }, header: { "Idempotency-Key": key } };
      return ask(api.POST("/v1/playlists/{playlistId}/entries", { params, body: { videoId } }));
    });
    const video = await summaryOf(data.videoId).catch(() => null); // the video has been added
    setText("");
    added(video && { ...data, video });
    announceText(TEXT.added);
  });
  // These errors are about the only field; others, such as a lost connection, are not.
  const isAbout = error instanceof Problem && [400, 409, 422].includes(error.status);
  const refusal = isAbout ? error.at("/videoId") ?? messageOf(error).detail : undefined;
  const type = (/** @type {string} */ typed) => {
    setText(typed);
    setFault("");
    const q = parseVideoId(typed) ? "" : typed.trim();
    update(q);
    box.show(q !== "");
  };
  const add = (/** @type {string | undefined} */ videoId) => {
    stop();
    box.show(false);
    wanted.current = videoId;
    void run();
  };
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    add(found[box.chosen]?.videoId ?? parseVideoId(text));
  };
  return html`<form class="add-form" onSubmit=${submit}>
    <div class="combobox">
      <${Field} label=${TEXT.title} hint=${TEXT.hint} value=${text} onInput=${type}
        error=${fault || refusal} autocomplete="off" spellcheck=${false} readOnly=${isBusy} ...${box.input} />
      ${box.isShown && html`<ul ...${box.list}>
        ${found.map(({ videoId, title, duration: length, visibility }, index) => html`<li key=${videoId} ...${box.option(index)} onClick=${() => add(videoId)}>
          <span><${UserText}>${title}<//></span><small>${[visibility === "private" && texts.states.private, length !== undefined && duration(length)].filter(Boolean).join(", ")}</small>
        </li>`)}
      </ul>`}
    </div>
    <button disabled=${isBusy}>${texts.common.add}</button>
    ${!isAbout && html`<${Failure} error=${error} />`}
  </form>`;
}

/** Search the owner's videos and all visible videos. Returns the owner's first, without duplicates.
 * @param {string} q @param {string} userId @param {AbortSignal} signal */
async function search(q, userId, signal) {
  const pages = await Promise.all([{ q, userId, limit: MAX_FOUND }, { q, limit: MAX_FOUND }].map((query) =>
    ask(api.GET("/v1/search", { params: { query }, signal }))));
  const videos = pages.flatMap(({ data }) => data.items.map(({ video }) => video));
  return [...new Map(videos.map((video) => [video.videoId, video])).values()].slice(0, MAX_FOUND);
}

/** Return the id of a video in a text or URL, in lower case; undefined if there is none.
 * @param {string} text */
export function parseVideoId(text) {
  return (ADDRESS.exec(text)?.[1] ?? ID.exec(text)?.[0])?.toLowerCase();
}

/** Read a video in the form of a list item. @param {string} videoId @returns {Promise<Entry["video"]>} */
async function summaryOf(videoId) {
  const { data } = await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId } } }));
  const video = /** @type {import("../core/api.js").Schemas["FetchedVideo"]} */ (data);
  const poster = video.thumbnails.poster?.url;
  return { ...video, ...(poster ? { poster } : {}) };
}
