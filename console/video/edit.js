// The form of a video. It sends what really changed; what was typed stays until it is saved or thrown away on purpose.

import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { navigate, parseRoute, hrefTo, useHold } from "../core/route.js";
import { Failure, Field, announceText } from "../design/parts.js";
import Conflict from "./conflict.js";
import { draftOf, faultsIn, valuesIn, withTag } from "./draft.js";
import { compare, patchOf, pointerTo, valuesOf } from "./fields.js";
import { Metadata, Tags } from "./inputs.js";
import { INPUTS, LABELS } from "./labels.js";
import { DiscardDialog } from "./item-form.js";

/**
 * @typedef {import("./fields.js").Video} Video
 * @typedef {import("./fields.js").Values} Values
 * @typedef {{ values: Values, etag: string }} Version What the video was when it was read.
 */

/** Attributes of inputs by kind, then of some fields. @type {Record<string, Record<string, unknown>>} */
const KINDS = { number: { inputmode: "numeric" }, time: { kind: "datetime-local", step: 1 } };
/** @type {Record<string, Record<string, unknown>>} */
const MORE = {
  description: { kind: "textarea", rows: 5 },
  visibility: { kind: "select", children: html`<option value="private">Private</option><option value="public">Public</option>` },
  publishAt: { hint: "Hidden from viewers until then." },
  expiresAt: { hint: "Hidden from viewers from then on." },
  language: { hint: "Language tag, for example en-NZ." },
  seriesId: { hint: "ID of the series video.", spellcheck: false },
};

/** How often it saves again when others changed something else in the meantime. */
const TRIES = 4;

/** @param {{ video: Video, etag: string | null, route: import("../core/route.js").Route,
 *   onSaved: (video?: Video, etag?: string | null) => void, onClose: () => void }} props */
