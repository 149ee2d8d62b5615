// Folders of the library: the path of the open folder, its subfolders with video counts, and the form that moves it.

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { usePages } from "../core/load.js";
import { navigate } from "../core/route.js";
import { UserError } from "../core/user-error.js";
import { count } from "../core/formats.js";
import { Failure, Field, Icon, LoadMore, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { addressOf, withValue } from "./filters.js";

const TEXT = texts.library.folders;

/** @typedef {import("./filters.js").Choice} Choice */

/** Milliseconds between two polls of a move. */
const PAUSE = 1000;

/** @param {{ choice: Choice }} props */
export default function Folders({ choice }) {
  const { folder = "", userId } = choice.values;
  const query = userId && userId !== "me" ? { userId } : {};
  const pages = usePages(async (cursor, signal) => {
    const options = { query: { ...query, limit: 100, cursor } };
    const { data } = folder
      ? await ask(api.GET("/v1/folders/{folder}", { params: { path: { folder }, ...options }, signal }))
      : await ask(api.GET("/v1/folders", { params: options, signal }));
    return data;
  }, [folder, userId], { key: ({ folder: path }) => path });
  const names = folder ? folder.split("/") : [];
  const isEmpty = pages.isDone && !pages.items.length;
  return html`<section class="folders" aria-label=${TEXT.title}>
    <nav aria-label=${TEXT.path}>
      <a href=${addressOf({ kind: "folder", values: {} })}>${TEXT.title}</a>
      ${names.map((name, level) => html` / <a key=${level} aria-current=${level === names.length - 1 ? "page" : undefined}
        href=${withValue(choice, "folder", names.slice(0, level + 1).join("/"))}><${UserText}>${name}<//></a>`)}
    </nav>
    ${isEmpty && !folder && html`<p class="hint">${TEXT.empty}</p>`}
    ${pages.items.length > 0 && html`<ul class="tags" role="list" aria-label=${TEXT.subfolders}>
      ${pages.items.map(({ folder: path, videos }) => html`<li key=${path}>
        <a class="button" href=${withValue(choice, "folder", path)}>
          <${Icon} name="folder" /><${UserText}>${path.slice(path.lastIndexOf("/") + 1)}<//> <span class="number">${count(videos)}</span>
        </a>
      </li>`)}
    </ul>`}
    ${!isEmpty && html`<${LoadMore} pages=${pages} />`}
    ${folder && html`<${Move} key=${folder} choice=${choice} folder=${folder} />`}
  </section>`;
}

/** Form that moves or renames the open folder, and opens it at its new path. @param {{ choice: Choice, folder: string }} props */
function Move({ choice, folder }) {
  const [to, setTo] = useState(folder);
  const [state, setState] = useState(/** @type {{ moved: number } | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const { signal } = stop.current;
    setError(null);
    setState({ moved: 0 });
    try {
      const { userId } = choice.values;
      const body = { folder, to, ...(userId && userId !== "me" ? { userId } : {}) };
      let { data: move } = await ask(api.POST("/v1/folder-moves", { body, signal }));
      while (move.state === "running") {
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
        ({ data: move } = await ask(api.GET("/v1/folder-moves/{moveId}", { params: { path: { moveId: move.moveId } }, signal })));
        setState(move);
      }
      if (!move.failed) return navigate(withValue(choice, "folder", move.to));
      setError(new UserError(TEXT.notMoved(move.failed)));
    } catch (problem) {
      if (!signal.aborted) setError(problem);
    }
    setState(null);
  };
  return html`<details><summary>${TEXT.moveOrRename}</summary>
    <form onSubmit=${submit}>
      <${Field} label=${TEXT.newPath} value=${to} onInput=${setTo} autocomplete="off" spellcheck=${false} hint=${TEXT.moveHint} />
      <${Failure} error=${error} />
      <button type="submit" disabled=${state !== null || !to.trim() || to.trim() === folder}>${TEXT.move}</button>
      ${state && html`<span role="status">${TEXT.moving(state.moved)}</span>`}
    </form>
  </details>`;
}
