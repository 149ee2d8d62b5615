// The search screen, rendered without a browser.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, mock, test } from "node:test";
import { html } from "htm/preact";
import Results from "../../console/screens/search.js";
import { elements, mount, reportVisible, settled, textsByRole, unmount } from "./page.js";
import { problem, serve, signIn } from "./support.js";

const found = (title) => ({ video: { videoId: title, title, userId: "alice", createdAt: 1_700_000_000 } });
const hits = (titles, complete) => ({ body: { items: titles.map(found), total: titles.length, complete, asOf: 1_700_000_000_000, facets: {}, nextCursor: null } });

let root;
let requests;
before(() => mock.timers.enable({ apis: ["setTimeout", "setInterval"] }));
after(() => mock.timers.reset());
beforeEach(() => {
  signIn();
  // The index is not ready for the first and third request. It includes the second video only at the fourth request.
  requests = serve((_, number) => (number % 2 ? problem(503, "unavailable") : number < 4 ? hits(["First"], false) : hits(["First", "Second"], true)));
});
afterEach(() => unmount(root));

/** Advance the clock, and let requests finish. @param {number} milliseconds */
async function advance(milliseconds) {
  mock.timers.tick(milliseconds);
  await settled();
}

test("results are updated until the index has caught up", async () => {
  root = await mount(html`<${Results} route=${{ path: ["search"], query: new URLSearchParams({ q: "film" }) }} />`);
  const titles = () => elements(root, "h2").map(({ textContent }) => textContent);
  assert.ok(root.textContent.includes("Searching"));
  assert.deepEqual(textsByRole(root, "alert"), []);
  await advance(2000);
  assert.deepEqual(titles(), ["First"]);
  assert.ok(root.textContent.includes("The search index is behind."));
  for (let round = 0; round < 4; round += 1) await advance(2000);
  assert.deepEqual(titles(), ["First", "Second"]);
  assert.ok(!root.textContent.includes("The search index is behind."));
  assert.equal(requests.length, 4);
});

test("a further page that the API refuses is requested again, and the shown results stay", async () => {
  const numbers = [...Array(26).keys()].map(String);
  const page = (titles, nextCursor) => ({ body: { ...hits(titles, true).body, nextCursor } });
  requests = serve((_, number) => [page(numbers.slice(0, 25), "second"), problem(503, "unavailable"), page(numbers.slice(25), null)][number - 1]);
  root = await mount(html`<${Results} route=${{ path: ["search"], query: new URLSearchParams({ q: "film" }) }} />`);
  await reportVisible();
  for (let round = 0; round < 3; round += 1) await advance(2000);
  assert.deepEqual(elements(root, "h2").map(({ textContent }) => textContent), numbers);
  assert.equal(requests.length, 3);
});
