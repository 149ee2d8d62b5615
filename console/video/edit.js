// Dialog that edits a video's fields. It sends only changed fields. Typed text stays until it is saved or discarded.

import { html } from "htm/preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { parseRoute, useNavigationGuard } from "../core/route.js";
import { Dialog, Failure, Field, announceText } from "../design/parts.js";
import { TagInput } from "../design/tags.js";
import { texts } from "../texts/index.js";
import Conflict from "./conflict.js";
import { draftOf, faultsIn, valuesIn, withTag } from "./draft.js";
import { compare, patchOf, pointerTo, valuesOf } from "./fields.js";
import { Metadata } from "./inputs.js";
import { DiscardDialog } from "./item-form.js";
import { INPUTS, LIMITS } from "./schema.js";
import { LABELS } from "./names.js";
import { explain } from "./sentences.js";

const TEXT = texts.video.edit;

/**
 * @typedef {import("./fields.js").Video} Video
 * @typedef {import("./fields.js").Values} Values
 * @typedef {{ values: Values, etag: string }} Version The video as it was read.
 */

/** Attributes of inputs by kind, then of some fields. @type {Record<string, Record<string, unknown>>} */
const KINDS = { number: { inputmode: "numeric" }, time: { kind: "datetime-local", step: 1 } };
/** @type {Record<string, Record<string, unknown>>} */
const MORE = {
  description: { kind: "textarea", rows: 4 },
  visibility: { kind: "select", children: html`<option value="private">${texts.states.private}</option><option value="public">${texts.states.public}</option>` },
  publishAt: { hint: TEXT.publishAtHint },
  expiresAt: { hint: TEXT.expiresAtHint },
  folder: { hint: TEXT.folderHint, spellcheck: false },
  language: { hint: TEXT.languageHint },
  seriesId: { hint: TEXT.seriesHint, spellcheck: false },
  externalId: { hint: TEXT.externalIdHint, spellcheck: false },
  slug: { hint: TEXT.slugHint, spellcheck: false },
};
/** Fields with a character count. */
const COUNTED = ["title", "description"];
/** Sections of the form: the rows of each, and the fields of each row. @type {[string, string[][]][]} */
const SECTIONS = [
  [TEXT.details, [["title"], ["description"], ["tags"], ["category", "folder"], ["language", "releaseYear"]]],
  [TEXT.publication, [["visibility", "publishAt", "expiresAt"]]],
  [TEXT.series, [["seriesId", "season", "episode"]]],
  [TEXT.identifiers, [["externalId", "slug"]]],
];
const TAGS_READ = 100;

/** Maximum number of retries of a save after the version changed without a conflict. */
const MAX_ATTEMPTS = 4;

/** @param {{ video: Video, etag: string | null, route: import("../core/route.js").Route,
 *   onSaved: (video?: Video, etag?: string | null) => void, onClose: () => void }} props */
