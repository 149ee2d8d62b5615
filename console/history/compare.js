// Comparison of two versions of a video.

import { html } from "htm/preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { useLoad } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { Empty, Field, Loading } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { difference, retryUntilCurrent } from "./requests.js";
import { Changes } from "./entries.js";
import { RevertError } from "./errors.js";

const TEXT = texts.history.compare;

/** @param {{ video: import("../screens/video.js").Video, from: number, until?: number,
 *   onRevert: (wanted: import("./revert.js").RevertRequest) => void }} props */
export default function Compare({ video: { videoId, version }, from, until, onRevert }) {
  const [isWaiting, setWaiting] = useState(false);
  const found = useLoad(
    (signal) => retryUntilCurrent(() => difference(videoId, { from, to: until }, signal), { waiting: setWaiting, signal }),
    [videoId, from, until, until ? 0 : version],
  );
  const last = until ?? found.value?.to ?? version;
  return html`<div class="above">
      <h2 tabindex="-1">${TEXT.heading(from, last)}</h2>
      <a class="button" href=${hrefTo(["videos", videoId], { tab: "history" })}>${texts.history.full}</a>
    </div>
    <${VersionForm} videoId=${videoId} present=${version} picked=${[from, last]} />
    <${RevertError} error=${found.error} isWaiting=${isWaiting} retry=${found.reload} />
    ${!found.value && found.isLoading && !isWaiting && html`<${Loading} />`}
    ${found.value && !found.value.changes.length && html`<${Empty}>${TEXT.identical}<//>`}
    ${found.value && html`<${Changes} changes=${found.value.changes} isWhole />`}
    ${found.value && found.value.changes.length > 0 && html`<div class="actions">
      ${[...new Set([from, last])].filter((number) => number !== version).map((number) => html`<button type="button"
        onClick=${() => onRevert({ toVersion: number })}>${TEXT.revertTo(number)}</button>`)}
    </div>`}`;
}

/** Form that selects the two versions to compare. `picked` are the versions selected in the timeline.
 * @param {{ videoId: string, present: number, picked: number[] }} props */
export function VersionForm({ videoId, present, picked }) {
  const [first = "", second = ""] = [...picked].sort((one, other) => one - other).map(String);
  const [from, setFrom] = useState(first);
  const [until, setUntil] = useState(second);
  useLayoutEffect(() => {
    setFrom(first);
    setUntil(second);
  }, [first, second]);
  const compare = (/** @type {Event} */ event) => {
    event.preventDefault();
    navigate(hrefTo(["videos", videoId], { tab: "history", from: from.trim(), to: until.trim() }));
  };
  const number = { kind: "number", min: 1, step: 1, inputmode: "numeric" };
  return html`<form class="versions" onSubmit=${compare} aria-label=${TEXT.title}>
    <${Field} label=${TEXT.from} value=${from} onInput=${setFrom} required max=${present} ...${number} />
    <${Field} label=${TEXT.to} value=${until} onInput=${setUntil} placeholder=${String(present)} max=${present} ...${number} />
    <button type="submit">${TEXT.compare}</button>
  </form>`;
}

/** Form that opens the video as of a time, in the browser's time zone. @param {{ videoId: string }} props */
export function AsOfForm({ videoId }) {
  const [moment, setMoment] = useState("");
  const show = (/** @type {Event} */ event) => {
    event.preventDefault();
    navigate(hrefTo(["videos", videoId], { tab: "history", asOf: String(Math.floor(new Date(moment).getTime() / 1000)) }));
  };
  return html`<form class="versions" onSubmit=${show} aria-label=${TEXT.earlierTime}>
    <${Field} label=${TEXT.asOf} kind="datetime-local" value=${moment} onInput=${setMoment} required />
    <button type="submit">${texts.common.show}</button>
  </form>`;
}
