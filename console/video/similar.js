// Videos similar to the current one.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { useLoad } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { duration } from "../core/formats.js";
import { Poster, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video;

const SHOWN = 6;

/** @param {{ videoId: string }} props */
export default function Similar({ videoId }) {
  // An error is not shown, because the list is optional.
  const { value } = useLoad(async (signal) => {
    const params = { path: { videoId }, query: { limit: SHOWN } };
    return (await ask(api.GET("/v1/videos/{videoId}/similar", { params, signal }))).data.items;
  }, [videoId]);
  if (!value?.length) return null;
  return html`<section class="similar" aria-label=${TEXT.similar}>
    <h2>${TEXT.similar}</h2>
    ${value.map(({ video }) => html`<a key=${video.videoId} href=${hrefTo(["videos", video.videoId])}>
      <span class="frame"><${Poster} url=${video.poster} of=${video} />${video.duration !== undefined && html`<span class="length">${duration(video.duration)}</span>`}</span>
      <span><${UserText} class="title">${video.title}<//>
        <small><${UserText}>${video.userId}<//>${video.viewCount !== undefined && ` · ${texts.common.views(video.viewCount)}`}</small></span>
    </a>`)}
  </section>`;
}
