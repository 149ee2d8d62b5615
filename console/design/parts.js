// Parts of all screens. `#/design` shows them.

import { html } from "htm/preact";
import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { lookUp } from "../core/lookup.js";
import { isServed } from "../core/media.js";
import { hrefTo, navigate } from "../core/route.js";
import { UserError } from "../core/user-error.js";
import { asSentence, count, date, exactTime, formatRange, relativeTime } from "../core/words.js";
import { texts } from "../texts/index.js";
import { ICONS } from "./icons.js";

const TEXT = texts.parts;

/** @typedef {import("preact").ComponentChildren} Children */

/** Text that somebody typed: its direction does not spill over into what stands beside it.
 * @param {{ children?: Children, class?: string, title?: string }} props */
export function UserText(props) {
  return html`<bdi ...${props}>${props.children}</bdi>`;
}

/** The beginning of an id, with the whole id as its tooltip. @param {{ id: string }} props */
export function ShortId({ id }) {
  return html`<bdi title=${id}>${id.slice(0, 8)}</bdi>`;
}

/** An icon beside its label, so it has no name itself. @param {{ name: import("./icons.js").IconName }} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${ICONS[name].map(([tag, attributes]) => html`<${tag} ...${attributes} />`)}</svg>`;
}

/** A past time as people say it, with the exact time as tooltip; a date if it is more than a month away.
 * @param {{ at: number }} props milliseconds of the epoch */
export function Time({ at }) {
  return html`<time datetime=${new Date(at).toISOString()} title=${exactTime(at)}>${relativeTime(at, Date.now()) ?? date(at / 1000)}</time>`;
}

/** Links to the screens above a detail page, then its title. @param {{ path: [string, string][], here: unknown }} props title and address of each */
export function Breadcrumbs({ path, here }) {
  return html`<nav class="crumbs" aria-label=${TEXT.breadcrumbs}><ol>
    ${path.map(([title, href]) => html`<li><a href=${href}><${UserText}>${title}<//></a> <span aria-hidden="true">/</span></li>`)}
    <li aria-current="page"><${UserText}>${here}<//></li>
  </ol></nav>`;
}

/** A button that opens a list of links and buttons. Escape, a click beside it and a choice close it.
 * @param {{ label: unknown, children?: Children, class?: string, keepOpen?: boolean, [attribute: string]: unknown }} props */
export function Menu({ label, children, class: name = "quiet", keepOpen = false, ...more }) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  useEffect(() => {
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

/** A problem, with a way to try again.
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

/** The texts of an error for users. Of an error that was not written for them, such as a library's, only that it happened.
 * @param {unknown} error */
export function messageOf(error) {
  if (error instanceof Problem) {
    const detail = error.retryAfter ? TEXT.retryAfter(error.message, formatRange(error.retryAfter)) : error.message;
    return { title: error.title, detail };
  }
  return { title: texts.app.failed, detail: error instanceof UserError ? error.message : TEXT.unknownError };
}

/** Nothing to show: why, and what to do about it. @param {{ icon?: import("./icons.js").IconName, children?: Children }} props */
export function Empty({ icon = "inbox", children }) {
  return html`<div class="empty"><${Icon} name=${icon} />${children}</div>`;
}

/** @param {{ what?: string }} props */
export function Loading({ what = TEXT.loading }) {
  return html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${what}</p>`;
}

/** A labelled input, with what is wrong with it. `kind` is an input's type, `textarea`, which grows with its text, or `select` with
 * `children`. With `most` it counts characters.
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
    ${kind === "textarea" ? html`<span class="grow" data-text=${`${value} `}><textarea dir="auto" ...${attributes}></textarea></span>`
      : kind === "select" ? html`<select ...${attributes}>${children}</select>`
        : html`<input type=${kind} dir=${kind === "text" ? "auto" : undefined} ...${attributes} />`}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="fault" id=${`${id}-error`}>${asSentence(error)}</p>`}
  </div>`;
}

/** The fault that the browser finds in an input when its form is sent, to be shown in the place of the browser's bubble. */
export function useValidity() {
  const [fault, setFault] = useState("");
  const onInvalid = (/** @type {Event} */ event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    setFault(faultOf(input));
    if (input.form?.querySelector(":is(input, select, textarea):invalid") === input) input.focus(); // the first one
  };
  return { fault, onInvalid, clear: () => setFault("") };
}

/** @param {HTMLInputElement} input */
function faultOf({ validity, type, min, max }) {
  if (validity.valueMissing) return type === "file" ? TEXT.selectFile : TEXT.fillIn;
  if (validity.rangeUnderflow || validity.rangeOverflow) return TEXT.outOfRange(min, max);
  return type === "url" ? TEXT.invalidUrl : TEXT.invalid;
}

/** How many characters a text has, and may have. Readers hear the limit as a fault, once it is exceeded.
 * @param {{ text: string, most: number }} props */
