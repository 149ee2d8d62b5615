// The public API, typed by its OpenAPI document: what it does not have, `tsc` refuses here.

import createClient from "openapi-fetch";
import { texts } from "../texts/index.js";
import { accessToken, renew } from "./session.js";

const TEXT = texts.errors;

/**
 * @typedef {import("#api").components["schemas"]} Schemas
 * @typedef {{ detail: string, pointer?: string, parameter?: string, line?: number | null }} Fault `line` is one of a file, from 1.
 */

/** What the API answered instead of what was wanted (RFC 9457), or that there was no answer. */
export class Problem extends Error {
  /** @param {{ status: number, title: string, detail: string, type?: string, errors?: Fault[], retryAfter?: number | null }} said */
  constructor({ status, title, detail, type = "about:blank", errors = [], retryAfter = null }) {
    super(detail || title);
    this.name = "Problem";
    /** 0 when there was no answer. */
    this.status = status;
    this.title = title;
    /** Its last part, such as `version-mismatch`. */
    this.kind = type.split(":").at(-1) ?? "";
    this.errors = errors;
    /** Seconds. */
    this.retryAfter = retryAfter;
  }

  /** What is wrong with a field of the body, such as `/title`; undefined: nothing.
   * @param {string} pointer */
  at(pointer) {
    return this.errors.find((fault) => fault.pointer === pointer)?.detail;
  }

  /** What is wrong with a parameter of the query, such as `from`; undefined: nothing.
   * @param {string} parameter */
  on(parameter) {
    return this.errors.find((fault) => fault.parameter === parameter)?.detail;
  }
}

/** @type {import("openapi-fetch").Client<import("#api").paths>} */
export const api = createClient({ baseUrl: new URL("..", location.href).href.replace(/\/$/, ""), fetch: authorized });

/** Return the body of a response, its version and, of a write, its change set; throws Problem.
 *
 * `await ask(api.GET("/v1/videos/{videoId}", { params: { path: { videoId } } }))`
 * @template T
 * @param {Promise<{ data?: T, error?: unknown, response: Response }>} call
 * @returns {Promise<{ data: NonNullable<T>, etag: string | null, changeSet: string | null }>} */
export async function ask(call) {
  const { data, error, response } = await call.catch(aborted);
  if (!response.ok) throw toProblem(error, response);
  return { data: /** @type {NonNullable<T>} */ (data), etag: response.headers.get("etag"), changeSet: response.headers.get("change-set") };
}

/** @param {Request} request */
async function authorized(request) {
  const again = request.clone();
  const token = accessToken();
  const answer = await send(request, token);
  if (answer.status !== 401) return answer;
  await renew(token).catch(connectionError); // a request that was refused did nothing, whatever its method
  return send(again, accessToken());
}

/** @param {Request} request @param {string | null} token */
async function send(request, token) {
  if (token) request.headers.set("Authorization", `Bearer ${token}`);
  try {
    return await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    return connectionError();
  }
}

/** The connection may end in the middle of an answer as well. @param {unknown} error @returns {never} */
function aborted(error) {
  if (error instanceof TypeError) connectionError();
  throw error;
}

/** @returns {never} */
function connectionError() {
  throw new Problem({ status: 0, title: texts.common.noConnection, detail: TEXT.serviceSilent });
}

/** @param {unknown} error @param {Response} response */
function toProblem(error, response) {
  const said = /** @type {Record<string, any>} */ (error && typeof error === "object" ? error : {});
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  return new Problem({
    status: response.status,
    title: said.title ?? said.message ?? TEXT.requestFailed,
    detail: said.detail ?? said.message ?? TEXT.serviceStatus(response.status),
    type: said.type,
    errors: said.errors,
    retryAfter,
  });
}
