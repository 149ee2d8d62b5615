// Page of the design system: the shared components in both themes, for developers and the layout tests.

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.js";
import { texts } from "../texts/index.js";
import { Breadcrumbs, Dialog, Empty, Failure, Field, Icon, Loading, Menu, Poster, Status, Time, announceText } from "./parts.js";
import { Sparkline } from "./sparkline.js";
import { TagInput } from "./tags.js";
import { ICONS } from "./icons.js";

const TEXT = texts.designPage;

/** @typedef {import("./icons.js").IconName} IconName */

const COLOURS = ["back", "raised", "sunken", "text", "soft", "line", "edge", "accent", "accent-soft", "danger", "good", "good-soft", "bad", "bad-soft", "busy", "busy-soft", "mark"];
const STATES = ["uploaded", "queued", "running", "processing", "ready", "done", "failed", "deleted", "private", "public"];
const REFUSED = new Problem({ status: 409, title: TEXT.refusedTitle, detail: TEXT.refused });

export default function Design() {
  return html`<h1 tabindex="-1">${TEXT.designSystem}</h1>
    ${["light", "dark"].map((theme) => html`<section class="theme" key=${theme} style=${{ colorScheme: theme }} aria-label=${TEXT.theme(theme)}>
      <h2>${theme === "light" ? TEXT.lightTheme : TEXT.darkTheme}</h2>
      <${Parts} theme=${theme} />
    </section>`)}`;
}

/** @param {{ theme: string }} props */
function Parts({ theme }) {
  const [text, setText] = useState(TEXT.exampleTitle);
  const [tags, setTags] = useState(["boats", "dawn"]);
  const [tag, setTag] = useState("");
  const [isOpen, setOpen] = useState(false);
  return html`
    <h3>${TEXT.colours}</h3>
    <ul class="swatches">${COLOURS.map((name) => html`<li><span style=${{ background: `var(--${name})` }}></span>${name}</li>`)}</ul>
    <h3>${TEXT.buttons}</h3>
    <div class="actions">
      <button type="button" class="primary"><${Icon} name="upload" />${TEXT.primary}</button>
      <button type="button"><${Icon} name="pencil" />${TEXT.secondary}</button>
      <button type="button" class="danger"><${Icon} name="trash" />${TEXT.danger}</button>
      <button type="button" class="quiet"><${Icon} name="refresh-cw" />${TEXT.quiet}</button>
      <button type="button" class="quiet danger"><${Icon} name="trash" />${TEXT.quietDanger}</button>
      <button type="button" class="primary" disabled>${TEXT.disabled}</button>
      <${Menu} label=${html`${TEXT.menu}<${Icon} name="chevron-down" />`} class="">
        <button type="button"><${Icon} name="share-2" />${TEXT.share}</button>
        <button type="button"><${Icon} name="download" />${TEXT.download}</button>
      <//>
    </div>
    <h3>${TEXT.fields}</h3>
    <div class="side-by-side">
      <${Field} label=${texts.fields.title} value=${text} onInput=${setText} hint=${TEXT.titleHint} />
      <${Field} label=${texts.fields.language} value="english" onInput=${() => undefined} error=${TEXT.languageFault} />
      <${Field} label=${texts.fields.visibility} kind="select" value="private" onInput=${() => undefined}><option value="private">${texts.states.private}</option><option value="public">${texts.states.public}</option><//>
      <${Field} label=${texts.fields.description} kind="textarea" rows="2" most=${300} value=${text} onInput=${setText} />
      <${TagInput} label=${texts.fields.tags} tags=${tags} typed=${tag} known=${[{ tag: "sea", count: 12 }, { tag: "seaside", count: 4 }]}
        change=${(/** @type {string[]} */ list, /** @type {string} */ typed) => {
          setTags(list);
          setTag(typed);
        }} />
    </div>
    <h3>${TEXT.badges}</h3>
    <p class="actions">${STATES.map((state) => html`<${Status} of=${state} />`)} <span class="number">12</span></p>
    <h3>${TEXT.navigation}</h3>
    <${Breadcrumbs} path=${[[texts.library.title, "#/"]]} here=${TEXT.exampleTitle} />
    <div class="tabs" role="tablist" aria-label=${TEXT.tabs(theme)}>
      ${[texts.video.tabs.details, texts.video.tabs.credits, texts.video.tabs.history].map((name, index) => html`<a role="tab" href="#/design" aria-selected=${String(!index)}>${name}</a>`)}
    </div>
    <h3>${TEXT.table}</h3>
    <div class="table" role="region" tabindex="0" aria-label=${TEXT.tableName(theme)}><table>
      <thead><tr><th scope="col">${texts.fields.title}</th><th scope="col">${texts.fields.status}</th><th scope="col">${texts.fields.updatedAt}</th><th scope="col" class="amount">${texts.fields.viewCount}</th></tr></thead>
      <tbody>${[TEXT.secondTitle, TEXT.thirdTitle].map((title, index) => html`<tr><th scope="row">${title}</th><td><${Status} of=${index ? "processing" : "ready"} /></td>
        <td><${Time} at=${Date.now() - (index + 1) * 5_400_000} /></td><td class="amount">1,204</td></tr>`)}</tbody>
    </table></div>
    <h3>${TEXT.numberOverTime}</h3>
    <${Sparkline} counts=${[3, 5, 2, 8, 13, 9, 4, 6, 12, 15, 11, 7]} time=${TEXT.courseTime} label=${TEXT.course(theme)} />
    <h3>${TEXT.posters}</h3>
    <ul class="grid">${[TEXT.secondTitle, TEXT.thirdTitle, TEXT.fourthTitle].map((title) => html`<li><${Poster} of=${{ videoId: title, title }} /></li>`)}</ul>
    <h3>${TEXT.changedTextHeading}</h3>
    <section class="surface"><h4>${texts.fields.source}</h4><p class="hint">${texts.video.overview.noSource}</p></section>
    <details class="folded"><summary><${Icon} name="circle-check" /><h2>${texts.video.processing.title}</h2><span class="hint">${TEXT.allDone}</span></summary><p>${TEXT.steps}</p></details>
    <p>${TEXT.changedText(html`<del class="word">${TEXT.changedFrom}</del><ins class="word">${TEXT.changedTo}</ins>`)}</p>
    <h3>${TEXT.messages}</h3>
    <${Failure} error=${REFUSED} retry=${() => undefined} />
    <${Empty} icon="video-off"><p>${TEXT.empty}</p><a class="button primary" href="#/upload">${texts.library.upload}</a><//>
    <${Loading} />
    <ul class="grid" aria-hidden="true">${[0, 1, 2].map((index) => html`<li key=${index} class="skeleton"><span class="poster"></span><span>${"\u00a0"}</span></li>`)}</ul>
    <div class="actions">
      <button type="button" onClick=${() => setOpen(true)}>${TEXT.openDialog}</button>
      <button type="button" onClick=${() => announceText(texts.common.saved, "example")}>${TEXT.showToast}</button>
    </div>
    ${isOpen && html`<${Dialog} title=${texts.video.remove.question} onClose=${() => setOpen(false)}>
      <p>${TEXT.dialogText}</p>
      <div class="actions"><button type="button" class="danger" onClick=${() => setOpen(false)}>${texts.common.delete}</button><button type="button" onClick=${() => setOpen(false)}>${texts.common.cancel}</button></div>
    <//>`}
    <h3>${TEXT.icons}</h3>
    <ul class="swatches">${/** @type {IconName[]} */ (Object.keys(ICONS)).map((name) => html`<li><${Icon} name=${name} />${name}</li>`)}</ul>`;
}
