// Saved questions about the archive: an administrator selects a question and days, and runs it.

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { api, ask, Problem } from "../core/api.js";
import { useAttempt, useInterval, useLoad } from "../core/load.js";
import { lookUp } from "../core/lookup.js";
import { hrefTo } from "../core/route.js";
import { saveFile } from "../core/save.js";
import { count, money, size } from "../core/formats.js";
import { Breadcrumbs, Empty, Failure, Field, Icon, Loading, UserText } from "../design/parts.js";
import { useIdempotencyKey } from "../playlists/idempotency.js";
import { texts } from "../texts/index.js";
import { Chart, Panel } from "./panel.js";

const TEXT = texts.operations.questions;

/** @typedef {import("../core/api.js").Schemas["Question"]} Question */
/** @typedef {import("../core/api.js").Schemas["QuestionRun"]} Run */

const POLL_MS = 1000;
const DAY_MS = 86_400_000;
/** Default number of days, including today. */
const DAYS = 30;
/** @type {Record<string, string>} */
const TITLES = TEXT.titles;
/** @type {Record<string, string>} */
const COLUMNS = TEXT.columns;
/** Name of the column that contains ids of videos. */
const VIDEO_IDS = "video_id";

export default function Questions() {
  const { value, error, reload } = useLoad(async (signal) => (await ask(api.GET("/v1/questions", { signal }))).data.items, []);
  return html`<${Breadcrumbs} path=${[[texts.operations.title, hrefTo(["operations"])]]} here=${TEXT.title} />
    <h1>${TEXT.title}</h1>
    <p class="hint">${TEXT.about}</p>
    ${error ? html`<${Failure} error=${error} retry=${reload} />`
      : !value ? html`<${Loading} />`
        : value.length ? html`<${Form} questions=${value} />` : html`<${Empty}>${TEXT.noQuestions}<//>`}`;
}

/** @param {{ questions: Question[] }} props */
function Form({ questions }) {
  const now = Date.now();
  const [name, setName] = useState(questions[0]?.question ?? "");
  const [from, setFrom] = useState(dayOf(now - (DAYS - 1) * DAY_MS));
  const [to, setTo] = useState(dayOf(now));
  const [run, setRun] = useState(/** @type {Run | null} */ (null));
  const once = useIdempotencyKey();
  const { error, isBusy, run: start } = useAttempt(async () => {
    setRun(null);
    const params = { path: { question: name }, query: { from, to } };
    setRun(await once(params, async (key) => (
      await ask(api.POST("/v1/questions/{question}/runs", { params: { ...params, header: { "Idempotency-Key": key } } }))).data));
  });
  const poll = usePoll(run, setRun);
  const fault = (/** @type {string} */ day) => (error instanceof Problem ? error.on(day) : undefined);
  const isRunning = isBusy || (isOpen(run) && !poll.error);
  const question = questions.find(({ question: each }) => each === run?.question);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!isRunning) start();
  };
  return html`<form class="panel-form question-form" onSubmit=${submit}>
      <${Field} label=${TEXT.question} kind="select" value=${name} onInput=${setName}>
        ${questions.map((each) => html`<option value=${each.question}>${titleOf(each)}</option>`)}
      <//>
      <${Field} label=${TEXT.from} kind="date" value=${from} onInput=${setFrom} error=${fault("from")} required />
      <${Field} label=${TEXT.to} kind="date" value=${to} onInput=${setTo} error=${fault("to")} required />
      <button class="primary" aria-disabled=${String(isRunning)}>${TEXT.run}</button>
    </form>
    ${!fault("from") && !fault("to") && html`<${Failure} error=${error} />`}
    <${Failure} error=${poll.error} retry=${poll.retry} />
    ${isRunning && html`<${Loading} what=${TEXT.running} />`}
    ${run && question && !isOpen(run) && html`<${Result} run=${run} question=${question} key=${run.runId} />`}`;
}

/** Poll a run until it has ended. @param {Run | null} run @param {(run: Run) => void} show */
function usePoll(run, show) {
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const isReading = useRef(false);
  const read = async () => {
    if (!run || isReading.current) return;
    isReading.current = true;
    try {
      const params = { path: { question: run.question, runId: run.runId } };
      show((await ask(api.GET("/v1/questions/{question}/runs/{runId}", { params }))).data);
      setError(null);
    } catch (reason) {
      setError(reason);
    } finally {
      isReading.current = false;
    }
  };
  useInterval(read, POLL_MS, isOpen(run) && !error);
  return { error: isOpen(run) ? error : null, retry: () => setError(null) };
}

