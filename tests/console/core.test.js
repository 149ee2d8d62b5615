// The console's core: formats, routes, the API client, the session, and differences between lists.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { api, ask, Problem } from "../../console/core/api.js";
import { differences } from "../../console/core/load.js";
import { isServed, allowOrigins } from "../../console/core/media.js";
import { parseRoute, hrefTo } from "../../console/core/route.js";
import { accessToken, user } from "../../console/core/session.js";
import { formatClock, duration, milliseconds, size, formatRange } from "../../console/core/formats.js";
import { texts } from "../../console/texts/index.js";
import { messageOf } from "../../console/design/parts.js";
import { humanize } from "../../console/video/sentences.js";
import { problem, serve, signIn, tokenOf } from "./support.js";

beforeEach(() => sessionStorage.clear());

test("numbers, sizes and times have a readable format", () => {
  assert.deepEqual([0, 59_499, 61_000, 3_665_000].map(duration), ["0:00", "0:59", "1:01", "1:01:05"]);
  assert.deepEqual([6_500, 3_930_250, 5_000].map(formatClock), ["0:06.5", "1:05:30.25", "0:05"]);
  assert.deepEqual([40, 59.2, 61, 3_600, 7_000].map(formatRange), ["40 seconds", "60 seconds", "2 minutes", "1 hour", "2 hours"]);
  assert.deepEqual([0, 999, 1_500, 33_554_432, 100_000_001, 5e12].map(size), ["0 bytes", "999 bytes", "1.5 kB", "33.6 MB", "100 MB", "5.0 TB"]);
  assert.deepEqual([1, 1_234].map(texts.common.views), ["1 view", "1,234 views"]);
});

test("a typed time is parsed to the millisecond, and any other text is invalid", () => {
  const read = { "5:30": 330_000, "1:05:30": 3_930_000, "0:31.5": 31_500, " 0:06.05 ": 6_050, "120:00": 7_200_000 };
  for (const [text, expected] of Object.entries(read)) assert.equal(milliseconds(text), expected, text);
  for (const text of ["", "5", "0:75", "1:5", "1:60:00", "0:01.2345", "-0:01", "0:1e"]) assert.equal(milliseconds(text), null, text);
});

test("an address contains the path and its query, and is parsed to the same values", () => {
  const query = { tab: "history", empty: "", none: undefined, tag: ["a b", "&"] };
  const address = hrefTo(["videos", "a/ü ?"], query);
  assert.equal(address, "#/videos/a%2F%C3%BC%20%3F?tab=history&tag=a+b&tag=%26");
  const route = parseRoute(address);
  assert.deepEqual(route.path, ["videos", "a/ü ?"]);
  assert.deepEqual([...route.query], [["tab", "history"], ["tag", "a b"], ["tag", "&"]]);
  assert.deepEqual(parseRoute("").path, []);
  assert.deepEqual(parseRoute("#/videos/%E0").path, ["videos", "%E0"]); // malformed, but not an error
});

test("a call resolves to the data, its ETag and its change set, and sends the token of the signed-in user", async () => {
  signIn();
  const requests = serve(() => ({ body: { title: "A film" }, headers: { etag: '"3"', "change-set": "set" } }));
  const call = api.GET("/v1/videos/{videoId}", { params: { path: { videoId: "a" } } });
  assert.deepEqual(await ask(call), { data: { title: "A film" }, etag: '"3"', changeSet: "set" });
  assert.equal(requests[0].path, "/v1/videos/a");
  assert.equal(requests[0].headers.authorization, `Bearer ${accessToken()}`);
});

test("an error response of the API has a kind, and the invalid fields and parameters", async () => {
  const errors = [{ pointer: "/title", detail: "too long" }, { parameter: "from", detail: "no time" }];
  serve(() => problem(422, "invalid-content", { errors, headers: { "retry-after": "90" } }));
  const error = await ask(api.GET("/v1/tags")).catch((reason) => reason);
  assert.ok(error instanceof Problem);
  assert.deepEqual([error.status, error.kind, error.retryAfter], [422, "invalid-content", 90]);
  assert.deepEqual([error.at("/title"), error.at("/tags"), error.on("from")], ["too long", undefined, "no time"]);
  assert.deepEqual(messageOf(error), { title: "invalid-content", detail: "invalid-content. Try again in 2 minutes." });
});

test("an error of the gateway without a problem document shows the gateway's message", async () => {
  serve(() => ({ status: 503, body: { message: "Service Unavailable" } }));
  const error = await ask(api.GET("/v1/tags")).catch((reason) => reason);
  assert.deepEqual([error.status, error.title, error.message], [503, "Service Unavailable", "Service Unavailable"]);
});

