// Chapters of a video: start and title of each. All chapters are saved together.

import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useAttempt, useLoad } from "../core/load.js";
import { useNavigationGuard } from "../core/route.js";
import { formatClock, milliseconds } from "../core/formats.js";
import { Empty, Failure, Field, Loading, announceText, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { DiscardDialog } from "./item-form.js";

const TEXT = texts.video.chapters;

/**
 * @typedef {import("../screens/video.js").PartProps} PartProps
 * @typedef {import("./tracks.js").Chapter} Chapter
 * @typedef {{ version: number | null, chapters: Chapter[], proposed: { start: number, title?: string }[] }} Stored `version` is null if the video has no chapters.
 * @typedef {{ id: number, start: string, title: string }} Row Typed texts of a chapter.
 */

const NOT_A_TIME = TEXT.notATime;
const TAKEN = TEXT.taken;

/** @param {PartProps} props */
export default function ChapterList(props) {
  const { video, isOwner, textChanges, playing } = props;
  const { videoId } = video;
  /** Chapters with which the form starts; null while it is closed. */
  const [edited, setEdited] = useState(/** @type {Chapter[] | null} */ (null));
  const isEdited = edited !== null;
  const stored = useLoad((signal) => read(videoId, signal), [videoId]);
  useEffect(() => void (textChanges && stored.reload()), [textChanges]);
  const edit = useRef(/** @type {HTMLElement | null} */ (null));
  const wasEdited = useRef(false);
  useLayoutEffect(() => {
    if (wasEdited.current && !isEdited) edit.current?.focus(); // the form that had the focus was removed
    wasEdited.current = isEdited;
  }, [isEdited]);
  const { value } = stored;
  const mayEdit = isOwner && video.status !== "deleted" && value && !isEdited;
  return html`<div class="above">
      <h2>${TEXT.title}</h2>
      ${mayEdit && html`<button type="button" ref=${edit} onClick=${() => setEdited(value.chapters)}>${value.chapters.length ? TEXT.edit : TEXT.add}</button>`}
      ${mayEdit && value.proposed.length > 0 && html`<button type="button" onClick=${() => setEdited(withTitles(value.proposed))}>${TEXT.propose}</button>`}
    </div>
    <${Failure} error=${stored.error} retry=${stored.reload} />
    ${!value && stored.isLoading && html`<${Loading} />`}
    ${value && edited
      ? html`<${ChaptersForm} ...${props} stored=${value} first=${edited} onClose=${() => setEdited(null)} />`
      : value && (value.chapters.length ? html`<ol class="items">${value.chapters.map(({ start, title }) => html`<li key=${start}>
          <div><span class="start">${formatClock(start)}</span> <${UserText}>${title}<//></div>
          <button type="button" class="quiet" aria-label=${TEXT.playItem(formatClock(start), title)} onClick=${() => playing.current?.seek(start / 1000)}>${TEXT.playFromHere}</button>
        </li>`)}</ol>` : html`<${Empty}>${TEXT.empty}<//>`)}`;
}

/** @param {string} videoId @param {AbortSignal} [signal] @returns {Promise<Stored>} */
async function read(videoId, signal) {
  try {
    const { data } = await ask(api.GET("/v1/videos/{videoId}/chapters", { params: { path: { videoId } }, signal }));
    return { version: data.version ?? null, chapters: data.chapters, proposed: data.proposed ?? [] };
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return { version: null, chapters: [], proposed: [] };
    throw error;
  }
}

/** @param {PartProps & { stored: Stored, first: Chapter[], onClose: () => void }} props `first`: chapters with which the form starts */
function ChaptersForm({ video: { videoId }, playing, onTextsChanged, stored, first, onClose }) {
  const [rows, setRows] = useState(() => toRows(first.length ? first : [{ start: 0, title: "" }]));
  /** Version that a save replaces. @type {[number | null, (version: number | null) => void]} */
  const [version, setVersion] = useState(stored.version);
  const [theirs, setTheirs] = useState(/** @type {Stored | null} */ (null));
  const [isTyped, setTyped] = useState(first !== stored.chapters);
  const [isLeaving, setLeaving] = useState(false);
  /** Errors of start times, by row id. */
  const [wrong, setWrong] = useState(/** @type {Map<number, string>} */ (new Map()));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  /** Id of the row that was just added. */
  const added = useRef(/** @type {number | null} */ (null));
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), []);
  useLayoutEffect(() => {
    if (added.current === null) return;
    const fields = [...(form.current?.querySelectorAll(`[data-row="${added.current}"] input`) ?? [])];
    const next = fields.find((field) => field instanceof HTMLInputElement && !field.value);
    if (next instanceof HTMLElement) next.focus();
    added.current = null;
  }, [rows]);

  /** @param {number | null} replaced */
  const put = async (replaced) => {
    setTheirs(null);
    const { sorted, faults } = sortRows(rows);
    setWrong(faults);
    if (faults.size) return;
    setRows(sorted.map(({ row }) => row)); // the API's errors refer to the sorted indexes
    const header = replaced === null ? { "If-None-Match": "*" } : { "If-Match": `"${replaced}"` };
    const path = { videoId };
    try {
      if (sorted.length) {
        const chapters = sorted.map(({ row, start }) => ({ start: start ?? 0, title: row.title }));
        await ask(api.PUT("/v1/videos/{videoId}/chapters", { params: { path, header }, body: { chapters } }));
      } else if (replaced !== null) {
        await ask(api.DELETE("/v1/videos/{videoId}/chapters", { params: { path, header } }));
      }
    } catch (reason) {
      if (!(reason instanceof Problem) || reason.kind !== "version-mismatch") throw reason;
      setTheirs(await read(videoId));
      return;
    }
    announceText(texts.common.saved);
    onTextsChanged();
    onClose();
  };
  /** Version that `run` replaces, set by the click. */
  const replaced = useRef(version);
  const { error, isBusy, run } = useAttempt(() => put(replaced.current));
  const save = (/** @type {number | null} */ over) => {
    replaced.current = over;
    void run();
  };
  useLayoutEffect(() => {
    const first = (error || wrong.size) && !isBusy ? form.current?.querySelector('[aria-invalid="true"]') : null;
    if (first instanceof HTMLElement) first.focus();
  }, [error, isBusy, wrong]);
  const problem = error instanceof Problem ? error : null;

  const change = (/** @type {Row[]} */ after) => {
    setTyped(true);
    setRows(after);
  };
  const set = (/** @type {number} */ id, /** @type {Partial<Row>} */ part) => change(rows.map((row) => (row.id === id ? { ...row, ...part } : row)));
  const add = (/** @type {string} */ start) => {
    const [row] = toRows([{ start: 0, title: "" }]).map((empty) => ({ ...empty, start }));
    if (!row) return;
    added.current = row.id;
    const at = milliseconds(start);
    const next = at === null ? -1 : rows.findIndex((other) => (milliseconds(other.start) ?? -1) > at);
    change(next < 0 ? [...rows, row] : rows.toSpliced(next, 0, row));
  };
  const addHere = () => add(formatClock(Math.floor((playing.current?.time ?? 0) * 10) * 100));
  const close = () => (isTyped ? setLeaving(true) : onClose());
  useNavigationGuard(isTyped ? () => {
    setLeaving(true);
    return true;
  } : null);
  const faultOf = (/** @type {Row} */ row, /** @type {number} */ index) =>
    wrong.get(row.id) ?? problem?.at(`/chapters/${index}/start`);
  const others = problem?.errors.filter(({ pointer = "" }) => !/^\/chapters\/\d+\/(start|title)$/.test(pointer)) ?? [];
  return html`<form ref=${form} class="chapters-form" aria-label=${TEXT.title} inert=${isBusy} onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    if (!isBusy) save(version);
  }}>
    <ol class="plain">${rows.map((row, index) => html`<li key=${row.id} data-row=${row.id}>
      <${Field} label=${TEXT.start(html`<span class="visually-hidden">${TEXT.ofChapter(index + 1)}</span>`)} value=${row.start} error=${faultOf(row, index)} autocomplete="off" inputmode="text"
        spellcheck=${false} onInput=${(/** @type {string} */ start) => set(row.id, { start })} />
      <${Field} label=${TEXT.chapterTitle(html`<span class="visually-hidden">${TEXT.ofChapter(index + 1)}</span>`)} value=${row.title} error=${problem?.at(`/chapters/${index}/title`)} autocomplete="off"
        onInput=${(/** @type {string} */ title) => set(row.id, { title })} />
      <button type="button" class="quiet" aria-label=${TEXT.removeItem(index + 1)} onClick=${() => {
        change(rows.filter(({ id }) => id !== row.id));
        form.current?.querySelector("button")?.focus();
      }}>${texts.common.remove}</button>
    </li>`)}</ol>
    ${!rows.length && html`<p class="hint">${version === null ? TEXT.addOne : TEXT.saveNone}</p>`}
    <div class="actions">
      <button type="button" onClick=${() => add("")}>${TEXT.addChapter}</button>
      <button type="button" onClick=${addHere}>${TEXT.addHere}</button>
    </div>
    <p class="hint">${TEXT.hint}</p>
    <${Failure} error=${error} />
    ${others.length > 0 && html`<ul class="fault plain">${others.map(({ detail }) => html`<li>${detail}</li>`)}</ul>`}
    ${theirs ? html`<div class="failure" role="alert">
      <strong>${texts.common.changedByAnother}</strong>
      <p>${TEXT.conflict}</p>
      <div class="actions">
        <button type="button" onClick=${() => save(theirs.version)}>${texts.common.keepMine}</button>
        <button type="button" onClick=${() => {
          setRows(toRows(theirs.chapters));
          setVersion(theirs.version);
          setTheirs(null);
        }}>${texts.common.takeTheirs}</button>
      </div>
    </div>` : html`<div class="actions">
      <button type="submit" class="primary">${isBusy ? texts.common.saving : TEXT.saveChapters}</button>
      <button type="button" onClick=${close}>${texts.common.cancel}</button>
    </div>`}
    ${isLeaving && html`<${DiscardDialog} onStay=${() => setLeaving(false)} onLeave=${onClose} />`}
  </form>`;
}

/** Sort rows by start time, and return the errors of start times by row id. @param {Row[]} rows */
export function sortRows(rows) {
  const sorted = rows.map((row) => ({ row, start: milliseconds(row.start) })).sort((one, other) => (one.start ?? 0) - (other.start ?? 0));
  /** @type {Map<number, string>} */
  const faults = new Map();
  for (const [index, { row, start }] of sorted.entries()) {
    if (start === null) faults.set(row.id, NOT_A_TIME);
    else if (index && sorted[index - 1]?.start === start) faults.set(row.id, TAKEN);
  }
  return { sorted, faults };
}

/** Return chapters for proposals. A proposal without a title gets a numbered one.
 * @param {Stored["proposed"]} proposed @returns {Chapter[]} */
export function withTitles(proposed) {
  return proposed.map(({ start, title }, index) => ({ start, title: title ?? TEXT.untitled(index + 1) }));
}

let last = 0;

/** @param {Chapter[]} chapters @returns {Row[]} */
function toRows(chapters) {
  return chapters.map(({ start, title }) => ({ id: ++last, start: formatClock(start), title }));
}
