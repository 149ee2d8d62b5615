// Client of the public API. Its types come from the OpenAPI document, so `tsc` rejects calls that the API does not have.

import createClient from "openapi-fetch";
import { texts } from "../texts/index.js";
import { accessToken, renew } from "./session.js";

const TEXT = texts.errors;

/**
 * @typedef {import("#api").components["schemas"]} Schemas
 * @typedef {{ detail: string, pointer?: string, parameter?: string, line?: number | null }} Fault `line` is a line of the sent file, from 1.
 */

/** Error response of the API (RFC 9457), or a request without a response. */
export class Problem extends Error {
  /** @param {{ status: number, title: string, detail: string, type?: string, errors?: Fault[], retryAfter?: number | null }} problem */
  constructor({ status, title, detail, type = "about:blank", errors = [], retryAfter = null }) {
    super(detail || title);
    this.name = "Problem";
    /** HTTP status; 0 if there was no response. */
    this.status = status;
    this.title = title;
    /** Last part of the problem type, such as `version-mismatch`. */
    this.kind = type.split(":").at(-1) ?? "";
    this.errors = errors;
    /** Seconds to wait before a retry; null if the response did not say. */
    this.retryAfter = retryAfter;
  }

  /** Return the error of a body field; undefined if there is none.
   * @param {string} pointer JSON Pointer, such as `/title` */
  at(pointer) {
    return this.errors.find((fault) => fault.pointer === pointer)?.detail;
  }

  /** Return the error of a query parameter, such as `from`; undefined if there is none.
   * @param {string} parameter */
  on(parameter) {
    return this.errors.find((fault) => fault.parameter === parameter)?.detail;
  }
}

/** @type {import("openapi-fetch").Client<import("#api").paths>} */
export const api = createClient({ baseUrl: new URL("..", location.href).href.replace(/\/$/, ""), fetch: authorized });

/** Return the body and ETag of a response, and the id of the change set of a write. Throws Problem if the request fails.
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

/** Send a request with the access token. After a 401, renew the token and send the request once more.
 * @param {Request} request */
async function authorized(request) {
  const retry = request.clone();
  const token = accessToken();
  const response = await send(request, token);
  if (response.status !== 401) return response;
  await renew(token).catch(connectionError); // a rejected request changed nothing, so any method can be retried
  return send(retry, accessToken());
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

/** Throw a connection error for a TypeError: the connection can also end while the body is read.
 * @param {unknown} error @returns {never} */
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
  const body = /** @type {Record<string, any>} */ (error && typeof error === "object" ? error : {});
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  return new Problem({
    status: response.status,
    title: body.title ?? body.message ?? TEXT.requestFailed,
    detail: body.detail ?? body.message ?? TEXT.serviceStatus(response.status),
    type: body.type,
    errors: body.errors,
    retryAfter,
  });
}
