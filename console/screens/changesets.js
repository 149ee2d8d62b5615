// Change set: all changes of one request or import run, and their revert. Components are in `history/`.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { useInterval, usePages } from "../core/load.js";
import { navigate, hrefTo } from "../core/route.js";
import { Breadcrumbs, Failure, Field, Icon, Loading, LoadMore } from "../design/parts.js";
import { listChangeSetEntries } from "../history/requests.js";
import { Timeline } from "../history/entries.js";
import { withSubject, Subject, useTitles } from "../history/subjects.js";
import Undo from "../history/undo.js";
import { Author } from "../history/labels.js";
import { texts } from "../texts/index.js";

const TEXT = texts.changeSets;

/** @typedef {import("../history/requests.js").Entry} Entry */

const PERIOD_MS = 2000;
/** Maximum number of polls for a change set that is not found. It is listed some seconds after it was written. */
const MAX_POLLS = 5;

/** @param {{ route: import("../core/route.js").Route }} props */
export default function ChangeSets({ route }) {
  const changesetId = route.path[1] ?? "";
  if (!changesetId) return html`<${ChangeSetForm} />`;
  return html`<${ChangeSet} key=${changesetId} changesetId=${changesetId} query=${route.query} />`;
}

/** Form that opens a change set by its id, which an import prints. */
function ChangeSetForm() {
  const [id, setId] = useState("");
  const show = (/** @type {Event} */ event) => {
    event.preventDefault();
    navigate(hrefTo(["changesets", id.trim()]));
  };
  return html`<h1 tabindex="-1">${TEXT.list}</h1>
    <p class="hint">${TEXT.about}</p>
    <form class="set-which" onSubmit=${show}>
      <${Field} label=${TEXT.id} value=${id} onInput=${setId} required maxlength="128" autocomplete="off" spellcheck=${false}
        hint=${TEXT.hint} />
      <button type="submit">${texts.common.show}</button>
    </form>`;
}

/** @param {{ changesetId: string, query: URLSearchParams }} props */
function ChangeSet({ changesetId, query }) {
  const pages = usePages((cursor, signal) => listChangeSetEntries(changesetId, cursor, signal), [changesetId]);
  const [round, setRound] = useState(0);
  const titles = useTitles([...pages.items, ...withSubject(pages.items)], round);
  const [polls, setPolls] = useState(0);
  const isMissing = pages.error instanceof Problem && pages.error.status === 404;
  useInterval(() => {
    setPolls((number) => number + 1);
    pages.reload();
  }, PERIOD_MS, isMissing && polls < MAX_POLLS);
  const first = pages.items[0];
  const known = useRef(first);
  known.current ??= first;
  const head = html`<${Breadcrumbs} path=${[[TEXT.list, hrefTo(["changesets"])]]} here=${changesetId.slice(0, 8)} /><h1 tabindex="-1">${TEXT.title}</h1>
    <p class="set-facts"><code>${changesetId}</code>${known.current && html`<span>${texts.common.byUser(html`<${Author} by=${known.current.by} />`)}</span>`}</p>`;
  if (!known.current) {
    return html`${head}
      ${isMissing || polls ? html`<${Missing} isOver=${polls === MAX_POLLS} />` : pages.isLoading && html`<${Loading} />`}
      ${!isMissing && html`<${Failure} error=${pages.error} retry=${pages.reload} />`}`;
  }
  const about = (/** @type {Entry} */ entry) => html`<p><${Subject} of=${entry} titles=${titles} isEntityKnown /></p>`;
  return html`<article class="set">
    ${head}
    <${Undo} changesetId=${changesetId} query=${query} titles=${titles} onReverted=${() => setRound((number) => number + 1)} />
    <section class="history" aria-label=${TEXT.changes}>
      <div class="set-head"><h2>${TEXT.changes}</h2><button type="button" class="quiet" onClick=${pages.reload}><${Icon} name="refresh-cw" />${texts.common.refresh}</button></div>
      <${Timeline} entries=${pages.items} about=${about} titles=${titles} isChangeSet />
      <${LoadMore} pages=${pages} />
    </section>
  </article>`;
}

/** @param {{ isOver: boolean }} props */
export function Missing({ isOver }) {
  return html`<p role="status">${isOver ? TEXT.notFound
    : TEXT.notYet}</p>
    <p class="actions"><a class="button" href=${hrefTo([])}>${texts.common.goToLibrary}</a></p>`;
}