export default function Edit({ video, etag, route, onSaved, onClose }) {
  const { videoId } = video;
  const [base, setBase] = useState(/** @returns {Version} */ () => ({ values: valuesOf(video), etag: etag ?? `"${video.version}"` }));
  const [draft, setDraft] = useState(() => draftOf(base.values));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isTried, setTried] = useState(false);
  const [attempts, setAttempts] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const [conflict, setConflict] = useState(/** @type {{ theirs: Version, mine: Values } | null} */ (null));
  const [leave, setLeave] = useState(/** @type {{ go: () => void } | null} */ (null));
  const isLeaving = useRef(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const tags = useLoad(async (signal) => (await ask(api.GET("/v1/tags", { params: { query: { limit: TAGS_READ } }, signal }))).data.items, []);

  const wanted = useMemo(() => valuesIn(draft, base.values), [draft, base]);
  const faults = useMemo(() => faultsIn(draft), [draft]);
  const isDirty = Object.keys(patchOf(base.values, wanted)).length > 0;
  const problem = error instanceof Problem ? error : null;
  const refused = useMemo(() => new Map(problem?.errors.map(({ pointer, detail }) => [pointer, explain(detail)])), [problem]);
  const change = (/** @type {Partial<typeof draft>} */ part) => setDraft((before) => ({ ...before, ...part }));

  useNavigationGuard(isDirty ? (address) => {
    if (isLeaving.current || parseRoute(address).path.join("/") === route.path.join("/")) return false;
    setLeave({ go: () => history.back() }); // returns to the URL to which the user navigated
    return true;
  } : null);
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), []);
  useLayoutEffect(() => {
    if (!attempts || isBusy) return;
    const first = form.current?.querySelector('[aria-invalid="true"]') ?? form.current?.querySelector(".stop");
    if (first instanceof HTMLElement) first.focus();
  }, [attempts, isBusy, error]);

  /** Save the difference between the version `from` and `values`. Opens the conflict dialog if another user changed fields.
   * @param {Version} from @param {Values} values @param {number} [left] @returns {Promise<void>} */
  const save = async (from, values, left = MAX_ATTEMPTS) => {
    const patch = patchOf(from.values, values);
    if (!Object.keys(patch).length) return onSaved();
    try {
      const { data, etag: tag, changeSet } = await ask(api.PATCH("/v1/videos/{videoId}", {
        params: { path: { videoId }, header: { "If-Match": from.etag } },
        headers: { "Content-Type": "application/merge-patch+json" },
        body: patch,
      }));
      announceText(texts.common.saved, changeSet);
      onSaved({ ...data, viewCount: video.viewCount }, tag);
    } catch (reason) {
      if (!(reason instanceof Problem) || reason.kind !== "version-mismatch" || !left) throw reason;
      const now = await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId } } }));
      const theirs = { values: valuesOf(/** @type {Video} */ (now.data)), etag: now.etag ?? `"${now.data.version}"` };
      // No conflict: a job changed other attributes, or the response to an earlier attempt was lost.
      if (compare(from.values, values, theirs.values).every(({ by }) => by === "you")) return save(theirs, values, left - 1);
      setConflict({ theirs, mine: values });
    }
  };

  /** @param {Version} from @param {Values} values */
  const run = (from, values) => {
    setBusy(true);
    save(from, values).catch(setError).finally(() => setBusy(false));
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy) return;
    setDraft(withTag);
    setTried(true);
    setError(null);
    setAttempts((number) => number + 1);
    if (!faults.size) run(base, wanted);
  };
  const resolve = (/** @type {Values} */ values) => {
    if (!conflict) return;
    setConflict(null);
    setBase(conflict.theirs);
    setDraft(draftOf(values)); // the choices stay if the save fails
    run(conflict.theirs, values);
  };
  const close = () => {
    if (isBusy) return;
    if (isDirty) setLeave({ go: onClose });
    else onClose();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
  };

  const faultOf = (/** @type {string} */ name) => (isTried || faults.get(name) === texts.video.faults.tooLong(LIMITS[name] ?? 0) ? faults.get(name) : undefined) ?? refused.get(`/${name}`);
  const text = (/** @type {string} */ name) => html`<${Field} key=${name} name=${name} label=${LABELS[name]} value=${draft.texts[name] ?? ""}
    error=${faultOf(name)} most=${COUNTED.includes(name) ? LIMITS[name] : undefined} autocomplete="off"
    onInput=${(/** @type {string} */ value) => change({ texts: { ...draft.texts, [name]: value } })} ...${KINDS[INPUTS[name] ?? ""]} ...${MORE[name]} />`;
  const tagInput = () => html`<${TagInput} key="tags" label=${LABELS.tags} tags=${draft.tags} typed=${draft.tag} known=${tags.value ?? []}
    change=${(/** @type {string[]} */ list, /** @type {string} */ tag) => change({ tags: list, tag })} faults=${tagFaults(problem, draft.tags)} />`;
  const input = (/** @type {string} */ name) => (name === "tags" ? tagInput() : text(name));
  const elsewhere = [...refused].filter(([pointer]) => !pointer).map(([, detail]) => detail);
  const isFaulty = isTried && faults.size > 0;

  return html`<${Dialog} title=${TEXT.title} class="sheet" onClose=${close}>
    <form ref=${form} onSubmit=${submit} onKeyDown=${press} aria-label=${TEXT.title} inert=${isBusy} noValidate>
      <div class="sheet-body">
        ${error && html`<div tabindex="-1" class="stop"><${Failure} error=${error} />
          ${elsewhere.length > 0 && html`<p class="fault">${elsewhere.join(" ")}</p>`}</div>`}
        <div class="sections">
          ${SECTIONS.map(([title, rows]) => html`<section key=${title} aria-label=${title}>
            <h3>${title}</h3>
            ${rows.map((names) => (names.length > 1 ? html`<div class="columns">${names.map(input)}</div>` : names.map(input)))}
          </section>`)}
          <section aria-label=${texts.fields.metadata}>
            <h3>${texts.fields.metadata}</h3>
            <${Metadata} draft=${draft} change=${change} fault=${refused.get("/metadata")}
              faultOf=${(/** @type {import("./draft.js").Pair} */ { id, key }) => faults.get(id) ?? refused.get(pointerTo(key))} />
          </section>
        </div>
      </div>
      <div class="actions">
        <button type="submit" class="primary">${isBusy ? texts.common.saving : texts.common.save}</button>
        <button type="button" onClick=${close}>${texts.common.cancel}</button>
        <span class="hint" role="status">${isFaulty ? TEXT.correct : isDirty ? TEXT.unsaved : ""}</span>
      </div>
    </form>
    ${conflict && html`<${Conflict} before=${base.values} mine=${conflict.mine} theirs=${conflict.theirs.values}
      onResolved=${resolve} onClose=${() => setConflict(null)} />`}
    ${leave && html`<${DiscardDialog} onStay=${() => setLeave(null)} onLeave=${() => {
      isLeaving.current = true;
      leave.go();
    }} />`}
  <//>`;
}

/** Return the errors of tags, each with its tag. @param {Problem | null} problem @param {string[]} tags */
function tagFaults(problem, tags) {
  const faults = problem?.errors.filter(({ pointer }) => pointer?.match(/^\/tags(\/|$)/)) ?? [];
  return faults.map(({ pointer = "", detail }) => {
    const tag = tags[Number(pointer.split("/")[2] ?? NaN)];
    return tag === undefined ? explain(detail) : `“${tag}”: ${detail}`;
  });
}
