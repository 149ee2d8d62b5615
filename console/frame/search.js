// Search box of the header, which suggests videos, people, caption lines and tags.

import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { hrefTo, navigate } from "../core/route.js";
import { formatClock } from "../core/formats.js";
import { useCombobox, useSuggestions } from "../design/combobox.js";
import { Icon, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.frame;

/**
 * @typedef {import("../core/api.js").Schemas["FoundVideo"]} Found
 * @typedef {{ key: string, icon: import("../design/icons.js").IconName, text: string, kind: string, href: string }} Suggestion
 */

const PAUSE_MS = 250; // from the last key press to the new results
const MAX_LENGTH = 256;
const MAX_VIDEOS = 6, MAX_TAGS = 3;

/** @param {{ route: import("../core/route.js").Route }} props */
export default function Search({ route }) {
  const isScreen = route.path[0] === "search";
  const searched = isScreen ? route.query.get("q") ?? "" : "";
  const [text, setText] = useState(searched);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const timer = useRef(0);
  const { found, update, stop } = useSuggestions(suggest);
  const box = useCombobox(found.length);
  useSlash(input);
  // A link to a search, or going back to one, sets the text; leaving the screen clears it.
  useLayoutEffect(() => setText((before) => (before.trim() === searched.trim() ? before : searched)), [searched, isScreen]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const close = () => {
    clearTimeout(timer.current);
    stop();
    box.show(false);
  };
  /** Return the address of the results, with the filters of the search screen. @param {string} q */
  const results = (q) => hrefTo(["search"], { q, category: isScreen ? route.query.get("category") : "", tag: isScreen ? route.query.get("tag") : "" });
  const type = (/** @type {string} */ typed) => {
    setText(typed);
    clearTimeout(timer.current);
    const q = typed.trim();
    box.show(!isScreen && q !== "");
    // The search screen updates its results while the user types. Other screens show suggestions.
    if (isScreen) timer.current = setTimeout(() => navigate(results(typed), { replace: true }), PAUSE_MS);
    else update(q);
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const href = found[box.chosen]?.href;
    close();
    navigate(href ?? results(text), { replace: isScreen && !href });
  };
  return html`<form class="search-box" role="search" aria-label=${texts.search.title} onSubmit=${submit}>
    <${Icon} name="search" />
    <input type="search" ref=${input} aria-label=${TEXT.searchVideos} placeholder=${texts.search.title} maxlength=${MAX_LENGTH} dir="auto" autocomplete="off" spellcheck=${false}
      value=${text} aria-keyshortcuts="/" ...${box.input}
      onInput=${(/** @type {InputEvent} */ event) => type(/** @type {HTMLInputElement} */ (event.currentTarget).value)}
      onFocus=${() => box.show(!isScreen && text.trim() !== "")} onBlur=${close} />
    <kbd aria-hidden="true">/</kbd>
    ${box.isShown && html`<ul ...${box.list}>
      ${found.map(({ key, icon, text: label, kind, href }, index) => html`<li key=${key} ...${box.option(index)}
        onClick=${() => {
          close();
          navigate(href);
        }}><${Icon} name=${icon} /><span><${UserText}>${label}<//></span><small>${kind}</small></li>`)}
    </ul>`}
  </form>`;
}

/** @param {string} q @param {AbortSignal} signal */
async function suggest(q, signal) {
  const query = { q, limit: MAX_VIDEOS, facets: /** @type {"tag"[]} */ (["tag"]) };
  const { data } = await ask(api.GET("/v1/search", { params: { query }, signal }));
  return suggestions(q, data.items, data.facets?.tag ?? []);
}

/** Return the suggestions for a search text: tags that contain it, then videos with the matching line, person or title.
 * @param {string} q @param {Found[]} videos @param {{ value: unknown }[]} tags @returns {Suggestion[]} */
export function suggestions(q, videos, tags) {
  const word = q.toLowerCase();
  const own = tags.map(({ value }) => String(value)).filter((tag) => tag.toLowerCase().includes(word)).slice(0, MAX_TAGS);
  return [
    ...own.map((tag) => ({ key: `tag ${tag}`, icon: /** @type {const} */ ("tag"), text: tag, kind: TEXT.suggestedTag, href: hrefTo([], { tag }) })),
    ...videos.map(({ video: { videoId, title }, quote, highlights = [] }) => {
      const person = highlights.find(({ field }) => field === "names");
      if (quote) {
        const href = hrefTo(["videos", videoId], { t: String(quote.start / 1000), captions: quote.language });
        return { key: videoId, icon: /** @type {const} */ ("captions"), text: quote.text, kind: `${formatClock(quote.start)}, ${title.slice(0, 30)}`, href };
      }
      if (person && !highlights.some(({ field }) => field === "title")) {
        return { key: videoId, icon: /** @type {const} */ ("user"), text: person.text, kind: title.slice(0, 30), href: hrefTo(["videos", videoId], { tab: "credits" }) };
      }
      return { key: videoId, icon: /** @type {const} */ ("film"), text: title, kind: TEXT.suggestedVideo, href: hrefTo(["videos", videoId]) };
    }),
  ];
}

/** Let `/` focus the search box. @param {{ current: HTMLInputElement | null }} input */
function useSlash(input) {
  useLayoutEffect(() => {
    const focus = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = /** @type {HTMLElement} */ (event.target);
      if (target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
}
