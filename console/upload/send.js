// Transfer of one file: create its video, begin the upload, send the file to S3, complete the upload.

import { api, ask, Problem } from "../core/api.js";
import { UserError } from "../core/user-error.js";
import { noteCreation } from "../library/creation-order.js";
import { texts } from "../texts/index.js";
import { update, updateProgress } from "./list.js";
import { retry, put } from "./put.js";

const TEXT = texts.upload.faults;

/**
 * @typedef {import("./list.js").Upload} Upload
 * @typedef {import("./list.js").Plan} Plan
 * @typedef {import("./list.js").Part} Part
 * @typedef {Extract<Plan, { parts: Part[] }>} PartsPlan
 */

/** Maximum number of concurrent parts of a file. */
const MAX_CONCURRENT_PARTS = 3;
/** Milliseconds over which speed is measured. */
const SPEED_WINDOW_MS = 10_000;
const EXPIRED = 403, ALREADY_EXISTS = 412, REJECTED = 422;

/** Send or resume an upload. Throws its first permanent error, or the reason of an abort of `signal`.
 * @param {Upload} upload with its file
 * @param {AbortSignal} signal */
export async function send(upload, signal) {
  const transfer = new Transfer(upload, signal);
  await create(upload, signal);
  const plan = upload.plan ?? (await pollUpload(upload, signal)) ?? (await begin(upload, signal));
  if (plan === "arrived") return;
  upload.plan = plan;
  update();
  try {
    if ("parts" in plan) await transfer.sendParts(plan);
    else await transfer.sendWhole();
  } catch (error) {
    if (!transfer.hasArrived) throw error;
  }
}

/** Create the upload's video if it has none. Idempotent: retries create no second video.
 * @param {Upload} upload
 * @param {AbortSignal} signal */
export async function create(upload, signal) {
  if (upload.videoId) return;
  const created = noteCreation();
  const { title, category, tags, visibility } = upload.details;
  const body = {
    title: title.trim(),
    visibility,
    category: category.trim() || null,
    tags: tags.split(",").map((tag) => tag.trim()).filter(Boolean),
  };
  const { data } = await retry(
    () => ask(api.POST("/v1/videos", { params: { header: { "Idempotency-Key": upload.key } }, body })), signal, reportProgress(upload),
  );
  upload.videoId = data.videoId;
  created(data.videoId);
  update();
}

/** Abort an upload on the server. Returns false if it was already complete.
 * @param {Upload} upload */
export async function abort({ videoId, uploadId }) {
  if (!videoId || !uploadId) return true;
  try {
    await ask(api.DELETE("/v1/videos/{videoId}/upload/{uploadId}", { params: { path: { videoId, uploadId } } }));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 409) return false;
    if (error.status !== 404) throw error;
  }
  return true;
}

/** @param {Upload} upload @param {AbortSignal} signal
 * @returns {Promise<Plan>} */
async function begin(upload, signal) {
  const path = { videoId: upload.videoId ?? "" };
  const body = { contentType: upload.about.type, fileSize: upload.about.size };
  const { data } = await retry(
    () => ask(api.POST("/v1/videos/{videoId}/upload", { params: { path }, body })), signal, reportProgress(upload),
  );
  upload.uploadId = data.uploadId;
  return data;
}

/** Read the state of an upload: a plan with new URLs, `arrived` if it is complete, or null if it cannot be resumed.
 * @param {Upload} upload
 * @param {AbortSignal} signal
 * @returns {Promise<Plan | "arrived" | null>} */