function CharacterCount({ text, most }) {
  const number = lengthOf(text);
  return html`<span class=${`count ${number > most ? "is-over" : ""}`} aria-hidden="true">${count(number)} / ${count(most)}</span>`;
}

/** The characters of a text, as the service counts them. @param {string} text */
export function lengthOf(text) {
  return [...text].length;
}

/** A dialog that is open as long as it is drawn; Escape asks to close it. The class `wide` is for much content; `sheet` also keeps
 * the last `.actions` in view while the `.sheet-body` scrolls.
 * @param {{ title: string, onClose?: () => void, children?: Children, class?: string }} props */
export function Dialog({ title, onClose, children, ...more }) {
  const id = useId();
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // A reference is set before any layout effect: what the content focuses must be shown by then.
  const open = useCallback((/** @type {HTMLDialogElement | null} */ element) => {
    dialog.current = element;
    element?.showModal();
  }, []);
  useLayoutEffect(() => () => dialog.current?.close(), []);
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault(); // whoever draws it decides
    if (event.cancelable) onClose?.(); // else it closes all the same, and what onClose opens would come below
  };
  const closed = () => {
    if (!dialog.current?.isConnected) return;
    dialog.current.showModal(); // at a second Escape browsers close it without asking
    onClose?.();
  };
  return html`<dialog ref=${open} aria-labelledby=${id} onCancel=${cancel} onClose=${closed} ...${more}>
    <h2 id=${id}>${title}</h2>
    ${children}
  </dialog>`;
}

/** The poster of a video beside its title, so it says nothing itself. Without an image that the page may load, it is the title
 * on a colour of the video's id.
 * @param {{ url?: string, of?: { videoId: string, title: string } }} props */
export function Poster({ url, of }) {
  const [broken, setBroken] = useState("");
  const isShown = url && url !== broken && isServed(url);
  const drawn = !isShown && of ? html`<span class="drawn" aria-hidden="true" dir="auto" data-title=${of.title.slice(0, 80)} style=${{ "--hue": hueOf(of.videoId) }}></span>` : null;
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

/** The status of a video or a job, or its visibility. @param {{ of: string }} props */
export function Status({ of }) {
  return html`<span class="status status-${of}">${stateName(of)}</span>`;
}

/** Calls `more` when it comes near to what is seen, so that a list goes on; a button for whoever cannot scroll.
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
  }, [pages.items.length, pages.isDone, pages.isLoading]); // anew after each page: one may bring nothing, and another follow
  if (pages.error) return html`<${Failure} error=${pages.error} retry=${pages.more} />`;
  if (pages.isDone) return null;
  return html`<div class="more" ref=${end}>
    ${pages.isLoading ? html`<${Loading} />` : html`<button type="button" onClick=${pages.more}>${texts.common.loadMore}</button>`}
  </div>`;
}

/** Offers what has come into a list since it was read. It takes no room, so that nothing moves before somebody wants it to.
 * With nothing below the list (`isLast`), it begins by itself what was empty.
 * @template T
 * @param {{ pages: import("../core/load.js").Pages<T>, label?: (number: number) => string, isLast?: boolean, onShow?: () => void }} props */
export function News({ pages, label = TEXT.showChanges, isLast, onShow }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (isLast && pages.news && !pages.items.length) pages.show();
  });
  const show = () => {
    pages.show();
    place.current?.focus({ preventScroll: true }); // the button goes, and the list begins here
    onShow?.();
  };
  return html`<div class="news" role="status" ref=${place} tabindex="-1">
    ${pages.news > 0 && html`<button type="button" class="primary" onClick=${show}>${label(pages.news)}</button>`}
  </div>`;
}

/** @type {(text: string, changeSet: string | null) => void} */
let announce = () => undefined;

/** Announce something in every page, such as that a change is saved; it disappears after some seconds.
 * @param {string} text @param {string | null} [changeSet] Id of the change set that it can be undone by. */
export function announceText(text, changeSet = null) {
  announce(text, changeSet);
}

/** Shows the last announcement, with a link to undo its change. */
export function Announcer() {
  const [said, setSaid] = useState({ text: "", changeSet: /** @type {string | null} */ (null), number: 0 });
  announce = (text, changeSet) => setSaid(({ number }) => ({ text, changeSet, number: number + 1 }));
  useEffect(() => {
    const timer = setTimeout(() => setSaid(({ number }) => ({ text: "", changeSet: null, number })), said.changeSet ? 12_000 : 6000);
    return () => clearTimeout(timer);
  }, [said.number]);
  // A key for each time: readers say what is new, even if it was said before.
  return html`<div class="announcer" role="status" aria-live="polite">
    ${said.text && html`<span key=${said.number}>${said.text}</span>`}
    ${said.changeSet && html`<a href=${hrefTo(["changesets", said.changeSet])}>${texts.common.undo}</a>`}
  </div>`;
}

/** Form that leads to a screen of another user. @param {{ route: string, label: string, owner: string }} props */
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
