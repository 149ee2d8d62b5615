// Components of all screens. `#/design` shows them.

import { html } from "htm/preact";
import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { lookUp } from "../core/lookup.js";
import { isServed } from "../core/media.js";
import { hrefTo, navigate } from "../core/route.js";
import { UserError } from "../core/user-error.js";
import { asSentence, count, date, exactTime, formatRange, relativeTime } from "../core/formats.js";
import { texts } from "../texts/index.js";
import { ICONS } from "./icons.js";

const TEXT = texts.parts;

/** @typedef {import("preact").ComponentChildren} Children */

/** Text from users. `bdi` isolates its writing direction from the text around it.
 * @param {{ children?: Children, class?: string, title?: string }} props */
export function UserText(props) {
  return html`<bdi ...${props}>${props.children}</bdi>`;
}

/** First 8 characters of an id, with the whole id as tooltip. @param {{ id: string }} props */
export function ShortId({ id }) {
  return html`<bdi title=${id}>${id.slice(0, 8)}</bdi>`;
}

/** Icon next to a label, hidden from screen readers. @param {{ name: import("./icons.js").IconName }} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${ICONS[name].map(([tag, attributes]) => html`<${tag} ...${attributes} />`)}</svg>`;
}

/** Relative time, with the exact time as tooltip; a date if it is more than 30 days ago or in the future.
 * @param {{ at: number }} props milliseconds of the epoch */
export function Time({ at }) {
  return html`<time datetime=${new Date(at).toISOString()} title=${exactTime(at)}>${relativeTime(at, Date.now()) ?? date(at / 1000)}</time>`;
}

/** Links to the parent screens of a page, then its title.
 * @param {{ path: [string, string][], here: unknown }} props `path`: title and
 * address of each parent */
export function Breadcrumbs({ path, here }) {
  return html`<nav class="crumbs" aria-label=${TEXT.breadcrumbs}><ol>
    ${path.map(([title, href]) => html`<li><a href=${href}><${UserText}>${title}<//></a> <span aria-hidden="true">/</span></li>`)}
    <li aria-current="page"><${UserText}>${here}<//></li>
  </ol></nav>`;
}

/** Button that opens a list of links and buttons. Escape, a click outside and, without `keepOpen`, a selection close it.
 * @param {{ label: unknown, children?: Children, class?: string, keepOpen?: boolean, [attribute: string]: unknown }} props */
export function Menu({ label, children, class: name = "quiet", keepOpen = false, ...more }) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  useLayoutEffect(() => {
    if (!isOpen) return;
    const leave = (/** @type {Event} */ { target }) => root.current?.contains(/** @type {Node} */ (target)) || setOpen(false);
    document.addEventListener("pointerdown", leave);
    document.addEventListener("focusin", leave);
    return () => {
      document.removeEventListener("pointerdown", leave);
      document.removeEventListener("focusin", leave);
    };
  }, [isOpen]);
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !isOpen) return;
    event.stopPropagation();
    setOpen(false);
    root.current?.querySelector("button")?.focus();
  };
  return html`<span class="menu" ref=${root} onKeyDown=${press}>
    <button type="button" class=${name} aria-expanded=${String(isOpen)} aria-controls=${id} onClick=${() => setOpen(!isOpen)} ...${more}>${label}</button>
    ${isOpen && html`<span class="menu-panel" id=${id} onClick=${() => keepOpen || setOpen(false)}>${children}</span>`}
  </span>`;
}

/** Error message, with a retry button if `retry` is given.
 * @param {{ error: unknown, retry?: () => void }} props */
export function Failure({ error, retry }) {
  if (!error) return null;
  const { title, detail } = messageOf(error);
  return html`<div class="failure" role="alert">
    <strong>${title}</strong>
    <p>${detail}</p>
    ${retry && html`<button type="button" onClick=${retry}>${texts.common.tryAgain}</button>`}
  </div>`;
}

/** Return the title and detail of an error for users. The text of other errors, such as a library's, is not shown.
 * @param {unknown} error */
export function messageOf(error) {
  if (error instanceof Problem) {
    const detail = error.retryAfter ? TEXT.retryAfter(error.message, formatRange(error.retryAfter)) : error.message;
    return { title: error.title, detail };
  }
  return { title: texts.app.failed, detail: error instanceof UserError ? error.message : TEXT.unknownError };
}

/** Empty state: the reason, and what the user can do.
 * @param {{ icon?: import("./icons.js").IconName, children?: Children }} props */
export function Empty({ icon = "inbox", children }) {
  return html`<div class="empty"><${Icon} name=${icon} />${children}</div>`;
}

/** @param {{ what?: string }} props */
export function Loading({ what = TEXT.loading }) {
  return html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${what}</p>`;
}

