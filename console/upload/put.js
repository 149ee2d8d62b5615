// Sending bytes to S3, and not giving up on it.

import { Problem } from "../core/api.js";
import { UserError } from "../core/user-error.js";
import { texts } from "../texts/index.js";

const TEXT = texts.upload.faults;

/** Milliseconds without a byte after which a connection is taken for dead. */
const SILENCE = 90_000;
/** Milliseconds between two tries. */
const FIRST_WAIT = 1_000, LONGEST_WAIT = 30_000;
/** How often somebody who answers that it does not work is asked again. */
const TRIES = 6;
/** Seconds that are worth waiting when an answer asks for it; a quota asks for hours. */
const SHORT = 60;
/** Conflicts that are over soon. */
const PASSING = ["request-in-flight", "write-contention"];

/** The file of an upload cannot be read any more. */
export class UnreadableFile extends UserError {}

/** PUT a file, or a part of it, and resolve to its ETag. `fetch` does not say how far it is.
 *
 * Throws Problem, with status 0 when there was no answer, and what `signal` was ended with.
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

/** Do something until it works: for as long as there is no connection, and a few times when the answer is that it failed.
 *
 * Throws what `attempt` threw last, and what `signal` was ended with.
 * @template T
 * @param {() => Promise<T>} attempt
 * @param {AbortSignal} signal
 * @param {(trouble: string | null) => void} tell why it waits; null: it does not
 * @returns {Promise<T>} */
export async function retry(attempt, signal, tell) {
  let answers = 0;
  for (let tries = 1; ; tries += 1) {
    signal.throwIfAborted();
    try {
      const result = await attempt();
      tell(null);
      return result;
    } catch (error) {
      signal.throwIfAborted();
      const isCut = error instanceof Problem && error.status === 0;
      if (!isCut) answers += 1;
      const wait = retryDelay(error, tries, answers);
      if (wait === null) throw error;
      tell(isCut ? TEXT.cut : TEXT.busy);
      await pause(wait, signal);
    }
  }
}

/** Milliseconds until the next try; null: there is none.
 * @param {unknown} error
 * @param {number} tries
 * @param {number} answers how many of the tries had an answer */
function retryDelay(error, tries, answers) {
  if (!(error instanceof Problem)) return null;
  const { status, kind, retryAfter } = error;
  const wait = Math.min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT) * (0.75 + Math.random() / 2);
  if (status === 0) return wait;
  if (answers >= TRIES) return null;
  if (retryAfter) return retryAfter <= SHORT ? retryAfter * 1000 : null;
  return status >= 500 || status === 408 || status === 429 || PASSING.includes(kind) ? wait : null;
}

/** Wait, but no longer than until the connection is back, or until `signal`.
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

/** Throw when a file can no longer be read: browsers call that a network error as well. @param {Blob} body */
async function readable(body) {
  try {
    await body.slice(0, 1).arrayBuffer();
  } catch {
    throw new UnreadableFile(TEXT.unreadable);
  }
}
