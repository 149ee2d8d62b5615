// Texts of a webhook's state and subscription.

import { Fragment } from "preact";
import { html } from "htm/preact";
import { lookUp } from "../core/lookup.js";
import { time } from "../core/formats.js";
import { UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.webhooks;

/** @typedef {import("./requests.js").Webhook} Webhook */
/** @typedef {{ word: string, look: "ready" | "processing" | "failed" | "", text: string }} State `look` is the video status with the same style */

/** @typedef {NonNullable<import("./requests.js").Content["types"]>[number]} Kind an event type, or the wildcard of a group such as `video.*` */

/** All event types, in display order.
 * @type {Record<Exclude<Kind, `${string}.*`>, true>} */
const TYPES = {
  "video.created": true, "video.changed": true, "video.deleted": true, "video.restored": true, "video.expired": true, "video.removed": true,
  "job.queued": true, "job.done": true, "job.failed": true, "job.withdrawn": true,
  "credit.created": true, "credit.changed": true, "credit.removed": true,
  "release.created": true, "release.changed": true, "release.removed": true,
  "captions.created": true, "captions.changed": true, "captions.removed": true,
  "chapters.created": true, "chapters.changed": true, "chapters.removed": true,
  "rating.created": true, "rating.changed": true, "rating.removed": true,
  "playlist.created": true, "playlist.changed": true, "playlist.deleted": true,
  "playlist.restored": true, "playlist.expired": true, "playlist.removed": true,
};
const TITLES = TEXT.groups;

/** @typedef {{ all: Kind, title: string, types: Kind[] }} Group */

/** @type {Group[]} */
export const GROUPS = Object.entries(TITLES).map(([name, title]) => ({
  all: /** @type {Kind} */ (`${name}.*`), title,
  types: /** @type {Kind[]} */ (Object.keys(TYPES)).filter((type) => type.startsWith(`${name}.`)),
}));

/** Return the action of a type, such as `created`. @param {string} type */
export function actionOf(type) {
  const name = type.slice(type.indexOf(".") + 1);
  return lookUp(TEXT.actions, name === "*" ? "all" : name) ?? name;
}

/** Return the display name of a webhook: its description, or the host of its URL.
 * @param {Pick<Webhook, "url" | "description">} webhook */
export function nameOf({ url, description }) {
  return description || (URL.canParse(url) ? new URL(url).host : url);
}

/** @param {Webhook} webhook @param {import("./requests.js").Tested | null} [tested] last test that this page sent
 * @returns {State} */
export function stateOf({ paused, pausedBecause, failures = 0, behindSince, nextAttemptAt }, tested = null) {
  if (paused) {
    return pausedBecause ? { word: TEXT.paused, look: "failed", text: pausedBecause }
      : { word: TEXT.paused, look: "", text: TEXT.pausedHint };
  }
  const behind = behindSince !== undefined ? TEXT.behindSince(time(behindSince / 1000)) : "";
  if (failures) {
    const next = nextAttemptAt !== undefined ? TEXT.nextAttempt(time(nextAttemptAt)) : "";
    return { word: TEXT.deliveryFailed, look: "processing", text: [TEXT.attemptsFailed(failures), behind, next].filter(Boolean).join(" ") };
  }
  if (behind) return { word: TEXT.behind, look: "processing", text: `${behind} ${TEXT.sending}` };
  if (tested && !tested.delivered) return { word: TEXT.lastTestFailed, look: "processing", text: TEXT.lastTestRefused };
  return { word: TEXT.upToDate, look: "ready", text: TEXT.nothingPending };
}

/** @param {{ state: State }} props */
export function StateBadge({ state: { word, look } }) {
  return html`<span class=${`status ${look && `status-${look}`}`}>${word}</span>`;
}

/** Owners whose changes a webhook receives. @param {{ webhook: Webhook, isOwn: boolean }} props */
export function SubscribedTypes({ webhook: { userId, follows }, isOwn }) {
  if (follows === undefined) return TEXT.followsAll;
  if (isOwn && follows === userId) return TEXT.followsOwn;
  return html`<${Fragment}>${TEXT.followsUser(html`<${UserText}>${follows}<//>`)}<//>`;
}

/** Return the labels of event types, such as `Videos: created`. @param {readonly string[]} types @returns {string[]} */
export function typesInWords(types) {
  return types.map((type) => {
    const title = GROUPS.find((group) => group.all === type || group.types.some((one) => one === type))?.title;
    return title ? TEXT.typeName(title, actionOf(type)) : type;
  });
}
