// The fields of a video and the kinds of its jobs, generated from shared/video_fields.py and shared/job_kinds.py:
// run `python -m local.readme`.

/** How people type those that they edit. */
/** @type {Record<string, "text" | "number" | "time" | "list">} */
export const INPUTS = {
  "externalId": "text",
  "slug": "text",
  "title": "text",
  "description": "text",
  "tags": "list",
  "category": "text",
  "folder": "text",
  "releaseYear": "number",
  "language": "text",
  "seriesId": "text",
  "season": "number",
  "episode": "number",
  "visibility": "text",
  "publishAt": "time",
  "expiresAt": "time"
};

/** The most characters that they may have. @type {Record<string, number>} */
export const LIMITS = {
  "externalId": 200,
  "slug": 100,
  "title": 300,
  "description": 5000,
  "category": 100,
  "folder": 200,
  "language": 35
};

/** Those that the probe sets. */
export const PROBED = /** @type {const} */ (["duration", "fileSize", "format", "resolution", "videoCodec", "audioCodec", "frameRate"]);

/** The kinds of jobs in the order in which they run, and whether each film has one of them.
 * @type {Record<string, { isAlways: boolean }>} */
export const JOBS = {
  "probe": {
    "isAlways": true
  },
  "poster": {
    "isAlways": true
  },
  "storyboard": {
    "isAlways": true
  },
  "captions": {
    "isAlways": false
  },
  "transcode": {
    "isAlways": false
  }
};
