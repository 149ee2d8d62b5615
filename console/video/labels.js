// The fields of a video and the kinds of its jobs, generated from shared/video_fields.py and shared/job_kinds.py:
// run `python -m local.readme`.

/** What people call them. @type {Record<string, string>} */
export const LABELS = {
  "videoId": "ID",
  "userId": "Owner",
  "createdAt": "Created",
  "updatedAt": "Updated",
  "externalId": "External ID",
  "slug": "Slug",
  "title": "Title",
  "description": "Description",
  "duration": "Duration",
  "fileSize": "File size",
  "format": "Format",
  "resolution": "Resolution",
  "videoCodec": "Video codec",
  "audioCodec": "Audio codec",
  "frameRate": "Frame rate",
  "origins": "Origins",
  "resolutions": "Renditions",
  "tags": "Tags",
  "category": "Category",
  "folder": "Folder",
  "releaseYear": "Release year",
  "language": "Language",
  "seriesId": "Series",
  "season": "Season",
  "episode": "Episode",
  "status": "Status",
  "visibility": "Visibility",
  "publishAt": "Published from",
  "expiresAt": "Published until",
  "purgeAt": "Permanently deleted",
  "metadata": "Metadata",
  "thumbnails": "Thumbnails",
  "source": "Source file",
  "failure": "Failure",
  "viewCount": "Views",
  "version": "Version",
  "schemaVersion": "Schema version",
  "pictures": "Thumbnails",
  "posterTime": "Poster frame"
};

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
 * @type {Record<string, { label: string, isAlways: boolean }>} */
export const JOBS = {
  "probe": {
    "label": "Probe",
    "isAlways": true
  },
  "poster": {
    "label": "Poster",
    "isAlways": true
  },
  "storyboard": {
    "label": "Storyboard",
    "isAlways": true
  },
  "captions": {
    "label": "Captions",
    "isAlways": false
  },
  "transcode": {
    "label": "Rendition",
    "isAlways": false
  }
};
