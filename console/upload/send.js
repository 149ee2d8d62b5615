// Sending one film: create its video, begin the upload, send it to S3, complete it.

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

/** How many parts of a film are sent at a time. */
const LANES = 3;
/** Milliseconds over which speed is measured. */
const LATELY = 10_000;
const ENDED = 403, THERE_ALREADY = 412, REFUSED = 422;

/** Send it, from wherever it is. Throws what stands in the way, and what `signal` was ended with.
 * @param {Upload} upload whose file is there
 * @param {AbortSignal} signal */
export async function send(upload, signal) {
  const way = new Way(upload, signal);
  await create(upload, signal);
  const plan = upload.plan ?? (await pollUpload(upload, signal)) ?? (await begin(upload, signal));
  if (plan === "arrived") return;
  upload.plan = plan;
  update();
  try {
    if ("parts" in plan) await way.inParts(plan);
    else await way.whole();
  } catch (error) {
    if (!way.hasArrived) throw error;
  }
}

/** Create its video, if it has none: once, however often it is tried.
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

/** Give it up, whatever arrived. False: too late, it had arrived.
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

/** How far S3 is with an upload that was begun, with fresh URLs for what is missing; null: there is none to go on with.
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

/** The way of one film to S3, until it is there or `signal` ends it. */
class Way {
  /** @param {Upload} upload @param {AbortSignal} signal */
  constructor(upload, signal) {
    this.upload = upload;
    this.signal = signal;
    /** Bytes of each PUT that is under way. @type {Map<number, number>} */
    this.moving = new Map();
    /** Who asks for fresh URLs; the others wait for the same answer. @type {Promise<Plan> | null} */
    this.asking = null;
    /** Whether the service says that all of it is there. */
    this.hasArrived = false;
    upload.samples = [];
  }

  get file() {
    if (!this.upload.file) throw new UserError(TEXT.selectAgain);
    return this.upload.file;
  }

  async whole() {
    try {
      await this.#put(0, this.file, () => /** @type {Extract<Plan, { url: string }>} */ (this.upload.plan));
    } catch (error) {
      // A try whose answer was lost had arrived.
      if (!(error instanceof Problem && error.status === THERE_ALREADY)) throw error;
    }
  }

  /** @param {PartsPlan} plan */
  async inParts(plan) {
    await this.#missing(plan);
    try {
      await this.#complete(this.#parts());
    } catch (error) {
      if (!(error instanceof Problem && error.status === REFUSED)) throw error;
      // S3 does not have what we have noted: take its word for it, and send again what is missing.
      this.upload.plan = null;
      await this.#missing(/** @type {PartsPlan} */ (await this.#renew()));
      await this.#complete(this.#parts());
    }
  }

  /** @param {PartsPlan} plan */
  async #missing({ parts, partSize }) {
    const waiting = parts.filter((part) => !part.etag);
    this.#count();
    const stop = new AbortController(); // when one part fails for good, the others are not sent any further
    const lane = async () => {
      for (let part = waiting.shift(); part; part = waiting.shift()) {
        const { partNumber, size } = part;
        const start = (partNumber - 1) * partSize;
        const etag = await this.#put(partNumber, this.file.slice(start, start + size), () => this.#part(partNumber), stop.signal);
        this.#part(partNumber).etag = etag;
        this.#count();
      }
    };
    try {
      await Promise.all(Array.from({ length: LANES }, lane));
    } finally {
      stop.abort();
    }
  }

  /** PUT until it has arrived, and resolve to the ETag.
   * @param {number} partNumber 0: all of it
   * @param {Blob} body
   * @param {() => { url?: string, headers?: Record<string, string>, etag?: string }} to where, as it is known at the time
   * @param {AbortSignal} [stop] */
  async #put(partNumber, body, to, stop) {
    const signal = stop ? AbortSignal.any([this.signal, stop]) : this.signal;
    const onProgress = (/** @type {number} */ bytes) => {
      this.moving.set(partNumber, bytes);
      this.#count();
    };
    for (let isFresh = false; ; isFresh = true) {
      try {
        return await retry(
          async () => {
            const { url, headers, etag } = to();
            if (etag) return etag; // it had arrived: only the answer was lost
            return put(url ?? "", body, { headers, signal, onProgress }).finally(() => {
              this.moving.delete(partNumber);
              this.#count();
            });
          },
          signal, reportProgress(this.upload),
        );
      } catch (error) {
        const hasEnded = error instanceof Problem && error.status === ENDED;
        if (!hasEnded || isFresh) throw error;
        await (this.asking ??= this.#renew().finally(() => (this.asking = null)));
      }
    }
  }

  /** Get fresh URLs: they end with the credentials that signed them, at times long before they should. */
  async #renew() {
    const plan = await pollUpload(this.upload, this.signal);
    if (plan === null || plan === "arrived") {
      this.hasArrived = plan === "arrived";
      this.upload.plan = null;
      throw new UserError(TEXT.expired);
    }
    if ("parts" in plan) for (const part of plan.parts) part.etag ??= this.#parts()[part.partNumber - 1]?.etag; // may be newer
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

  /** Note how far it is. */
  #count() {
    const { upload } = this;
    const there = this.#parts().reduce((sum, part) => sum + (part.etag ? part.size : 0), 0);
    upload.loaded = Math.min([...this.moving.values()].reduce((sum, bytes) => sum + bytes, there), upload.about.size);
    const at = performance.now();
    upload.samples = [...upload.samples.filter((sample) => sample.at > at - LATELY), { at, loaded: upload.loaded }];
    updateProgress();
  }
}
