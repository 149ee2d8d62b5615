// Where pictures and films of the deployment come from.

import { config } from "./session.js";

/** The page's policy has the same; `learn` adds to it. */
const origins = new Set([location.origin]);

/** Find out about the other origins of the deployment. */
export async function allowOrigins() {
  const { media = [] } = await config();
  for (const origin of media) origins.add(origin);
}

/** Whether the page may show what is there: owners can name pictures anywhere, and the page asks nobody else.
 * @param {string} url */
export function isServed(url) {
  return URL.canParse(url) && origins.has(new URL(url).origin);
}

/** Whether a value is an address in the storage (`s3://`): it says something to administrators of the deployment alone.
 * @param {unknown} value */
export function isStored(value) {
  return typeof value === "string" && /^s3:/i.test(value.trim());
}