async function pollUpload(upload, signal) {
  const { videoId, uploadId } = upload;
  if (!videoId || !uploadId) return null;
  try {
    const { data } = await retry(
      () => ask(api.GET("/v1/videos/{videoId}/upload/{uploadId}", { params: { path: { videoId, uploadId } } })),
      signal, reportProgress(upload),
    );
    if (data.state === "open") return /** @type {Plan} */ (data);
    return data.state === "aborted" ? null : "arrived";
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** @param {Upload} upload */
function reportProgress(upload) {
  return (/** @type {string | null} */ trouble) => {
    if (upload.trouble === trouble) return;
    upload.trouble = trouble;
    update();
  };
}

/** Transfer of one file to S3, until it is complete or `signal` is aborted. */
class Transfer {
  /** @param {Upload} upload @param {AbortSignal} signal */
  constructor(upload, signal) {
    this.upload = upload;
    this.signal = signal;
    /** Bytes sent by each PUT in flight, by part number. @type {Map<number, number>} */
    this.inFlight = new Map();
    /** Request for new URLs, shared by all parts. @type {Promise<Plan> | null} */
    this.renewal = null;
    /** Whether the service reported that the file is complete. */
    this.hasArrived = false;
    upload.samples = [];
  }

  get file() {
    if (!this.upload.file) throw new UserError(TEXT.selectAgain);
    return this.upload.file;
  }

  async sendWhole() {
    try {
      await this.#put(0, this.file, () => /** @type {Extract<Plan, { url: string }>} */ (this.upload.plan));
    } catch (error) {
      // An earlier attempt, whose response was lost, has succeeded.
      if (!(error instanceof Problem && error.status === ALREADY_EXISTS)) throw error;
    }
  }

  /** @param {PartsPlan} plan */
  async sendParts(plan) {
    await this.#sendMissing(plan);
    try {
      await this.#complete(this.#parts());
    } catch (error) {
      if (!(error instanceof Problem && error.status === REJECTED)) throw error;
      // S3 lacks parts that were recorded as sent. Read its state again, and send the missing parts.
      this.upload.plan = null;
      await this.#sendMissing(/** @type {PartsPlan} */ (await this.#renew()));
      await this.#complete(this.#parts());
    }
  }

  /** @param {PartsPlan} plan */
  async #sendMissing({ parts, partSize }) {
    const waiting = parts.filter((part) => !part.etag);
    this.#updateProgress();
    const stop = new AbortController(); // stops the other parts after one has failed permanently
    const sendNext = async () => {
      for (let part = waiting.shift(); part; part = waiting.shift()) {
        const { partNumber, size } = part;
        const start = (partNumber - 1) * partSize;
        const etag = await this.#put(partNumber, this.file.slice(start, start + size), () => this.#part(partNumber), stop.signal);
        this.#part(partNumber).etag = etag;
        this.#updateProgress();
      }
    };
    try {
      await Promise.all(Array.from({ length: MAX_CONCURRENT_PARTS }, sendNext));
    } finally {
      stop.abort();
    }
  }

  /** Send a part, with retries, and return its ETag. Requests new URLs once if the URL has expired.
   * @param {number} partNumber 0 for the whole file
   * @param {Blob} body
   * @param {() => { url?: string, headers?: Record<string, string>, etag?: string }} to returns the current target of the part
   * @param {AbortSignal} [stop] */
  async #put(partNumber, body, to, stop) {
    const signal = stop ? AbortSignal.any([this.signal, stop]) : this.signal;
    const onProgress = (/** @type {number} */ bytes) => {
      this.inFlight.set(partNumber, bytes);
      this.#updateProgress();
    };
    for (let isFresh = false; ; isFresh = true) {
      try {
        return await retry(
          async () => {
            const { url, headers, etag } = to();
            if (etag) return etag; // an earlier attempt, whose response was lost, has succeeded
            return put(url ?? "", body, { headers, signal, onProgress }).finally(() => {
              this.inFlight.delete(partNumber);
              this.#updateProgress();
            });
          },
          signal, reportProgress(this.upload),
        );
      } catch (error) {
        const hasExpired = error instanceof Problem && error.status === EXPIRED;
        if (!hasExpired || isFresh) throw error;
        await (this.renewal ??= this.#renew().finally(() => (this.renewal = null)));
      }
    }
  }

  /** Request new URLs. Presigned URLs expire with the credentials that signed them, which may be early. */
  async #renew() {
    const plan = await pollUpload(this.upload, this.signal);
    if (plan === null || plan === "arrived") {
      this.hasArrived = plan === "arrived";
      this.upload.plan = null;
      throw new UserError(TEXT.expired);
    }
    if ("parts" in plan) for (const part of plan.parts) part.etag ??= this.#parts()[part.partNumber - 1]?.etag; // the page may know parts that the response does not yet list
    this.upload.plan = plan;
    update();
    return plan;
  }

  /** @param {Part[]} parts */
  async #complete(parts) {
    const { videoId, uploadId } = this.upload;
    const path = { videoId: videoId ?? "", uploadId: uploadId ?? "" };
    const body = { parts: parts.map(({ partNumber, etag }) => ({ partNumber, etag: etag ?? "" })) };
    await retry(
      () => ask(api.POST("/v1/videos/{videoId}/upload/{uploadId}/complete", { params: { path }, body })),
      this.signal, reportProgress(this.upload),
    );
  }

  #parts() {
    const { plan } = this.upload;
    return plan && "parts" in plan ? plan.parts : [];
  }

  /** @param {number} partNumber */
  #part(partNumber) {
    const part = this.#parts()[partNumber - 1];
    if (!part) throw new UserError(TEXT.restarted);
    return part;
  }

  /** Update the upload's progress. */
  #updateProgress() {
    const { upload } = this;
    const received = this.#parts().reduce((sum, part) => sum + (part.etag ? part.size : 0), 0);
    upload.loaded = Math.min([...this.inFlight.values()].reduce((sum, bytes) => sum + bytes, received), upload.about.size);
    const at = performance.now();
    upload.samples = [...upload.samples.filter((sample) => sample.at > at - SPEED_WINDOW_MS), { at, loaded: upload.loaded }];
    updateProgress();
  }
}
