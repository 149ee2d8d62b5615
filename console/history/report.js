// Progress and result of the revert of a change set, or of its preview: counts, and the parts that were skipped or failed.

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { count } from "../core/formats.js";
import { Failure, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { readRevert } from "./requests.js";
import { SkipReason } from "./entries.js";
import { Subject, useTitles } from "./subjects.js";
import { fieldName } from "./labels.js";

const TEXT = texts.history.report;

/** @typedef {import("./requests.js").Run} Run @typedef {import("./requests.js").Part} Part @typedef {import("./subjects.js").Titles} Titles */

/** Maximum number of successful parts that are shown without a click. */
const FEW = 5;

/** @param {{ changesetId: string, run: Run, titles: Titles }} props */
export default function Report({ changesetId, run, titles: known }) {
  const { dryRun, examined, reverted, unchanged, skipped, failed, waiting } = run;
  const { items, rest, more, error, isLoading } = useParts(changesetId, run);
  const titles = new Map([...useTitles(items), ...known]);
  const isOn = run.state !== "done";
  const fine = items.filter(({ result, skipped: left = [] }) => (result === "reverted" || result === "unchanged") && !left.length);
  const open = items.filter((part) => !fine.includes(part));
  const strong = (/** @type {number} */ number) => html`<strong>${count(number)}</strong>`;
  const row = (/** @type {Part} */ part) => html`<${Row} key=${JSON.stringify([part.entity, part.videoId, part.playlistId, part.personId, part.region, part.language])}
    part=${part} titles=${titles} dryRun=${dryRun} />`;
  return html`<div class="report">
    ${isOn && html`<progress aria-label=${dryRun ? TEXT.loadingPreview : TEXT.reverting}></progress>`}
    <p role="status">${isOn && `${TEXT.checked(examined)} `}${(dryRun ? TEXT.previewed : TEXT.reverted)(strong(reverted), strong(unchanged), strong(skipped), strong(failed), waiting > 0 && strong(waiting))}</p>
    ${open.length > 0 && html`<ul class="parts">${open.map(row)}</ul>`}
    ${fine.length > 0 && html`<details open=${fine.length <= FEW}><summary>${TEXT.fine(fine.length)}</summary><ul class="parts">${fine.map(row)}</ul></details>`}
    <${Failure} error=${error} retry=${more} />
    ${rest && !isOn && html`<button type="button" disabled=${isLoading} onClick=${more}>${TEXT.more}</button>`}
  </div>`;
}

/** Load the parts of a run: the current first page, and further pages by `more`.
 * @param {string} changesetId @param {Run} run */
function useParts(changesetId, run) {
  const [later, setLater] = useState(/** @type {{ items: Part[], cursor: string | null | undefined }} */ ({ items: [], cursor: undefined }));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isLoading, setLoading] = useState(false);
  useEffect(() => setLater({ items: [], cursor: undefined }), [run.state]);
  const rest = later.cursor === undefined ? run.nextCursor : later.cursor;
  const more = () => {
    if (!rest) return;
    setLoading(true);
    setError(null);
    readRevert(changesetId, run.revertId, rest).then(
      ({ items, nextCursor }) => setLater((before) => ({ items: [...before.items, ...items], cursor: nextCursor ?? null })),
      setError,
    ).finally(() => setLoading(false));
  };
  return { items: [...run.items, ...later.items], rest, more, error, isLoading };
}

/** @param {{ part: Part, titles: Titles, dryRun: boolean }} props */
function Row({ part, titles, dryRun }) {
  const { result, fields = [], skipped = [], omitted, problem } = part;
  return html`<li>
    <${Subject} of=${part} titles=${titles} />
    ${result === "unchanged" && html` <small>${TEXT.unchanged}</small>`}
    ${fields.length > 0 && html`<p>${(dryRun ? TEXT.previewedFields : TEXT.revertedFields)(fields.map((field, index) => html`${index > 0 && ", "}<${UserText}>${fieldName(field) || TEXT.allFields}<//>`))}</p>`}
    ${skipped.map((left) => html`<p key=${left.field} class="skipped">${TEXT.skippedField(html`<strong><${UserText}>${fieldName(left.field) || TEXT.allFields}<//></strong>`, html`<${SkipReason} ...${left} />`)}</p>`)}
    ${omitted && html`<p class="hint">${TEXT.andMore(omitted)}</p>`}
    ${result === "failed" && html`<p class="fault">${TEXT.failed(String(problem?.detail ?? problem?.title ?? TEXT.unknown))}</p>`}
  </li>`;
}
