// Form and removal of items of a video that have their own version, such as credits, releases and captions.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useNavigationGuard } from "../core/route.js";
import { Dialog, Failure, announceText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.items;

/** Dialog of an item's form. `version` is the version to replace; null for a new item. `save` receives its conditional header.
 *
 * After a conflict, `fresh` reads the stored item, and the form keeps the typed text. The user then overwrites the stored item, or
 * loads it into the form by `take`.
 * @template T
 * @param {{ title: string, version: number | null, save: (condition: Record<string, string>) => Promise<unknown>,
 *   fresh: () => Promise<{ version: number, item: T } | null>, take: (item: T) => void, onError: (problem: Problem | null) => void,
 *   onSaved: () => void, onClose: () => void, children?: import("../design/parts.js").Children }} props */
export function ItemForm({ title, version, save, fresh, take, onError, onSaved, onClose, children }) {
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [theirs, setTheirs] = useState(/** @type {{ version: number, item: T } | null} */ (null));
  const [known, setKnown] = useState(version);
  const [isTyped, setTyped] = useState(false);
  const [isLeaving, setLeaving] = useState(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), []);
  useLayoutEffect(() => {
    const first = error && !isBusy ? form.current?.querySelector('[aria-invalid="true"]') : null;
    if (first instanceof HTMLElement) first.focus();
  }, [error, isBusy]);

  /** @param {number | null} replaced */
  const run = async (replaced) => {
    setBusy(true);
    setTheirs(null);
    setError(null);
    onError(null);
    try {
      await save(replaced === null ? { "If-None-Match": "*" } : { "If-Match": `"${replaced}"` });
      announceText(texts.common.saved);
      onSaved();
    } catch (reason) {
      await refused(reason).catch(setError);
    } finally {
      setBusy(false);
    }
  };

  /** @param {unknown} reason */
  const refused = async (reason) => {
    if (reason instanceof Problem && reason.kind === "version-mismatch") {
      const now = await fresh();
      if (now) return setTheirs(now);
      setKnown(null); // the other user removed it, so the next save creates it
    }
    if (reason instanceof Problem) onError(reason);
    setError(reason);
  };

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!isBusy) void run(known);
  };
  const close = () => (isTyped ? setLeaving(true) : onClose());
  useNavigationGuard(isTyped ? () => {
    setLeaving(true);
    return true;
  } : null);
  return html`<${Dialog} title=${title} class="sheet" onClose=${close}>
    <form ref=${form} onSubmit=${submit} onInput=${() => setTyped(true)} aria-label=${title} inert=${isBusy}>
      <div class="sheet-body">
        ${children}
        <${Failure} error=${error} />
        ${theirs && html`<div class="failure" role="alert">
          <strong>${texts.common.changedByAnother}</strong>
          <p>${version === null ? TEXT.exists : TEXT.conflict}</p>
        </div>`}
      </div>
      <div class="actions">
        ${theirs ? html`<button type="button" onClick=${() => run(theirs.version)}>${texts.common.keepMine}</button>
          <button type="button" onClick=${() => {
            take(theirs.item);
            setKnown(theirs.version);
            setTheirs(null);
          }}>${texts.common.takeTheirs}</button>`
          : html`<button type="submit" class="primary">${isBusy ? texts.common.saving : texts.common.save}</button>
            <button type="button" onClick=${close}>${texts.common.cancel}</button>`}
      </div>
    </form>
    ${isLeaving && html`<${DiscardDialog} onStay=${() => setLeaving(false)} onLeave=${onClose} />`}
  <//>`;
}

/** Dialog that confirms discarding unsaved input. @param {{ onStay: () => void, onLeave: () => void }} props */
export function DiscardDialog({ onStay, onLeave }) {
  return html`<${Dialog} title=${texts.common.discardQuestion} onClose=${onStay}>
    <p>${texts.common.unsaved}</p>
    <div class="actions">
      <button type="button" class="primary" onClick=${onStay}>${texts.common.keepEditing}</button>
      <button type="button" class="quiet danger" onClick=${onLeave}>${texts.common.discard}</button>
    </div>
  <//>`;
}

/** Button that removes an item after a confirmation.
 * @param {{ label: string, question: string, remove: () => Promise<unknown>, onRemoved: () => void }} props */
export function RemoveButton({ label, question, remove, onRemoved }) {
  const [isAsked, setAsked] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    const panel = /** @type {HTMLElement | null | undefined} */ (button.current?.closest("[role=tabpanel]"));
    // The removed row had the focus. Focus the panel, so that keyboard navigation does not restart at the top of the page.
    return () => void requestAnimationFrame(() => document.activeElement === document.body && panel?.focus());
  }, []);
  const run = async () => {
    setError(null);
    try {
      await remove();
      setAsked(false);
      announceText(texts.common.removed);
      onRemoved();
    } catch (reason) {
      setError(reason);
    }
  };
  return html`<button type="button" class="quiet" ref=${button} aria-label=${label} onClick=${() => setAsked(true)}>${texts.common.remove}</button>
    ${isAsked && html`<${Dialog} title=${question} onClose=${() => setAsked(false)}>
      <${Failure} error=${error} />
      <div class="actions">
        <button type="button" class="danger" onClick=${run}>${texts.common.remove}</button>
        <button type="button" onClick=${() => setAsked(false)}>${texts.common.cancel}</button>
      </div>
    <//>`}`;
}

/** Return the trimmed lines of a text, without blank ones. @param {string} text */
export function lines(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** Return the errors of a list and its items, joined; undefined if there are none.
 * @param {Problem | null} problem @param {string} pointer */
export function listFault(problem, pointer) {
  const faults = problem?.errors.filter((fault) => fault.pointer === pointer || fault.pointer?.startsWith(`${pointer}/`)) ?? [];
  return faults.length ? faults.map(({ detail }) => detail).join(" ") : undefined;
}

/** Return the error of a path or query parameter; undefined if there is none.
 * @param {Problem | null} problem @param {string} name */
export function parameterFault(problem, name) {
  return problem?.errors.find(({ parameter }) => parameter === name)?.detail;
}