/** @param {Run | null} run */
function isOpen(run) {
  return run?.state === "queued" || run?.state === "running";
}

/** @param {{ run: Run, question: Question }} props */
function Result({ run, question }) {
  const { rows, more, bytes, dollars, error } = run;
  const { columns, chart } = question;
  // The first columns of the chart's table are the label and the number.
  const drawn = chart && [chart.labels, chart.numbers, ...columns.map(({ name }) => name).filter((name) => name !== chart.labels && name !== chart.numbers)];
  const places = drawn?.map((name) => columns.findIndex((column) => column.name === name));
  const title = titleOf(question);
  const save = () => saveFile(`${run.question}_${run.from}_${run.to}.csv`, csv([columns.map(({ name }) => name), ...rows]), "text/csv");
  return html`<${Panel} title=${title}>
    <p class="panel-facts" role="status"><span>${TEXT.days(run.from, run.to)}</span>
      <span>${TEXT.cost(size(bytes), money(dollars))}</span>
      ${!error && html`<span>${TEXT.rows(rows.length)}</span>`}</p>
    ${error ? html`<div class="failure" role="alert"><strong>${TEXT.failed}</strong><p>${error} ${TEXT.runId(run.runId)}</p></div>`
      : !rows.length ? html`<${Empty}>${TEXT.noRows}<//>`
        : html`${drawn && places ? html`<${Chart} caption=${title} columns=${drawn.map((name) => columnName({ name }))}
            bars=${rows.map((row) => barOf(places.map((place) => row[place] ?? null), drawn[0] === VIDEO_IDS))} />`
          : html`<${Rows} title=${title} columns=${columns} rows=${rows} />`}
          ${more && html`<p class="hint">${TEXT.more}</p>`}
          <div class="actions"><button type="button" onClick=${save}><${Icon} name="download" />${TEXT.download}</button></div>`}
  <//>`;
}

/** @param {{ title: string, columns: Question["columns"], rows: Run["rows"] }} props */
function Rows({ title, columns, rows }) {
  return html`<div class="table question-rows" role="region" tabindex="0" aria-label=${title}><table>
    <thead><tr>${columns.map((column) => html`<th scope="col" class=${isNumber(column) ? "amount" : ""}>${columnName(column)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${columns.map((column, place) => html`<td class=${isNumber(column) ? "amount" : ""}>
      <${Value} value=${row[place] ?? null} name=${column.name} /></td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {{ value: string | number | null, name: string }} props */
function Value({ value, name }) {
  if (value === null) return "–";
  if (typeof value === "number") return count(value);
  const text = html`<${UserText}>${value}<//>`;
  return name === VIDEO_IDS ? html`<a href=${hrefTo(["videos", value])}>${text}</a>` : text;
}

/** @param {Run["rows"][number]} row a label, a number and other values @param {boolean} isVideo whether the label is the id of a video
 * @returns {import("./panel.js").Bar} */
function barOf([label, ...values], isVideo) {
  const name = String(label ?? "–");
  const cells = values.map((value) => (typeof value === "number" ? count(value) : value ?? "–"));
  return { key: name, name, href: isVideo ? hrefTo(["videos", name]) : undefined, value: Number(values[0]), cells };
}

/** @param {Question} question */
function titleOf({ question, title }) {
  return lookUp(TITLES, question) ?? title;
}

/** @param {{ name: string }} column */
function columnName({ name }) {
  return lookUp(COLUMNS, name) ?? name;
}

/** @param {Question["columns"][number]} column */
function isNumber({ type }) {
  return type === "bigint";
}

/** Return the UTC day of a time, such as `2026-01-31`. @param {number} milliseconds of the epoch */
function dayOf(milliseconds) {
  return new Date(milliseconds).toISOString().slice(0, 10);
}

/** Format rows as CSV (RFC 4180). Null is an empty field. @param {(string | number | null)[][]} rows */
export function csv(rows) {
  const quoted = (/** @type {string} */ text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => `${row.map((value) => quoted(String(value ?? ""))).join(",")}\r\n`).join("");
}
