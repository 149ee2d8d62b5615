// Requests about webhooks, and the types of their responses.

import { api, ask } from "../core/api.js";

/**
 * @typedef {import("../core/api.js").Schemas["Webhook"]} Webhook
 * @typedef {import("../core/api.js").Schemas["WebhookWithSecret"]} WithSecret
 * @typedef {import("../core/api.js").Schemas["WebhookTest"]} Tested
 * @typedef {import("../core/api.js").Schemas["Delivery"]} Delivery
 * @typedef {import("../core/api.js").Schemas["NewWebhook"]} Content
 * @typedef {import("../core/api.js").Schemas["WebhookPatch"]} Patch
 * @typedef {{ webhook: Webhook, etag: string | null }} Version
 */

/** @param {string | undefined} userId undefined for the user's own @param {AbortSignal} signal @returns {Promise<Webhook[]>} */
export async function webhooksOf(userId, signal) {
  return (await ask(api.GET("/v1/webhooks", { params: { query: { userId } }, signal }))).data.items;
}

/** @param {string} webhookId @param {AbortSignal} [signal] @returns {Promise<Version>} */
export async function read(webhookId, signal) {
  const { data, etag } = await ask(api.GET("/v1/webhooks/{webhookId}", { params: { path: { webhookId } }, signal }));
  return { webhook: data, etag: etag ?? `"${data.version}"` };
}

/** @param {Content} body @param {string} key Idempotency-Key @returns {Promise<WithSecret>} */
export async function create(body, key) {
  return (await ask(api.POST("/v1/webhooks", { params: { header: { "Idempotency-Key": key } }, body }))).data;
}

/** @param {string} webhookId @param {Patch} body @param {string | null} [etag] expected version, if any
 * @returns {Promise<Version>} */
export async function patch(webhookId, body, etag) {
  const params = { path: { webhookId }, header: { "If-Match": etag ?? undefined } };
  const headers = { "Content-Type": "application/merge-patch+json" };
  const { data, etag: after } = await ask(api.PATCH("/v1/webhooks/{webhookId}", { params, headers, body }));
  return { webhook: data, etag: after };
}

/** @param {string} webhookId @returns {Promise<unknown>} */
export async function remove(webhookId) {
  return ask(api.DELETE("/v1/webhooks/{webhookId}", { params: { path: { webhookId } } }));
}

/** @param {string} webhookId @param {string} key Idempotency-Key @returns {Promise<WithSecret>} */
export async function rotate(webhookId, key) {
  const params = { path: { webhookId }, header: { "Idempotency-Key": key } };
  return (await ask(api.POST("/v1/webhooks/{webhookId}/rotate", { params }))).data;
}

/** @param {string} webhookId @param {number} from epoch seconds @returns {Promise<Webhook>} */
export async function replay(webhookId, from) {
  return (await ask(api.POST("/v1/webhooks/{webhookId}/replay", { params: { path: { webhookId } }, body: { from } }))).data;
}

/** @param {string} webhookId @returns {Promise<Tested>} */
export async function test(webhookId) {
  return (await ask(api.POST("/v1/webhooks/{webhookId}/test", { params: { path: { webhookId } } }))).data;
}

/** @param {string} webhookId @param {string | undefined} cursor @param {AbortSignal} signal
 * @returns {Promise<import("../core/load.js").Page<Delivery>>} */
export async function deliveries(webhookId, cursor, signal) {
  const params = { path: { webhookId }, query: { limit: 25, cursor } };
  return (await ask(api.GET("/v1/webhooks/{webhookId}/deliveries", { params, signal }))).data;
}
