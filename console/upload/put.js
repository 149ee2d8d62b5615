// PUT requests to S3, and retries of all upload requests.

import { Problem } from "../core/api.js";
import { UserError } from "../core/user-error.js";
import { texts } from "../texts/index.js";

const TEXT = texts.upload.faults;

/** Milliseconds without progress after which a connection counts as lost. */
const SILENCE = 90_000;
/** Milliseconds before the first retry, and at most before each later one. */
const FIRST_WAIT = 1_000, LONGEST_WAIT = 30_000;
/** Maximum number of attempts that get an error response. Attempts without a response are not limited. */
const TRIES = 6;
/** Longest Retry-After, in seconds, that is waited for. Quotas state hours. */
const SHORT = 60;
/** Kinds of transient conflicts. */
const PASSING = ["request-in-flight", "write-contention"];

/** The file can no longer be read, such as after it was moved. */
export class UnreadableFile extends UserError {}

/** PUT a file or a part of it, and return its ETag. Uses XMLHttpRequest because `fetch` does not report progress.
 *
 * Throws Problem, with status 0 if there was no response, UnreadableFile, and the reason of an abort of `signal`.
 * @param {string} url
 * @param {Blob} body
 * @param {{ headers?: Record<string, string>, signal: AbortSignal, onProgress: (bytes: number) => void }} options
 * @returns {Promise<string>} */
export async function put(url, body, { headers = {}, signal, onProgress }) {
  const request = new XMLHttpRequest();
  const stop = () => request.abort();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let silence;
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(stop, SILENCE);
  };
  signal.throwIfAborted();
  signal.addEventListener("abort", stop);
  try {
    await new Promise((resolve) => {
      request.upload.onprogress = ({ loaded }) => {
        listen();
        onProgress(loaded);
      };
      request.onloadend = resolve;
      request.open("PUT", url);
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      listen();
      request.send(body);
    });
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", stop);
  }
  signal.throwIfAborted();
  if (request.status === 0) {
    await readable(body);
    throw new Problem({ status: 0, title: texts.common.noConnection, detail: TEXT.storageSilent });
  }
  if (request.status >= 300) {
    throw new Problem({ status: request.status, title: TEXT.failedTitle, detail: TEXT.storageStatus(request.status) });
  }
  return request.getResponseHeader("ETag") ?? "";
}

/** Retry `attempt` until it succeeds: without limit while there is no connection, a few times after error responses.
 *
 * Throws the last error of `attempt`, or the reason of an abort of `signal`.
 * @template T
 * @param {() => Promise<T>} attempt
 * @param {AbortSignal} signal
 * @param {(trouble: string | null) => void} tell receives the reason of each wait, and null after success
 * @returns {Promise<T>} */
export async function retry(attempt, signal, tell) {
  let responses = 0;
  for (let tries = 1; ; tries += 1) {
    signal.throwIfAborted();
    try {
      const result = await attempt();
      tell(null);
      return result;
    } catch (error) {
      signal.throwIfAborted();
      const isOffline = error instanceof Problem && error.status === 0;
      if (!isOffline) responses += 1;
      const wait = retryDelay(error, tries, responses);
      if (wait === null) throw error;
      tell(isOffline ? TEXT.cut : TEXT.busy);
      await pause(wait, signal);
    }
  }
}

/** Return the milliseconds until the next attempt; null if there is none.
 * @param {unknown} error
 * @param {number} tries
 * @param {number} responses number of attempts that got an error response */
function retryDelay(error, tries, responses) {
  if (!(error instanceof Problem)) return null;
  const { status, kind, retryAfter } = error;
  const wait = Math.min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT) * (0.75 + Math.random() / 2);
  if (status === 0) return wait;
  if (responses >= TRIES) return null;
  if (retryAfter) return retryAfter <= SHORT ? retryAfter * 1000 : null;
  return status >= 500 || status === 408 || status === 429 || PASSING.includes(kind) ? wait : null;
}

/** Wait for a time, or until the connection returns or `signal` is aborted.
 * @param {number} milliseconds
 * @param {AbortSignal} signal */
async function pause(milliseconds, signal) {
  /** @type {(value?: unknown) => void} */
  let over = () => undefined;
  const timer = setTimeout(() => over(), milliseconds);
  const wake = () => over();
  addEventListener("online", wake);
  signal.addEventListener("abort", wake);
  await new Promise((resolve) => (over = resolve));
  clearTimeout(timer);
  removeEventListener("online", wake);
  signal.removeEventListener("abort", wake);
}

/** Throw UnreadableFile if a file can no longer be read, which browsers report as a network error. @param {Blob} body */
async function readable(body) {
  try {
    await body.slice(0, 1).arrayBuffer();
  } catch {
    throw new UnreadableFile(TEXT.unreadable);
  }
}
