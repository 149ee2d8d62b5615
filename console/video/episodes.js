// Episodes, if the video is a series.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { usePages } from "../core/load.js";
import { hrefTo } from "../core/route.js";
import { duration } from "../core/formats.js";
import { LoadMore, Poster, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";

const TEXT = texts.video;

/** @param {{ video: import("../screens/video.js").Video }} props */
export default function Episodes({ video: { videoId } }) {
  const pages = usePages(async (cursor, signal) => {
    const params = { path: { videoId }, query: { limit: 50, cursor } };
    return (await ask(api.GET("/v1/videos/{videoId}/episodes", { params, signal }))).data;
  }, [videoId]);
  if (!pages.items.length && !pages.error) return null;
  return html`<h3>${TEXT.episodes}</h3>
    <ol class="video-list">
      ${pages.items.map(({ video, season, episode }) => html`<li key=${video.videoId}><a href=${hrefTo(["videos", video.videoId])}>
        <${Poster} url=${video.poster} of=${video} />
        <span><${UserText} class="title">${video.title}<//>
          <small>${[season !== undefined && TEXT.season(season), episode !== undefined && TEXT.episode(episode),
            video.duration !== undefined && duration(video.duration)].filter(Boolean).join(" · ")}</small></span>
      </a></li>`)}
    </ol>
    <${LoadMore} pages=${pages} />`;
}
