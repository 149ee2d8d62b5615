// Videos whose processing takes longer than expected, and the jobs that they wait for.

import { html } from "htm/preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, ask } from "../core/api.js";
import { usePages } from "../core/load.js";
import { time } from "../core/formats.js";
import { Empty, Failure, Field, Loading, PendingChanges, Status, UserText } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { nameOf } from "../video/names.js";
import { Panel, ShowMore, usePendingChanges, VideoRow } from "./panel.js";

const TEXT = texts.operations.waiting;

/** @typedef {import("../core/api.js").Schemas["VideoSummary"]} Summary */
/** @typedef {import("../core/api.js").Schemas["Readiness"]} Readiness */

/** Minimum ages in seconds, with labels. @type {[string, string][]} */
const AGES = [["600", TEXT.tenMinutes], ["3600", TEXT.hour], ["86400", TEXT.day]];

/** @param {import("../screens/operations.js").PanelProps} props */
export default function WaitingJobs({ changes }) {
  const [age, setAge] = useState("600");
  const [round, setRound] = useState(0);
  const before = useMemo(() => Math.floor(Date.now() / 1000) - Number(age), [age, round]);
  const pages = usePages(async (cursor, signal) => {
    const query = { status: /** @type {const} */ ("processing"), order: /** @type {const} */ ("asc"), to: before, limit: 12, cursor };
    const { data } = await ask(api.GET("/v1/videos", { params: { query }, signal }));
    return { ...data, items: /** @type {Summary[]} */ (data.items) };
  }, [before, round], { key: ({ videoId }) => videoId });
  /** Number of job changes of each video since it was shown, by id. */
  const [rounds, setRounds] = useState(/** @type {Record<string, number>} */ ({}));
  usePendingChanges(changes, pages, (videoIds) => {
    if (videoIds.length) setRounds((known) => ({ ...known, ...Object.fromEntries(videoIds.map((id) => [id, (known[id] ?? 0) + 1])) }));
  });
  return html`<${Panel} title=${TEXT.title} class="panel-wide" refresh=${() => setRound((number) => number + 1)}>
    <${Field} label=${TEXT.olderThan} kind="select" value=${age} onInput=${setAge}>
      ${AGES.map(([value, name]) => html`<option value=${value}>${name}</option>`)}
    <//>
    <${PendingChanges} pages=${pages} />
    ${pages.isDone && !pages.items.length && html`<${Empty}>${TEXT.none}<//>`}
    <ul class="panel-rows">
      ${pages.items.map((video) => html`<${Row} key=${`${video.videoId} ${round}`} video=${video} round=${rounds[video.videoId] ?? 0} />`)}
    </ul>
    <${ShowMore} pages=${pages} />
  <//>`;
}

/** @param {{ video: Summary, round: number }} props */
function Row({ video, round }) {
  const [why, setWhy] = useState(/** @type {Readiness | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const { videoId } = video;
  const load = () => {
    setError(null);
    ask(api.GET("/v1/videos/{videoId}/why-not-ready", { params: { path: { videoId } } })).then(({ data }) => setWhy(data), setError);
  };
  useEffect(() => {
    if (why) load(); // rows that were never visible are not loaded
  }, [round]);
  const { blocker } = why ?? {};
  return html`<${VideoRow} video=${video} onVisible=${load}>
    ${error ? html`<${Failure} error=${error} retry=${load} />` : !why && html`<${Loading} what=${texts.operations.loadingReason} />`}
    ${why && html`<p class="panel-reason"><${UserText}>${why.reason}<//></p>`}
    ${blocker && html`<p class="panel-facts">
      <${UserText}>${nameOf(blocker.kind)}<//> <${Status} of=${blocker.state} />
      <span>${TEXT.attempts(blocker.attempts)}</span>
      <span>${blocker.state === "running" ? TEXT.progress(blocker.progress ?? 0, time(blocker.startedAt ?? blocker.queuedAt)) : TEXT.since(time(blocker.queuedAt))}</span>
    </p>`}
  <//>`;
}