test("a lost connection and an incomplete response result in the same problem", async () => {
  serve(() => ({ status: 0 }));
  const lost = await ask(api.GET("/v1/tags")).catch((reason) => reason);
  const cut = new Response("{}");
  cut.text = async () => { throw new TypeError("network error"); };
  cut.json = cut.text;
  globalThis.fetch = async () => cut;
  const broken = await ask(api.GET("/v1/tags")).catch((reason) => reason);
  for (const error of [lost, broken]) assert.deepEqual([error.status, error.title], [0, "No connection"]);
});

test("the signed-in user is identified by the claims of the access token", () => {
  assert.equal(user(), null);
  signIn({ sub: "zoë", scope: "videos/read videos/changes" });
  assert.deepEqual(user(), { subject: "zoë", isAdmin: false, followsAll: true });
  signIn({ sub: "admin", scope: "videos/admin" });
  assert.deepEqual(user(), { subject: "admin", isAdmin: true, followsAll: true });
  signIn({ sub: "alice", scope: "videos/administrator" });
  assert.deepEqual(user(), { subject: "alice", isAdmin: false, followsAll: false });
  sessionStorage.setItem("tokens", JSON.stringify({ accessToken: "opaque", refreshToken: null }));
  assert.deepEqual(user(), { subject: "", isAdmin: false, followsAll: false });
});

/** Respond as an issuer and an API that accepts only the `fresh` tokens; `granted` is the response of the token endpoint. */
function issuer(granted) {
  const base = "http://127.0.0.1:9";
  return serve(({ path, headers }) => {
    if (path.endsWith("/config.json")) return { body: { issuer: base, clientId: "console", scopes: "videos/read" } };
    if (path.includes("/.well-known/")) {
      return { body: { issuer: base, authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/token` } };
    }
    if (path === "/token") return granted();
    return headers.authorization === `Bearer ${fresh}` ? { body: { items: [], nextCursor: null } } : { status: 401 };
  });
}

const fresh = tokenOf({ sub: "alice", scope: "videos/read", round: 2 });
const refreshed = { access_token: fresh, token_type: "Bearer", expires_in: 60 };

function signInWithRefresh() {
  signIn();
  sessionStorage.setItem("tokens", JSON.stringify({ accessToken: accessToken(), refreshToken: "refresh" }));
}

test("requests with an expired token share one renewal, and are sent again with the new token", async () => {
  signInWithRefresh();
  const requests = issuer(() => ({ body: refreshed }));
  await Promise.all([ask(api.GET("/v1/tags")), ask(api.GET("/v1/playlists"))]);
  assert.equal(requests.filter(({ path }) => path === "/token").length, 1);
  assert.equal(JSON.parse(sessionStorage.getItem("tokens")).refreshToken, "refresh"); // it was not rotated
});

test("a transient failure of the issuer does not end the session", async () => {
  signInWithRefresh();
  const before = accessToken();
  let response = { status: 503, body: { error: "server_error" } };
  issuer(() => response);
  const error = await ask(api.GET("/v1/tags")).catch((reason) => reason);
  assert.deepEqual([error.status, accessToken()], [0, before]);
  response = { body: refreshed };
  await ask(api.GET("/v1/tags"));
});

test("images are loaded only from origins of the deployment", async () => {
  serve(() => ({ body: { media: ["https://films.example"] } }));
  await allowOrigins();
  const origin = location.origin;
  const urls = [`${origin}/a.jpg`, "https://films.example/a", "https://films.example.evil/a", "s3://films/a", "a.jpg", "data:,"];
  assert.deepEqual(urls.map(isServed), [true, true, false, false, false, false]);
});

const items = (...names) => names.map((id) => ({ id }));
const key = ({ id }) => id;

test("items that were added or removed are counted, and moved ones are not", () => {
  const shown = items("a", "b", "c");
  const whole = (...names) => differences(shown, { items: items(...names), nextCursor: null }, key);
  const part = (...names) => differences(shown, { items: items(...names), nextCursor: "on" }, key);
  assert.equal(whole("a", "b", "c"), 0);
  assert.equal(whole("new", "a", "b", "c"), 1);
  assert.equal(whole("c", "b", "a"), 0);
  assert.equal(whole("new", "a", "b"), 2); // c was removed, as the page is the whole list
  assert.equal(part("new", "a", "b"), 1); // c may be on the next page
  assert.equal(part("a", "c"), 1);
  assert.equal(part("a", "z"), 0); // items after the last common one may have moved there
  assert.equal(differences([], { items: items("a"), nextCursor: null }, key), 1);
});

test("error messages of the API are shown without the requests that they recommend", () => {
  assert.equal(humanize("No source video has arrived. Send one with POST .../upload"), "No source video has arrived.");
  assert.equal(humanize("The video is private."), "The video is private.");
});
