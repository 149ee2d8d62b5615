// The page of a webhook, rendered without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import WebhookScreen from "../../console/webhooks/webhook.js";
import { click, mount, elements, unmount, textsByRole } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const WEBHOOK = {
  webhookId: "w", userId: "alice", url: "https://a.example/x", types: [], follows: "alice", paused: false,
  createdAt: 1_700_000_000, updatedAt: 1_700_000_000, version: 1,
};
const REFUSED = { id: "1", delivered: false, status: 503, ms: 12, answer: "Closed." };
const TAKEN = { id: "2", delivered: true, status: 204, ms: 3 };

let root;
beforeEach(() => {
  mock.timers.enable({ apis: ["setInterval"] });
  signIn();
});
afterEach(() => {
  unmount(root);
  mock.timers.reset();
});

/** Render the page of a webhook. The API responds to its tests with these responses in order. */
async function page(...tests) {
  let version = 1;
  serve(({ method, path }) => {
    if (path.endsWith("/test")) return tests.shift();
    if (path.includes("/deliveries")) return { body: { items: [], nextCursor: null } };
    if (method === "PATCH") version += 1;
    return { body: { ...WEBHOOK, version } };
  });
  root = await mount(html`<${WebhookScreen} webhookId="w" user=${{ subject: "alice" }} />`);
}

const state = () => elements(root, "p").find(({ attributes }) => attributes.get("class") === "webhook-state").textContent;
const result = () => textsByRole(root, "status").find((text) => /Test (delivered|failed)\./.test(text)) ?? "";

test("a webhook is not shown as up to date after its receiver rejected a test", async () => {
  await page({ body: REFUSED }, { body: TAKEN });
  assert.match(state(), /^Up to date /);
  await click(root, "Send test");
  assert.match(state(), /^Test failed The receiver did not accept the last test\./);
  assert.match(result(), /503.*Test failed\./);
  await click(root, "Send test");
  assert.match(state(), /^Up to date /);
  assert.match(result(), /204.*Test delivered\./);
});

test("an error of a second test is shown as an alert, next to the result of the first", async () => {
  const soon = problem(429, "too-soon", { title: "Too soon", detail: "A webhook can be tested once in 10 seconds.", headers: { "retry-after": "7" } });
  await page({ body: REFUSED }, soon, { body: TAKEN });
  await click(root, "Send test");
  assert.deepEqual(textsByRole(root, "alert"), []);
  await click(root, "Send test");
  assert.deepEqual(textsByRole(root, "alert"), ["Too soonA webhook can be tested once in 10 seconds. Try again in 7 seconds."]);
  assert.match(state(), /^Test failed /);
  assert.match(result(), /Test failed\./);
  await click(root, "Send test");
  assert.deepEqual(textsByRole(root, "alert"), []);
});

test("the result of a test disappears once the webhook is changed", async () => {
  await page({ body: REFUSED });
  await click(root, "Send test");
  await click(root, "Pause");
  assert.equal(result(), "");
  assert.match(state(), /^Up to date /);
});

test("the signature verification code matches the documentation, and can be shown in TypeScript", async () => {
  await page();
  const code = () => elements(root, "pre").map(({ textContent }) => textContent).find((text) => text.includes("standardwebhooks"));
  assert.ok(readFileSync(new URL("../../docs/webhook-receivers.md", import.meta.url), "utf-8").includes(`\`\`\`python\n${code()}\n`));
  await click(root, "TypeScript");
  assert.match(code(), /from "standardwebhooks";[^]*new Webhook\(secret\)\.verify\(body, headers\)/);
});
