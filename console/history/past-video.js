// Past state of a video: one version, or as of a time.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { time } from "../core/formats.js";
import { Loading, Status, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { VideoFields } from "../video/overview.js";
import { retryUntilCurrent, readPastVideo } from "./requests.js";
import { RevertError } from "./errors.js";
import { fieldName } from "./labels.js";

const TEXT = texts.history.past;

/** Past state of a video. `version` or `asOf`, in epoch seconds, selects it.
 * @param {{ video: import("../screens/video.js").Video, version?: number, asOf?: number, onRevert: (wanted: import("./revert.js").RevertRequest) => void }} props */
export default function PastVideo({ video: { videoId, version: present }, version: asked, asOf, onRevert }) {
  const [isWaiting, setWaiting] = useState(false);
  const found = useLoad(
    (signal) => retryUntilCurrent(() => readPastVideo(videoId, asOf ? { asOf } : { version: asked }, signal), { waiting: setWaiting, signal }),
    [videoId, asked, asOf],
  );
  const place = (/** @type {Record<string, string>} */ query) => hrefTo(["videos", videoId], { tab: "history", ...query });
  const then = found.value;
  const version = asked ?? then?.version ?? present;
  return html`<div class="above">
      <h2 tabindex="-1">${asOf ? TEXT.asOf(time(asOf)) : TEXT.version(version)}</h2>
      <span class="buttons">
        ${version > 1 && html`<a class="button" href=${place({ version: String(version - 1) })}>${TEXT.version(version - 1)}</a>`}
        ${version < present && html`<a class="button" href=${place({ version: String(version + 1) })}>${TEXT.version(version + 1)}</a>`}
        <a class="button" href=${place({})}>${texts.history.full}</a>
      </span>
    </div>
    <${RevertError} error=${found.error} isWaiting=${isWaiting} retry=${found.reload} />
    ${!then && found.isLoading && !isWaiting && html`<${Loading} />`}
    ${then && html`<article class="past-video" aria-label=${TEXT.version(version)}>
      <h3><${UserText}>${then.title}<//></h3>
      <p><${Status} of=${then.status} />${asOf && ` ${TEXT.ofVersion(version)}`}</p>
      ${then.description && html`<p class="description"><${UserText}>${then.description}<//></p>`}
      <${VideoFields} video=${then} />
      ${then.without.length > 0 && html`<p class="hint">${TEXT.notStored(then.without.map((name) => fieldName(`/${name}`)).join(", "))}</p>`}
      ${version < present && html`<div class="actions">
        <a class="button" href=${place({ from: String(version) })}>${texts.video.history.compareCurrent}</a>
        <button type="button" onClick=${() => onRevert({ toVersion: version })}>${TEXT.revert}</button>
      </div>`}
    </article>`}`;
}
