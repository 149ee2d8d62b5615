// The parts of all screens, in both themes: for who changes them, and for the layout checks.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { Breadcrumbs, Dialog, Empty, Failure, Field, Icon, Loading, Menu, Poster, Status, Time, announceText } from "./parts.js";
import { Sparkline } from "./sparkline.js";
import { TagInput } from "./tags.js";
import { ICONS } from "./icons.js";

/** @typedef {import("./icons.js").IconName} IconName */

const COLOURS = ["back", "raised", "sunken", "text", "soft", "line", "edge", "accent", "accent-soft", "danger", "good", "good-soft", "bad", "bad-soft", "busy", "busy-soft"];
const STATES = ["uploaded", "queued", "running", "processing", "ready", "done", "failed", "deleted", "private", "public"];
const REFUSED = new Problem({ status: 409, title: "Conflict", detail: "Another user changed the video. Reload it and try again." });

export default function Design() {
  return html`<h1 tabindex="-1">Design system</h1>
    ${["light", "dark"].map((theme) => html`<section class="theme" key=${theme} style=${{ colorScheme: theme }} aria-label=${`Theme: ${theme}`}>
      <h2>${theme === "light" ? "Light" : "Dark"} theme</h2>
      <${Parts} theme=${theme} />
    </section>`)}`;
}

/** @param {{ theme: string }} props */
function Parts({ theme }) {
  const [text, setText] = useState("A ride through the city");
  const [tags, setTags] = useState(["boats", "dawn"]);
  const [tag, setTag] = useState("");
  const [isOpen, setOpen] = useState(false);
  return html`
    <h3>Colours</h3>
    <ul class="swatches">${COLOURS.map((name) => html`<li><span style=${{ background: `var(--${name})` }}></span>${name}</li>`)}</ul>
    <h3>Buttons</h3>
    <div class="actions">
      <button type="button" class="primary"><${Icon} name="upload" />Primary</button>
      <button type="button"><${Icon} name="pencil" />Secondary</button>
      <button type="button" class="danger"><${Icon} name="trash" />Danger</button>
      <button type="button" class="quiet"><${Icon} name="refresh-cw" />Quiet</button>
      <button type="button" class="quiet danger"><${Icon} name="trash" />Quiet danger</button>
      <button type="button" class="primary" disabled>Disabled</button>
      <${Menu} label=${html`Menu<${Icon} name="chevron-down" />`} class="">
        <button type="button"><${Icon} name="share-2" />Share</button>
        <button type="button"><${Icon} name="download" />Download</button>
      <//>
    </div>
    <h3>Fields</h3>
    <div class="side-by-side">
      <${Field} label="Title" value=${text} onInput=${setText} hint="Shown in lists and on the page of the video." />
      <${Field} label="Language" value="english" onInput=${() => undefined} error="Enter a language tag, for example en." />
      <${Field} label="Visibility" kind="select" value="private" onInput=${() => undefined}><option value="private">Private</option><option value="public">Public</option><//>
      <${Field} label="Description" kind="textarea" rows="2" most=${300} value=${text} onInput=${setText} />
      <${TagInput} label="Tags" tags=${tags} typed=${tag} known=${[{ tag: "sea", count: 12 }, { tag: "seaside", count: 4 }]}
        change=${(/** @type {string[]} */ list, /** @type {string} */ typed) => {
          setTags(list);
          setTag(typed);
        }} />
    </div>
    <h3>Badges</h3>
    <p class="actions">${STATES.map((state) => html`<${Status} of=${state} />`)} <span class="number">12</span></p>
    <h3>Navigation</h3>
    <${Breadcrumbs} path=${[["Library", "#/"]]} here="A ride through the city" />
    <div class="tabs" role="tablist" aria-label=${`Tabs, ${theme}`}>
      ${["Details", "Credits", "History"].map((name, index) => html`<a role="tab" href="#/design" aria-selected=${String(!index)}>${name}</a>`)}
    </div>
    <h3>Table</h3>
    <div class="table" role="region" tabindex="0" aria-label=${`Table, ${theme}`}><table>
      <thead><tr><th scope="col">Title</th><th scope="col">Status</th><th scope="col">Updated</th><th scope="col" class="amount">Views</th></tr></thead>
      <tbody>${["Harbour at dawn", "Low tide"].map((title, index) => html`<tr><th scope="row">${title}</th><td><${Status} of=${index ? "processing" : "ready"} /></td>
        <td><${Time} at=${Date.now() - (index + 1) * 5_400_000} /></td><td class="amount">1,204</td></tr>`)}</tbody>
    </table></div>
    <h3>Number over time</h3>
    <${Sparkline} counts=${[3, 5, 2, 8, 13, 9, 4, 6, 12, 15, 11, 7]} time="in the last 12 hours" label=${`95 views in the last 12 hours, ${theme}`} />
    <h3>Posters</h3>
    <ul class="grid">${["Harbour at dawn", "Low tide", "Night ferry"].map((title) => html`<li><${Poster} of=${{ videoId: title, title }} /></li>`)}</ul>
    <h3>Surfaces, and changed text</h3>
    <section class="surface"><h4>Source file</h4><p class="hint">No source file yet.</p></section>
    <details class="folded"><summary><${Icon} name="circle-check" /><h2>Processing</h2><span class="hint">All 5 steps done</span></summary><p>Steps</p></details>
    <p>Filmed over <del class="word">three mornings</del><ins class="word">two evenings</ins> in May</p>
    <h3>Messages</h3>
    <${Failure} error=${REFUSED} retry=${() => undefined} />
    <${Empty} icon="video-off"><p>You have no videos yet.</p><a class="button primary" href="#/upload">Upload a video</a><//>
    <${Loading} />
    <ul class="grid" aria-hidden="true">${[0, 1, 2].map((index) => html`<li key=${index} class="skeleton"><span class="poster"></span><span>${"\u00a0"}</span></li>`)}</ul>
    <div class="actions">
      <button type="button" onClick=${() => setOpen(true)}>Open dialog</button>
      <button type="button" onClick=${() => announceText("Saved.", "example")}>Show toast</button>
    </div>
    ${isOpen && html`<${Dialog} title="Delete this video?" onClose=${() => setOpen(false)}>
      <p>You can restore it for a limited time.</p>
      <div class="actions"><button type="button" class="danger" onClick=${() => setOpen(false)}>Delete</button><button type="button" onClick=${() => setOpen(false)}>Cancel</button></div>
    <//>`}
    <h3>Icons</h3>
    <ul class="swatches">${/** @type {IconName[]} */ (Object.keys(ICONS)).map((name) => html`<li><${Icon} name=${name} />${name}</li>`)}</ul>`;
}