/** Labelled input with its error. `kind` is an input type, `textarea` (grows with its text) or `select` (options as `children`).
 * `most` is the maximum length, shown with a character count.
 * @param {{ label: string, value: string, onInput: (value: string) => void, error?: string, hint?: string, kind?: string, most?: number,
 *   children?: Children, [attribute: string]: unknown }} props */
export function Field({ label, value, onInput, error: refused, hint, kind = "text", most, children, ...more }) {
  const id = useId();
  const validity = useValidity();
  const error = refused || validity.fault;
  const described = [error && `${id}-error`, hint && `${id}-hint`].filter(Boolean).join(" ") || undefined;
  const attributes = {
    id, value, "aria-invalid": error ? "true" : undefined, "aria-describedby": described,
    onInvalid: validity.onInvalid,
    onInput: (/** @type {InputEvent} */ event) => {
      validity.clear();
      onInput(/** @type {HTMLInputElement} */ (event.currentTarget).value);
    },
    ...more,
  };
  return html`<div class="field">
    <label for=${id}>${label}</label>${most !== undefined && html`<${CharacterCount} text=${value} most=${most} />`}
    ${kind === "textarea" ? html`<span class="auto-height" data-text=${`${value} `}><textarea dir="auto" ...${attributes}></textarea></span>`
      : kind === "select" ? html`<select ...${attributes}>${children}</select>`
        : html`<input type=${kind} dir=${kind === "text" ? "auto" : undefined} ...${attributes} />`}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="fault" id=${`${id}-error`}>${asSentence(error)}</p>`}
  </div>`;
}

/** Return the browser's validation error of an input at submit, to show instead of the browser's popup. */
export function useValidity() {
  const [fault, setFault] = useState("");
  const onInvalid = (/** @type {Event} */ event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    setFault(faultOf(input));
    if (input.form?.querySelector(":is(input, select, textarea):invalid") === input) input.focus(); // the first invalid input
  };
  return { fault, onInvalid, clear: () => setFault("") };
}

/** @param {HTMLInputElement} input */
function faultOf({ validity, type, min, max }) {
  if (validity.valueMissing) return type === "file" ? TEXT.selectFile : TEXT.fillIn;
  if (validity.rangeUnderflow || validity.rangeOverflow) return TEXT.outOfRange(min, max);
  return type === "url" ? TEXT.invalidUrl : TEXT.invalid;
}

/** Length of a text and its limit. Screen readers get the limit as the field's error when it is exceeded.
 * @param {{ text: string, most: number }} props */
function CharacterCount({ text, most }) {
  const number = lengthOf(text);
  return html`<span class=${`count ${number > most ? "is-over" : ""}`} aria-hidden="true">${count(number)} / ${count(most)}</span>`;
}

/** Return the number of code points of a text, as the service counts them. @param {string} text */
export function lengthOf(text) {
  return [...text].length;
}

/** Modal dialog that is open while it is rendered. Escape calls `onClose`. The class `wide` is for large content; `sheet` also
 * keeps the last `.actions` visible while the `.sheet-body` scrolls.
 * @param {{ title: string, onClose?: () => void, children?: Children, class?: string }} props */
export function Dialog({ title, onClose, children, ...more }) {
  const id = useId();
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Refs run before layout effects, in which the content may set the focus. The dialog must be open by then.
  const open = useCallback((/** @type {HTMLDialogElement | null} */ element) => {
    dialog.current = element;
    element?.showModal();
  }, []);
  useLayoutEffect(() => () => dialog.current?.close(), []);
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault(); // the parent decides whether it closes
    if (event.cancelable) onClose?.(); // otherwise `closed` reopens this dialog, and then calls onClose
  };
  const closed = () => {
    if (!dialog.current?.isConnected) return;
    dialog.current.showModal(); // at a second Escape, browsers close it without a cancelable event
    onClose?.();
  };
  return html`<dialog ref=${open} aria-labelledby=${id} onCancel=${cancel} onClose=${closed} ...${more}>
    <h2 id=${id}>${title}</h2>
    ${children}
  </dialog>`;
}

/** Poster of a video, next to its title and therefore hidden from screen readers. Without an image that the page may load, it
 * shows the title on a colour derived from the video's id.
 * @param {{ url?: string, of?: { videoId: string, title: string } }} props */
export function Poster({ url, of }) {
  const [broken, setBroken] = useState("");
  const isShown = url && url !== broken && isServed(url);
  const drawn = !isShown && of ? html`<span class="generated-poster" aria-hidden="true" dir="auto" data-title=${of.title.slice(0, 80)} style=${{ "--hue": hueOf(of.videoId) }}></span>` : null;
  return html`<span class="poster">
    ${isShown ? html`<img src=${url} alt="" loading="lazy" decoding="async" onError=${() => setBroken(url)} />` : drawn}
  </span>`;
}

/** Return the hue of an id, in degrees. @param {string} id */
export function hueOf(id) {
  return [...id].reduce((sum, character) => (sum * 31 + (character.codePointAt(0) ?? 0)) % 360, 0);
}

/** Return the label of a state or visibility of the API. @param {string} name */
export function stateName(name) {
  return lookUp(texts.states, name) ?? name;
}

/** Badge of the status of a video or job, or of a visibility. @param {{ of: string }} props */
export function Status({ of }) {
  return html`<span class="status status-${of}">${stateName(of)}</span>`;
}

/** End of a list, which loads the next page when it comes near the viewport. The button is for users who cannot scroll.
 * @template T
 * @param {{ pages: import("../core/load.js").Pages<T> }} props */
export function LoadMore({ pages }) {
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  const latest = useRef(pages);
  latest.current = pages;
  useEffect(() => {
    if (!end.current) return;
    const observer = new IntersectionObserver(
      (entries) => {
        const { error, more } = latest.current;
        if (!error && entries.some((entry) => entry.isIntersecting)) more();
      },
      { rootMargin: "800px" },
    );
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [pages.items.length, pages.isDone, pages.isLoading]); // again after each page, because an empty page does not move the end
  if (pages.error) return html`<${Failure} error=${pages.error} retry=${pages.more} />`;
  if (pages.isDone) return null;
  return html`<div class="more" ref=${end}>
    ${pages.isLoading ? html`<${Loading} />` : html`<button type="button" onClick=${pages.more}>${texts.common.loadMore}</button>`}
  </div>`;
}

/** Button that shows the changes of a list since it was read. It takes no space, so that the list does not move.
 * With `isLast`, for a list with no content below it, changes of an empty list are shown without a click.
 * @template T
 * @param {{ pages: import("../core/load.js").Pages<T>, label?: (number: number) => string, isLast?: boolean, onShow?: () => void }} props */
export function PendingChanges({ pages, label = TEXT.showChanges, isLast, onShow }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => { // before the browser paints, so that no button appears for a moment
    if (isLast && pages.changeCount && !pages.items.length) pages.showChanges();
  });
  const show = () => {
    pages.showChanges();
    place.current?.focus({ preventScroll: true }); // the button disappears; the list starts here
    onShow?.();
  };
  return html`<div class="pending-changes" role="status" ref=${place} tabindex="-1">
    ${pages.changeCount > 0 && html`<button type="button" class="primary" onClick=${show}>${label(pages.changeCount)}</button>`}
  </div>`;
}

/** @type {(text: string, changeSet: string | null) => void} */
let announce = () => undefined;

/** Show and announce a message, such as after a save. It disappears after some seconds.
 * @param {string} text @param {string | null} [changeSet] id of the change set to undo */
export function announceText(text, changeSet = null) {
  announce(text, changeSet);
}

/** Last announcement, with a link to undo its change. */
export function Announcer() {
  const [shown, setShown] = useState({ text: "", changeSet: /** @type {string | null} */ (null), number: 0 });
  announce = (text, changeSet) => setShown(({ number }) => ({ text, changeSet, number: number + 1 }));
  useEffect(() => {
    const timer = setTimeout(() => setShown(({ number }) => ({ text: "", changeSet: null, number })), shown.changeSet ? 12_000 : 6000);
    return () => clearTimeout(timer);
  }, [shown.number]);
  // A new key for each message, so that screen readers also announce a repeated text.
  return html`<div class="announcer" role="status" aria-live="polite">
    ${shown.text && html`<span key=${shown.number}>${shown.text}</span>`}
    ${shown.changeSet && html`<a href=${hrefTo(["changesets", shown.changeSet])}>${texts.common.undo}</a>`}
  </div>`;
}

/** Form that opens the same screen for another user. @param {{ route: string, label: string, owner: string }} props */
export function OwnerForm({ route, label, owner }) {
  const [name, setName] = useState(owner);
  const show = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    navigate(hrefTo([route], { userId: name.trim() }));
  };
  return html`<form class="owner-form" onSubmit=${show} role="search" aria-label=${label}>
    <${Field} label=${label} hint=${texts.common.userIdHint} value=${name} onInput=${setName} autocomplete="off" maxlength="255" />
    <button>${texts.common.show}</button>
  </form>`;
}
