// Requests about history, and the types of their responses.

import { api, ask, Problem } from "../core/api.js";

/**
 * @typedef {import("../core/api.js").Schemas["AuditEntry"]} Entry
 * @typedef {Pick<Entry, "entity" | "videoId" | "playlistId" | "personId" | "region" | "language">} Subject What a change is about.
 * @typedef {Entry["changes"][number]} Change
 * @typedef {import("../core/api.js").Schemas["AuditPage"]} EntryPage
 * @typedef {import("../core/api.js").Schemas["SkippedField"]} Skipped
 * @typedef {import("../core/api.js").Schemas["PastVideo"]} PastVideo
 * @typedef {import("../core/api.js").Schemas["RevertedVideo"]} Reverted
 * @typedef {import("../core/api.js").Schemas["RevertedPart"]} Part
 * @typedef {import("../core/api.js").Schemas["ChangesetRevert"]} Run
 */

/** Maximum number of retries while the trail does not yet contain the newest changes. */
const MAX_RETRIES = 5;

/** @param {string} videoId @param {{ limit: number, order: "asc" | "desc", cursor?: string }} query @param {AbortSignal} [signal]
 * @returns {Promise<EntryPage>} */
export async function listEntries(videoId, query, signal) {
  return (await ask(api.GET("/v1/videos/{videoId}/audit", { params: { path: { videoId }, query }, signal }))).data;
}

/** @param {string} playlistId @param {string | undefined} cursor @param {AbortSignal} signal @returns {Promise<EntryPage>} */
export async function listPlaylistEntries(playlistId, cursor, signal) {
  const params = { path: { playlistId }, query: { limit: 25, cursor } };
  return (await ask(api.GET("/v1/playlists/{playlistId}/audit", { params, signal }))).data;
}

/** @param {string} changesetId @param {string | undefined} cursor @param {AbortSignal} signal @returns {Promise<EntryPage>} */
export async function listChangeSetEntries(changesetId, cursor, signal) {
  const params = { path: { changesetId }, query: { limit: 25, cursor } };
  return (await ask(api.GET("/v1/changesets/{changesetId}", { params, signal }))).data;
}

/** Read a past state of a video.
 * @param {string} videoId @param {{ version?: number, asOf?: number }} query one of them; `asOf` in epoch seconds
 * @param {AbortSignal} signal @returns {Promise<PastVideo>} */
export async function readPastVideo(videoId, query, signal) {
  const { data } = await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId }, query }, signal }));
  return /** @type {PastVideo} */ (data);
}

/** @param {string} videoId @param {{ from: number, to?: number }} query @param {AbortSignal} signal
 * @returns {Promise<import("../core/api.js").Schemas["VideoDiff"]>} */
export async function difference(videoId, query, signal) {
  return (await ask(api.GET("/v1/videos/{videoId}/diff", { params: { path: { videoId }, query }, signal }))).data;
}

/** @param {string} videoId @param {string} version expected ETag
 * @param {{ toVersion: number, fields?: string[], force?: string[] }} body @param {{ dryRun: boolean, signal?: AbortSignal }} options
 * @returns {Promise<{ data: Reverted, etag: string | null }>} */
export async function revert(videoId, version, body, { dryRun, signal }) {
  const params = { path: { videoId }, query: { dryRun }, header: { "If-Match": version } };
  return ask(api.POST("/v1/videos/{videoId}/revert", { params, body, signal }));
}

/** @param {string} changesetId @param {string[]} force @param {boolean} dryRun @returns {Promise<Run>} */
export async function revertChangeSet(changesetId, force, dryRun) {
  const params = { path: { changesetId }, query: { dryRun } };
  return (await ask(api.POST("/v1/changesets/{changesetId}/revert", { params, body: { force } }))).data;
}

/** Read the progress of a run. @param {string} changesetId @param {string} revertId @param {string | undefined} cursor
 * @param {AbortSignal} [signal] @returns {Promise<Run>} */
export async function readRevert(changesetId, revertId, cursor, signal) {
  const params = { path: { changesetId, revertId }, query: { cursor } };
  return (await ask(api.GET("/v1/changesets/{changesetId}/reverts/{revertId}", { params, signal }))).data;
}

/** Return the result of `call`, and retry it while the trail does not yet contain the newest changes.
 *
 * Calls `waiting` with true before a retry, and with false at the end. Throws the last error.
 * @template T
 * @param {() => Promise<T>} call
 * @param {{ waiting: (isWaiting: boolean) => void, signal?: AbortSignal }} options
 * @returns {Promise<T>} */
export async function retryUntilCurrent(call, { waiting, signal }) {
  try {
    for (let left = MAX_RETRIES; ; left--) {
      try {
        return await call();
      } catch (error) {
        if (signal?.aborted || !left || !(error instanceof Problem && error.kind === "trail-behind")) throw error;
        waiting(true);
        await pause(error.retryAfter ?? 2);
      }
    }
  } finally {
    if (!signal?.aborted) waiting(false);
  }
}

/** @param {number} seconds */
function pause(seconds) {
  return new Promise((resolve) => void setTimeout(resolve, seconds * 1000));
}
