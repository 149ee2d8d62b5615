// Helpers for the tests of the console's functions.

/** Wait until all promises have settled, except promises that wait for `mock.timers`. */
export async function settle() {
  for (let round = 0; round < 20; round += 1) await new Promise(setImmediate);
}

/** Return the text of components without hooks. */
export function textOf(node) {
  if (node === null || node === undefined || typeof node === "boolean") return "";
  if (Array.isArray(node)) return node.map(textOf).join("");
  if (typeof node !== "object") return String(node);
  if (typeof node.type === "function") return textOf(node.type(node.props));
  return textOf(node.props.children);
}

/** Return all elements of a type in components without hooks. */
export function elementsOf(node, type) {
  if (node === null || typeof node !== "object") return [];
  if (Array.isArray(node)) return node.flatMap((child) => elementsOf(child, type));
  if (typeof node.type === "function") return elementsOf(node.type(node.props), type);
  return [...(node.type === type ? [node] : []), ...elementsOf(node.props.children, type)];
}

/** Respond to API requests with `respond`, which receives the method, the path with its query, the body and the headers. Return all
 * requests.
 *
 * A response is `{ status, body, headers }`; a status of 0 is a lost connection. */
export function serve(respond) {
  const requests = [];
  globalThis.fetch = async (input, options) => {
    const sent = input instanceof Request ? input : new Request(new URL(input, location.href), options);
    const { pathname, search } = new URL(sent.url);
    const text = await sent.clone().text();
    const request = {
      method: sent.method, path: pathname + search, body: sent.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text,
      headers: Object.fromEntries(sent.headers),
    };
    requests.push(request);
    const { status = 200, body = {}, headers = {} } = await respond(request, requests.length);
    if (status === 0) throw new TypeError("Failed to fetch");
    return new Response(status === 204 ? null : JSON.stringify(body), {
      status, headers: { "content-type": "application/json", ...headers },
    });
  };
  return requests;
}

/** Return a problem response of the API (RFC 9457). */
export function problem(status, kind, more = {}) {
  const { headers, ...body } = more;
  return { status, headers, body: { type: `urn:video-metadata:problem:${kind}`, title: kind, status, detail: `${kind}.`, ...body } };
}

/** Return a token with claims; only its payload is used here. */
export function tokenOf(claims) {
  return `header.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.signature`;
}

/** Sign in with a token of these claims. */
export function signIn(claims = { sub: "alice", scope: "videos/read videos/write" }) {
  sessionStorage.setItem("tokens", JSON.stringify({ accessToken: tokenOf(claims), refreshToken: null }));
}
