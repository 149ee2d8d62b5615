// Dialog that reverts one change of a video, or restores a version: its effect field by field, then the revert itself.

import { html } from "htm/preact";
import { useId, useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { Dialog, Loading, announceText, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { retryUntilCurrent, revert } from "./requests.js";
import { FromTo, SkipReason } from "./entries.js";
import { RevertError } from "./errors.js";
import { explain } from "../video/sentences.js";
import { fieldName } from "./labels.js";

const TEXT = texts.history.revert;

/**
 * @typedef {import("./requests.js").Change} Change
 * @typedef {import("./requests.js").Skipped} Skipped
 * @typedef {{ toVersion: number, fields?: string[] }} RevertRequest The version to restore. With `fields`, JSON Pointers of one change, only
 *   these are ticked at first.
 * @typedef {{ field: string, change?: Change, since?: Skipped, isForced?: boolean, isOther?: boolean }} Row `since`: a later change of
 *   another user, which stays unless it is ticked. `isForced`: the API reverts it only if `force` names it. `isOther`: no field of the
 *   chosen change.
 */

/** JSON Pointer of the whole video: overwrites later changes of all fields. */
const ALL = [""];

/** @param {Pick<import("../screens/video.js").PartProps, "video" | "etag" | "changed"> & { wanted: RevertRequest, onClose: () => void }} props */
export default function Revert({ video, etag, changed, wanted, onClose }) {
  const { videoId, viewCount } = video;
  const version = etag ?? `"${video.version}"`;
  const [isWaiting, setWaiting] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [isRestarted, setRestarted] = useState(false);
  /** Checkboxes that the user changed, by field. */
  const [choices, setChoices] = useState(/** @type {Map<string, boolean>} */ (new Map()));

  const preview = useLoad(async (signal) => {
    try {
      return await retryUntilCurrent(() => loadPreview(videoId, version, wanted, signal), { waiting: setWaiting, signal });
    } catch (reason) {
      if (isMismatch(reason)) changed(); // the preview starts again with the current version
      throw reason;
    }
  }, [videoId, version]);

  const rows = preview.value?.rows ?? [];
  const isTicked = (/** @type {Row} */ { field, since, isOther }) => choices.get(field) ?? !(since || isOther);
  const ticked = rows.filter(isTicked);
  const run = async () => {
    setBusy(true);
    setError(null);
    const isWhole = rows.every((row) => row.since || isTicked(row) !== Boolean(row.isOther));
    const force = ticked.filter(({ isForced }) => isForced).map(({ field }) => field);
    const fields = isWhole ? wanted.fields : ticked.map(({ field }) => field);
    try {
      const body = { toVersion: wanted.toVersion, ...(fields && { fields }), ...(force.length > 0 && { force }) };
      const { data, etag: tag } = await retryUntilCurrent(() => revert(videoId, version, body, { dryRun: false }), { waiting: setWaiting });
      announceText(TEXT.reverted(data.changes.length));
      onClose();
      changed({ ...data.video, viewCount }, tag);
    } catch (reason) {
      setError(reason);
      if (isMismatch(reason)) {
        setRestarted(true);
        setError(null);
        changed();
      }
    } finally {
      setBusy(false);
    }
  };

  const group = (/** @type {string} */ title, /** @type {Row[]} */ some) => some.length > 0 && html`<fieldset class="card" disabled=${isBusy}>
    <legend>${title}</legend>
    ${some.map((row) => html`<${Choice} key=${row.field} row=${row} isTicked=${isTicked(row)}
      fault=${error instanceof Problem ? error.at(row.field) : undefined}
      tick=${(/** @type {boolean} */ is) => setChoices(new Map(choices).set(row.field, is))} />`)}
  </fieldset>`;
  return html`<${Dialog} class="revert sheet" onClose=${onClose}
    title=${wanted.fields ? TEXT.changeQuestion(wanted.toVersion + 1) : TEXT.versionQuestion(wanted.toVersion)}>
    <div class="sheet-body">
    ${isRestarted && html`<p class="fault" role="alert">${TEXT.conflict}</p>`}
    ${preview.value && group(TEXT.fields, rows.filter(({ since, isOther }) => !since && !isOther))}
    ${preview.value && group(TEXT.changedLater, rows.filter(({ since, isOther }) => since && !isOther))}
    ${preview.value && group(TEXT.others(wanted.toVersion), rows.filter(({ isOther }) => isOther))}
    ${preview.value && !rows.length && html`<p>${TEXT.nothing}</p>`}
    ${preview.value?.omitted && html`<p class="hint">${TEXT.includes(preview.value.omitted)}</p>`}
    ${preview.value?.fixed.map(({ field }) => html`<p class="hint">${TEXT.fixed(fieldName(field))}</p>`)}
    ${!preview.value && (preview.isLoading || isMismatch(preview.error)) && !isWaiting && html`<${Loading} what=${TEXT.loading} />`}
    <${RevertError} error=${error ?? (isMismatch(preview.error) ? null : preview.error)} isWaiting=${isWaiting} retry=${preview.error && !error ? preview.reload : undefined} />
    </div>
    <div class="actions">
      ${rows.length > 0 && html`<button type="button" class="primary" disabled=${isBusy || preview.isLoading || !ticked.length}
        onClick=${run}>${isBusy ? TEXT.busy : TEXT.revert(ticked.length)}</button>`}
      <button type="button" onClick=${onClose}>${preview.value && !rows.length ? texts.common.close : texts.common.cancel}</button>
    </div>
  <//>`;
}

/** Preview the effect of a revert on each field. With `fields`, also on the other fields that differ from the version.
 * @param {string} videoId @param {string} version @param {RevertRequest} wanted @param {AbortSignal} signal
 * @returns {Promise<{ rows: Row[], fixed: Skipped[], omitted?: number }>} */
export async function loadPreview(videoId, version, wanted, signal) {
  const { fields, toVersion } = wanted;
  const [chosen, whole] = await Promise.all([
    previewOf(videoId, version, wanted, signal),
    fields ? previewOf(videoId, version, { toVersion }, signal).catch(nullIfRejected) : null,
  ]);
  const others = whole?.rows.filter(({ field }) => !fields?.includes(field) && !chosen.rows.some((row) => row.field === field)).map((row) => ({ ...row, isOther: true }));
  return { ...chosen, rows: [...chosen.rows, ...others ?? []] };
}

/** Preview a revert of the same version of the video with and without `force`.
 *
 * Fields that another user changed after the chosen change are not selected at first. The chosen change itself is.
 * @param {string} videoId @param {string} version @param {RevertRequest} wanted @param {AbortSignal} signal
 * @returns {Promise<{ rows: Row[], fixed: Skipped[], omitted?: number }>} */
async function previewOf(videoId, version, wanted, signal) {
  const ask = (/** @type {string[] | undefined} */ force) =>
    revert(videoId, version, { ...wanted, ...(force && { force }) }, { dryRun: true, signal });
  const { data: unforced } = await ask(undefined);
  const since = unforced.skipped.filter(({ reason }) => reason !== "notWritable");
  /** @type {Change[]} */
  let forced = [];
  if (since.length) {
    // If the service rejects forcing all fields, single fields may still succeed. They are listed without values.
    forced = (await ask(ALL).catch(nullIfRejected))?.data.changes ?? [];
  }
  return {
    rows: [
      ...unforced.changes.map((change) => ({ field: change.field, change })),
      ...since.map((skipped) => ({
        field: skipped.field, isForced: true, since: isUndone(skipped, wanted) ? undefined : skipped,
        change: forced.find(({ field }) => field === skipped.field),
      })),
    ],
    fixed: unforced.skipped.filter(({ reason }) => reason === "notWritable"),
    omitted: unforced.omitted,
  };
}

/** Return null if the service rejects the revert; throw any other error. @param {unknown} reason */
function nullIfRejected(reason) {
  if (reason instanceof Problem && [409, 410, 422].includes(reason.status)) return null;
  throw reason;
}

/** Whether a field was skipped only because of the change that is being reverted.
 * @param {Skipped} skipped @param {RevertRequest} wanted */
function isUndone({ version }, { toVersion, fields }) {
  return fields !== undefined && version === toVersion + 1;
}

/** @param {{ row: Row, isTicked: boolean, fault?: string, tick: (is: boolean) => void }} props */
function Choice({ row: { field, change, since }, isTicked, fault, tick }) {
  const id = useId();
  return html`<div class="option">
    <input type="checkbox" id=${id} checked=${isTicked} aria-invalid=${fault ? "true" : undefined} aria-describedby=${`${id}-more`}
      onChange=${(/** @type {Event} */ event) => tick(/** @type {HTMLInputElement} */ (event.currentTarget).checked)} />
    <div><label for=${id}><${UserText}>${fieldName(field)}<//></label>${change && html`: <${FromTo} ...${change} />`}
      <div id=${`${id}-more`}>
        ${since && html`<small><${SkipReason} ...${since} /></small>`}
        ${fault && html`<p class="fault">${explain(fault)}</p>`}
      </div>
    </div>
  </div>`;
}

/** @param {unknown} error */
function isMismatch(error) {
  return error instanceof Problem && error.kind === "version-mismatch";
}
