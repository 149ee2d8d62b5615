// Dialogs that create and edit a webhook.

import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useAttempt } from "../core/load.js";
import { Dialog, Failure, Field, announceText } from "../design/parts.js";
import { useIdempotencyKey } from "../playlists/idempotency.js";
import { texts } from "../texts/index.js";
import { create, patch, read } from "./requests.js";
import { chosenOf, Types, typesIn } from "./types.js";

const TEXT = texts.webhooks.form;

/** @typedef {import("./requests.js").Webhook} Webhook @typedef {import("./requests.js").Version} Version */
/** Content of the form. `owners` selects the owners of the delivered changes, only when a webhook is created.
 * @typedef {{ url: string, description: string, chosen: import("./types.js").Chosen, owners: "own" | "all" | "user", userId: string }} Draft */

/** Dialog to create a webhook. `followsAll`: whether the user may subscribe to other users' changes.
 * @param {{ followsAll: boolean, onClose: () => void, onCreated: (webhook: import("./requests.js").WithSecret) => void }} props */
export function Create({ followsAll, onClose, onCreated }) {
  const [draft, setDraft] = useState(/** @type {Draft} */ ({ url: "", description: "", chosen: null, owners: "own", userId: "" }));
  const once = useIdempotencyKey();
  const attempt = useAttempt(async () => {
    requireTypes(draft);
    const { url, description, chosen, owners, userId } = draft;
    const body = {
      url: url.trim(), types: typesIn(chosen), ...(description && { description }),
      ...(owners !== "own" && { userId: owners === "all" ? "*" : userId.trim() }),
    };
    onCreated(await once(body, (key) => create(body, key)));
  });
  return html`<${Dialog} title=${texts.webhooks.create} class="webhook-form" onClose=${onClose}>
    <${Form} draft=${draft} onInput=${setDraft} attempt=${attempt} canChooseOwners=${followsAll}>
      <button class="primary" disabled=${attempt.isBusy}>${attempt.isBusy ? TEXT.creating : texts.common.create}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    <//>
  <//>`;
}

/** @param {{ start: Version, onClose: () => void, onSaved: (now: Version) => void }} props */
export function Edit({ start, onClose, onSaved }) {
  const [base, setBase] = useState(start);
  const [draft, setDraft] = useState(() => draftOf(start.webhook));
  const [isConflict, setConflict] = useState(false);
  const attempt = useAttempt(async () => {
    requireTypes(draft);
    const { webhookId } = base.webhook;
    const wanted = patchBetween(draftOf(base.webhook), draft);
    if (!Object.keys(wanted).length) return onSaved(base);
    try {
      const now = await patch(webhookId, wanted, base.etag);
      announceText(texts.common.saved);
      onSaved(now);
    } catch (error) {
      if (!(error instanceof Problem && error.status === 412)) throw error;
      const now = await read(webhookId);
      const theirs = patchBetween(draftOf(base.webhook), draftOf(now.webhook));
      setBase(now);
      setDraft({ ...draftOf(now.webhook), ...pick(draft, Object.keys(wanted)) });
      setConflict(Object.keys(theirs).length > 0);
      // Only other attributes changed, such as `paused`: save again without asking the user.
      if (!Object.keys(theirs).length) onSaved(await patch(webhookId, wanted, now.etag));
    }
  });
  return html`<${Dialog} title=${TEXT.title} class="webhook-form" onClose=${onClose}>
    ${isConflict && html`<div class="failure" role="alert"><strong>${texts.common.changedByAnother}</strong>
      <p>${TEXT.conflict}</p></div>`}
    <${Form} draft=${draft} onInput=${setDraft} attempt=${attempt}>
      <button class="primary" disabled=${attempt.isBusy}>${attempt.isBusy ? texts.common.saving : texts.common.save}</button>
      <button type="button" onClick=${onClose}>${texts.common.cancel}</button>
    <//>
  <//>`;
}

