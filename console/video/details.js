// Details of a video, in tabs.

import { html } from "htm/preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { navigate, hrefTo } from "../core/route.js";
import { texts } from "../texts/index.js";
import VideoPlaylists from "./playlists.js";
import Credits from "./credits.js";
import Overview from "./overview.js";
import History from "./history.js";
import { Deleted } from "./remove.js";
import Texts from "./texts.js";
import Titles from "./titles.js";

const TEXT = texts.video.tabs;

/** @typedef {import("../screens/video.js").PartProps} PartProps */

/** @type {{ name: string, title: string, Panel: (props: PartProps) => unknown, isForOwner?: boolean }[]} */
const TABS = [
  { name: "facts", title: TEXT.details, Panel: Overview },
  { name: "credits", title: TEXT.credits, Panel: Credits },
  { name: "titles", title: TEXT.titles, Panel: Titles },
  { name: "captions", title: TEXT.captions, Panel: Texts },
  { name: "playlists", title: texts.playlists.title, Panel: VideoPlaylists },
  { name: "history", title: TEXT.history, Panel: History, isForOwner: true },
];

/** @param {PartProps} props */
export default function Details(props) {
  const { video, isOwner, route } = props;
  const tabs = TABS.filter(({ isForOwner }) => isOwner || !isForOwner);
  const asked = route.query.get("tab");
  const shown = tabs.find(({ name }) => name === asked)?.name ?? "facts";
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    const tab = document.getElementById(`tab-${shown}`);
    if (!list.current || !tab) return;
    const { offsetLeft, clientWidth } = list.current;
    list.current.scrollLeft = tab.offsetLeft - offsetLeft - (clientWidth - tab.offsetWidth) / 2; // scrollIntoView would also scroll the page
  }, [shown]);
  const place = (/** @type {string} */ name) => hrefTo(["videos", video.videoId], { tab: name });

  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    // The index of the focused tab. The URL and the selected tab change only later.
    const at = tabs.findIndex(({ name }) => `tab-${name}` === document.activeElement?.id);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    const tab = next === undefined ? undefined : tabs.at(next % tabs.length);
    if (!tab) return;
    event.preventDefault();
    navigate(place(tab.name), { replace: true });
    document.getElementById(`tab-${tab.name}`)?.focus();
  };

  return html`<section class="details" aria-label=${TEXT.details}>
    <${Deleted} ...${props} />
    <div class="tabs" role="tablist" ref=${list} aria-label=${TEXT.details} onKeyDown=${onKeyDown}>
      ${tabs.map(({ name, title }) => html`<a key=${name} id=${`tab-${name}`} role="tab" href=${place(name)}
        aria-selected=${String(name === shown)} aria-controls=${`panel-${name}`} tabindex=${name === shown ? 0 : -1}>${title}</a>`)}
    </div>
    ${tabs.map(({ name, Panel }) => html`<div key=${name} id=${`panel-${name}`} class="tab-panel" role="tabpanel"
      aria-labelledby=${`tab-${name}`} tabindex="0" hidden=${name !== shown}>
      ${name === shown && html`<${Panel} ...${props} key=${video.videoId} />`}
    </div>`)}
  </section>`;
}
