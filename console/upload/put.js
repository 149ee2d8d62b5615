// PUT requests to S3, and retries of all upload requests.

import { Problem } from "../core/api.js";
import { UserError } from "../core/user-error.js";
import { texts } from "../texts/index.js";

const TEXT = texts.upload.faults;

/** Milliseconds without progress after which a connection counts as lost. */
const STALL_MS = 90_000;
/** Milliseconds before the first retry, and maximum before later ones. */
const FIRST_WAIT_MS = 1_000, MAX_WAIT_MS = 30_000;
/** Maximum number of attempts that get an error response. Attempts without a response are not limited. */
const MAX_ERRORS = 6;
/** Longest Retry-After, in seconds, that is waited for. Quotas state hours. */
const MAX_RETRY_AFTER = 60;
/** Kinds of transient conflicts. */
const TRANSIENT = ["request-in-flight", "write-contention"];

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
  let stallTimer;
  const resetStallTimer = () => {
    clearTimeout(stallTimer);
    stallTimer = setTimeout(stop, STALL_MS);
  };
  signal.throwIfAborted();
  signal.addEventListener("abort", stop);
  try {
    await new Promise((resolve) => {
      request.upload.onprogress = ({ loaded }) => {
        resetStallTimer();
        onProgress(loaded);
      };
      request.onloadend = resolve;
      request.open("PUT", url);
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      resetStallTimer();
      request.send(body);
    });
  } finally {
    clearTimeout(stallTimer);
    signal.removeEventListener("abort", stop);
  }
  signal.throwIfAborted();
  if (request.status === 0) {
    await requireReadable(body);
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
 * @param {(trouble: string | null) => void} report receives the reason of each wait, and null after success
 * @returns {Promise<T>} */
export async function retry(attempt, signal, report) {
  let responses = 0;
  for (let attempts = 1; ; attempts += 1) {
    signal.throwIfAborted();
    try {
      const result = await attempt();
      report(null);
      return result;
    } catch (error) {
      signal.throwIfAborted();
      const isOffline = error instanceof Problem && error.status === 0;
      if (!isOffline) responses += 1;
      const wait = retryDelay(error, attempts, responses);
      if (wait === null) throw error;
      report(isOffline ? TEXT.offline : TEXT.busy);
      await pause(wait, signal);
    }
  }
}

/** Return the milliseconds until the next attempt; null if there is none.
 * @param {unknown} error
 * @param {number} attempts
 * @param {number} responses number of attempts that got an error response */
function retryDelay(error, attempts, responses) {
  if (!(error instanceof Problem)) return null;
  const { status, kind, retryAfter } = error;
  const wait = Math.min(FIRST_WAIT_MS * 2 ** (attempts - 1), MAX_WAIT_MS) * (0.75 + Math.random() / 2);
  if (status === 0) return wait;
  if (responses >= MAX_ERRORS) return null;
  if (retryAfter) return retryAfter <= MAX_RETRY_AFTER ? retryAfter * 1000 : null;
  return status >= 500 || status === 408 || status === 429 || TRANSIENT.includes(kind) ? wait : null;
}

/** Wait for a time, or until the connection returns or `signal` is aborted.
 * @param {number} milliseconds
 * @param {AbortSignal} signal */
async function pause(milliseconds, signal) {
  /** @type {(value?: unknown) => void} */
  let finish = () => undefined;
  const timer = setTimeout(() => finish(), milliseconds);
  const resume = () => finish();
  addEventListener("online", resume);
  signal.addEventListener("abort", resume);
  await new Promise((resolve) => (finish = resolve));
  clearTimeout(timer);
  removeEventListener("online", resume);
  signal.removeEventListener("abort", resume);
}

/** Throw UnreadableFile if a file can no longer be read, which browsers report as a network error. @param {Blob} body */
async function requireReadable(body) {
  try {
    await body.slice(0, 1).arrayBuffer();
  } catch {
    throw new UnreadableFile(TEXT.unreadable);
  }
}