/** @param {{ draft: Draft, onInput: (draft: Draft) => void, attempt: { error: unknown, isBusy: boolean, run: () => Promise<void> },
 *   canChooseOwners?: boolean, children?: import("../design/parts.js").Children }} props */
function Form({ draft, onInput, attempt: { error, isBusy, run }, canChooseOwners = false, children }) {
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const at = (/** @type {string} */ pointer) => (error instanceof Problem ? error.at(pointer) : undefined);
  const typesFault = error instanceof Problem ? error.errors.find(({ pointer }) => pointer?.match(/^\/types(\/|$)/))?.detail : undefined;
  const isShown = ["/url", "/description"].some(at) || typesFault || (canChooseOwners && at("/userId"));
  const set = (/** @type {Partial<Draft>} */ part) => onInput({ ...draft, ...part });
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), []);
  useLayoutEffect(() => {
    const first = error && !isBusy ? form.current?.querySelector('[aria-invalid="true"]') : null;
    if (first instanceof HTMLElement) first.focus();
  }, [error, isBusy]);
  return html`<form ref=${form} onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    void run();
  }}>
    <${Field} label=${TEXT.url} kind="url" value=${draft.url} onInput=${(/** @type {string} */ url) => set({ url })} error=${at("/url")} readOnly=${isBusy}
      required autocomplete="off" spellcheck=${false} placeholder="https://example.com/changes" hint=${TEXT.urlHint} />
    <${Field} label=${texts.fields.description} value=${draft.description} onInput=${(/** @type {string} */ description) => set({ description })}
      error=${at("/description")} readOnly=${isBusy} autocomplete="off" hint=${TEXT.descriptionHint} />
    ${canChooseOwners && html`<${Field} label=${TEXT.changesOf} kind="select" value=${draft.owners} disabled=${isBusy}
        error=${draft.owners === "user" ? undefined : at("/userId")}
        onInput=${(/** @type {Draft["owners"]} */ owners) => set({ owners })}>
        <option value="own">${TEXT.own}</option><option value="all">${TEXT.allUsers}</option><option value="user">${TEXT.oneUser}</option>
      <//>
      ${draft.owners === "user" && html`<${Field} label=${texts.common.user} value=${draft.userId} error=${at("/userId")} readOnly=${isBusy} required
        onInput=${(/** @type {string} */ userId) => set({ userId })} autocomplete="off" spellcheck=${false} />`}`}
    <${Types} chosen=${draft.chosen} onChange=${(/** @type {Draft["chosen"]} */ chosen) => set({ chosen })} error=${typesFault} disabled=${isBusy} />
    ${!isShown && html`<${Failure} error=${error} />`}
    <div class="actions">${children}</div>
  </form>`;
}

/** Throw Problem if no type is selected, because the API interprets an empty list as all types. @param {Draft} draft */
function requireTypes({ chosen }) {
  if (!chosen || chosen.size) return;
  const detail = TEXT.noneChosen;
  throw new Problem({ status: 0, title: TEXT.invalidTitle, detail, errors: [{ pointer: "/types", detail }] });
}

/** @param {Webhook} webhook @returns {Draft} */
export function draftOf({ url, description = "", types }) {
  return { url, description, chosen: chosenOf(types), owners: "own", userId: "" };
}

/** Return the merge patch (RFC 7396) from `before` to `after`. @param {Draft} before @param {Draft} after */
export function patchBetween(before, after) {
  /** @type {Record<string, any>} */
  const changes = {};
  if (after.url.trim() !== before.url) changes.url = after.url.trim();
  if (after.description !== before.description) changes.description = after.description || null;
  const types = typesIn(after.chosen);
  if (types.join() !== typesIn(before.chosen).join()) changes.types = types;
  return /** @type {import("./requests.js").Patch} */ (changes);
}

/** Return the changed fields of a draft. @param {Draft} draft @param {string[]} names of the patch @returns {Partial<Draft>} */
function pick({ url, description, chosen }, names) {
  return {
    ...(names.includes("url") && { url }), ...(names.includes("description") && { description }), ...(names.includes("types") && { chosen }),
  };
}
