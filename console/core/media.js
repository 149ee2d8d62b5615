// Origins from which the page loads images and videos.

import { config } from "./session.js";

/** Allowed origins, the same as in the page's Content-Security-Policy. `allowOrigins` adds those of the configuration. */
const origins = new Set([location.origin]);

/** Allow the media origins of the deployment's configuration. Throws UserError if it cannot be read. */
export async function allowOrigins() {
  const { media = [] } = await config();
  for (const origin of media) origins.add(origin);
}

/** Whether the page may load a URL. Owners can store URLs of any origin, which the page must not contact.
 * @param {string} url */
export function isServed(url) {
  return URL.canParse(url) && origins.has(new URL(url).origin);
}

/** Whether a value is an `s3://` URI, which only administrators of the deployment can use.
 * @param {unknown} value */
export function isStored(value) {
  return typeof value === "string" && /^s3:/i.test(value.trim());
}