export default function Edit({ video, etag, route, onSaved, onClose }) {
  const { videoId } = video;
  const [base, setBase] = useState(/** @returns {Version} */ () => ({ values: valuesOf(video), etag: etag ?? `"${video.version}"` }));
  const [draft, setDraft] = useState(() => draftOf(base.values));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [conflict, setConflict] = useState(/** @type {{ theirs: Version, mine: Values } | null} */ (null));
  const [leave, setLeave] = useState(/** @type {{ go: () => void } | null} */ (null));
  const isLeaving = useRef(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));

  const wanted = useMemo(() => valuesIn(draft, base.values), [draft, base]);
  const faults = useMemo(() => faultsIn(draft), [draft]);
  const isDirty = faults.size > 0 || Object.keys(patchOf(base.values, wanted)).length > 0;
  const problem = error instanceof Problem ? error : null;
  const at = (/** @type {string} */ pointer) => problem?.at(pointer);
  const change = (/** @type {Partial<typeof draft>} */ part) => setDraft((before) => ({ ...before, ...part }));

  useHold(isDirty ? (address) => {
    if (isLeaving.current || parseRoute(address).path.join("/") === route.path.join("/")) return false;
    setLeave({ go: () => history.back() }); // the browser was there, so the place knows how it was left
    return true;
  } : null);

  const isInFront = (route.query.get("tab") ?? "facts") === "facts";
  const hasBegun = useRef(false);
  useLayoutEffect(() => {
    if (!isInFront || hasBegun.current) return;
    hasBegun.current = true;
    form.current?.querySelector("input")?.focus();
  }, [isInFront]);
  useEffect(() => {
    if (!leave && !conflict && !error) return;
    if ((route.query.get("tab") ?? "facts") !== "facts") navigate(hrefTo(route.path, { tab: "facts" }), { replace: true }); // where this form is
  }, [leave, conflict, error]);
  useLayoutEffect(() => {
    if (!error || isBusy) return;
    const first = form.current?.querySelector('[aria-invalid="true"]') ?? form.current?.querySelector(".stop");
    if (first instanceof HTMLElement) first.focus();
  }, [error, isBusy]);

  /** Save `values`, which are a change of `from`.
   * @param {Version} from @param {Values} values @param {number} [tries] @returns {Promise<void>} */
  const save = async (from, values, tries = TRIES) => {
    const patch = patchOf(from.values, values);
    if (!Object.keys(patch).length) return onSaved();
    try {
      const { data, etag: tag, changeSet } = await ask(api.PATCH("/v1/videos/{videoId}", {
        params: { path: { videoId }, header: { "If-Match": from.etag } },
        headers: { "Content-Type": "application/merge-patch+json" },
        body: patch,
      }));
      announceText("Saved.", changeSet);
      onSaved({ ...data, viewCount: video.viewCount }, tag);
    } catch (reason) {
      if (!(reason instanceof Problem) || reason.kind !== "version-mismatch" || !tries) throw reason;
      const now = await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId } } }));
      const theirs = { values: valuesOf(/** @type {Video} */ (now.data)), etag: now.etag ?? `"${now.data.version}"` };
      // A job may have changed what nobody edits, or an answer got lost on its way: there is nothing to ask.
      if (compare(from.values, values, theirs.values).every(({ by }) => by === "you")) return save(theirs, values, tries - 1);
      setConflict({ theirs, mine: values });
    }
  };

  /** @param {Version} from @param {Values} values */
  const run = (from, values) => {
    setBusy(true);
    setError(null);
    save(from, values).catch(setError).finally(() => setBusy(false));
  };

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy) return;
    setDraft(withTag);
    if (faults.size) setError(new Problem({ status: 0, title: "Invalid content", detail: "Correct the marked fields." }));
    else run(base, wanted);
  };

  const resolve = (/** @type {Values} */ values) => {
    if (!conflict) return;
    setConflict(null);
    setBase(conflict.theirs);
    setDraft(draftOf(values)); // whatever happens now, the choices stay
    run(conflict.theirs, values);
  };

  const text = (/** @type {string} */ name) => html`<${Field} key=${name}
    name=${name} label=${LABELS[name]} value=${draft.texts[name] ?? ""} error=${at(`/${name}`)} autocomplete="off"
    onInput=${(/** @type {string} */ value) => change({ texts: { ...draft.texts, [name]: value } })} ...${KINDS[INPUTS[name] ?? ""]} ...${MORE[name]} />`;
  const tagFaults = problem?.errors.filter(({ pointer }) => pointer?.match(/^\/tags(\/|$)/)).map(({ pointer = "", detail }) => {
    const tag = draft.tags[Number(pointer.split("/")[2] ?? NaN)];
    return tag === undefined ? detail : `“${tag}”: ${detail}.`;
  });
  const rest = Object.keys(INPUTS).filter((name) => name !== "title" && name !== "description");
  const elsewhere = problem?.errors.filter(({ pointer }) => !pointer).map(({ detail }) => detail);

  return html`<form class="edit" ref=${form} onSubmit=${submit} aria-label="Edit video" inert=${isBusy}>
    ${error && html`<div tabindex="-1" class="stop"><${Failure} error=${error} />
      ${elsewhere && elsewhere.length > 0 && html`<p class="fault">${elsewhere.join(" ")}</p>`}</div>`}
    ${text("title")}
    ${text("description")}
    <div class="fields">${rest.map((name) => (name === "tags"
      ? html`<${Tags} key=${name} draft=${draft} change=${change} faults=${tagFaults ?? []} />` : text(name)))}</div>
    <${Metadata} draft=${draft} change=${change} fault=${at("/metadata")}
      faultOf=${(/** @type {import("./draft.js").Pair} */ { id, key }) => faults.get(id) ?? at(pointerTo(key))} />
    <div class="actions">
      <button type="submit" class="primary" >${isBusy ? "Saving …" : "Save"}</button>
      <button type="button" onClick=${() => (isDirty ? setLeave({ go: onClose }) : onClose())}>Cancel</button>
    </div>
    ${conflict && html`<${Conflict} before=${base.values} mine=${conflict.mine} theirs=${conflict.theirs.values}
      onResolved=${resolve} onClose=${() => setConflict(null)} />`}
    ${leave && html`<${DiscardDialog} onStay=${() => setLeave(null)} onLeave=${() => {
      isLeaving.current = true;
      leave.go();
    }} />`}
  </form>`;
}
