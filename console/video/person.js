// Published videos of a person.

import { html } from "htm/preact";
import { api, ask, Problem } from "../core/api.js";
import { usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { LoadMore, Poster, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video.person;

/** @param {{ personId: string, name?: string, videoId: string }} props */
export default function Person({ personId, name, videoId }) {
  const pages = usePages(async (cursor, signal) => {
    try {
      return (await ask(api.GET("/v1/people/{personId}/videos", { params: { path: { personId }, query: { limit: 50, cursor } }, signal }))).data;
    } catch (error) {
      // The API returns 404 for a person without published videos.
      if (error instanceof Problem && error.kind === "not-found") return { items: [], nextCursor: null };
      throw error;
    }
  }, [personId]);
  return html`<section class="person" aria-label=${TEXT.title}>
    <div class="above">
      <h3>${TEXT.heading(html`<${UserText}>${name ?? pages.items[0]?.credit.name ?? personId}<//>`)}</h3>
      <a class="button" href=${hrefTo(["videos", videoId], { tab: "credits" })}>${texts.common.close}</a>
    </div>
    ${pages.isDone && !pages.items.length && html`<p class="hint">${TEXT.empty}</p>`}
    <ul class="video-list">
      ${pages.items.map(({ video, releaseYear, credit }) => html`<li key=${video.videoId}><a href=${hrefTo(["videos", video.videoId])}>
        <${Poster} url=${video.poster} of=${video} />
        <span><${UserText} class="title">${video.title}<//>
          <small>${releaseYear} ${credit.roles.map((role, index) => html`${index > 0 && "; "}<${ShownRole} ...${role} />`)}</small></span>
      </a></li>`)}
    </ul>
    <${LoadMore} pages=${pages} />
  </section>`;
}

/** @param {import("../core/api.js").Schemas["ShownRole"]} role */
export function ShownRole({ category, job, characters }) {
  return html`<${UserText}>${category}<//>${job && html` (<${UserText}>${job}<//>)`}${characters.length > 0 && TEXT.playing(
    characters.map((character, index) => html`${index > 0 && ", "}<${UserText}>${character}<//>`))}`;
}
