// Video fields and job kinds, generated from shared/video_fields.py and shared/job_kinds.py by
// `python -m local.readme`.

/** Input types of editable fields, by name.
 * @type {Record<string, "text" | "number" | "time" | "list">} */
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

/** Maximum numbers of characters, by name of the field. @type {Record<string, number>} */
export const LIMITS = {
  "externalId": 200,
  "slug": 100,
  "title": 300,
  "description": 5000,
  "category": 100,
  "folder": 200,
  "language": 35
};

/** Fields that the job `probe` sets. */
export const PROBED = /** @type {const} */ (["duration", "fileSize", "format", "resolution", "videoCodec", "audioCodec", "frameRate"]);

/** Job kinds in the order of their execution. `isAlways`: whether every source file has this job.
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
