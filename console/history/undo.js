// Revert of a change set: a preview, then the revert. The service continues large reverts in the background; this page polls them.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useInterval, useLoad } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { Loading, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { retryUntilCurrent, revertChangeSet, readRevert } from "./requests.js";
import Report from "./report.js";
import { RevertError } from "./errors.js";
import { fieldName } from "./labels.js";

const TEXT = texts.history.undo;

/** @typedef {import("./requests.js").Run} Run @typedef {import("./subjects.js").Titles} Titles */

const PERIOD_MS = 1500;

/** Preview and revert a change set. The id of a background run is in the URL, so that a reload continues to poll it.
 *
 * `onReverted` is called after the revert.
 * @param {{ changesetId: string, query: URLSearchParams, titles: Titles, onReverted: () => void }} props */
export default function Undo({ changesetId, query, titles, onReverted }) {
  const revertId = query.get("revert");
  const [isWaiting, setWaiting] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [busy, setBusy] = useState(/** @type {"" | "preview" | "undo"} */ (""));
  /** Run whose first response was already final. */
  const [immediateRun, setImmediateRun] = useState(/** @type {Run | null} */ (null));
  const [force, setForce] = useState(() => query.getAll("force"));
  const watched = useLoad(async (signal) => (revertId ? readRevert(changesetId, revertId, undefined, signal) : null), [changesetId, revertId]);
  const run = immediateRun ?? watched.value;
  const isOn = run !== null && run.state !== "done";
  useInterval(() => watched.isLoading || watched.reload(), PERIOD_MS, isOn);

  const asked = useRef(revertId);
  useEffect(() => {
    if (asked.current !== revertId) setImmediateRun(null); // the user opened another run
    asked.current = revertId;
  }, [revertId]);

  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const wasOn = useRef(isOn);
  useEffect(() => {
    if (wasOn.current && !isOn) announceDone(run);
    wasOn.current = isOn;
  }, [isOn]);

  const announceDone = (/** @type {Run | null} */ done) => {
    if (!done || done.dryRun) return;
    announceText(TEXT.done);
    onReverted();
  };
  const start = async (/** @type {boolean} */ dryRun) => {
    setBusy(dryRun ? "preview" : "undo");
    setError(null);
    try {
      const begun = await retryUntilCurrent(() => revertChangeSet(changesetId, force, dryRun), { waiting: setWaiting });
      if (begun.state === "done") {
        setImmediateRun(begun);
        announceDone(begun);
      } else {
        setImmediateRun(null);
        navigate(hrefTo(["changesets", changesetId], { revert: begun.revertId, force: dryRun ? force : [] }), { replace: true });
      }
      heading.current?.focus(); // the clicked button may no longer exist
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy("");
    }
  };

  const canUndo = run !== null && run.dryRun && run.state === "done" && run.reverted + (force.length ? run.skipped : 0) > 0;
  return html`<section class="undo" aria-label=${TEXT.revert}>
    <h2 ref=${heading} tabindex="-1">${titleOf(run)}</h2>
    ${!run && !revertId && html`<p>${TEXT.hint}</p>`}
    ${!run && watched.isLoading && revertId && html`<${Loading} />`}
    ${run && html`<${Report} key=${run.revertId} changesetId=${changesetId} run=${run} titles=${titles} />`}
    ${run?.dryRun && !isOn && html`<${ForceFields} run=${run} force=${force} setForce=${setForce} />`}
    <${RevertError} error=${error ?? watched.error} isWaiting=${isWaiting} retry=${error || !watched.error ? undefined : watched.reload} />
    <div class="actions">
      ${canUndo && html`<button type="button" class="primary" disabled=${busy !== ""} onClick=${() => start(false)}>
        ${busy === "undo" ? texts.history.revert.busy : TEXT.revertNow}</button>`}
      ${!isOn && html`<button type="button" class=${run ? "" : "primary"} disabled=${busy !== ""} onClick=${() => start(true)}>
        ${busy === "preview" ? texts.history.revert.loading : run ? TEXT.refreshPreview : TEXT.previewRevert}</button>`}
      ${run && !run.dryRun && !isOn && run.reverted > 0 && html`<a class="button" href=${hrefTo(["changesets", run.revertId])}>${TEXT.setOfRevert}</a>`}
    </div>
  </section>`;
}

/** Fields that were changed later. Each selected field is reverted anyway, in all items of the change set.
 * @param {{ run: Run, force: string[], setForce: (force: string[]) => void }} props */
function ForceFields({ run, force, setForce }) {
  /** @type {Map<string, number>} */
  const numbers = new Map(force.map((field) => [field, 0]));
  for (const { skipped = [] } of run.items) {
    for (const { field, reason } of skipped) if (reason === "changedSince") numbers.set(field, (numbers.get(field) ?? 0) + 1);
  }
  if (!numbers.size) return null;
  const toggle = (/** @type {string} */ field) =>
    setForce(force.includes(field) ? force.filter((other) => other !== field) : [...force, field]);
  return html`<fieldset>
    <legend>${TEXT.force}</legend>
    ${[...numbers].map(([field, number]) => html`<label class="check" key=${field}>
      <input type="checkbox" checked=${force.includes(field)} onChange=${() => toggle(field)} />
      <span>${fieldName(field)}${number > 0 && html` <small>${TEXT.inItems(number)}</small>`}</span>
    </label>`)}
  </fieldset>`;
}

/** @param {Run | null} run */
function titleOf(run) {
  if (!run) return TEXT.revert;
  if (run.state !== "done") return run.dryRun ? TEXT.previewing : texts.history.report.reverting;
  return run.dryRun ? TEXT.previewTitle : TEXT.doneTitle;
}
