// Who is signed in: authorization code with PKCE (RFC 7636) at whatever issuer the deployment names.
//
// Tokens live in sessionStorage, so a reload keeps them and closing the tab forgets them. They are never in an address.

import { UserError } from "./user-error.js";
import { texts } from "../texts/index.js";

const TEXT = texts.signIn;

/**
 * @typedef {{ issuer: string, clientId: string | null, scopes: string, audience: string | null, media?: string[] }} Config
 * @typedef {{ accessToken: string, refreshToken: string | null }} Tokens
 * @typedef {{ subject: string, isAdmin: boolean, followsAll: boolean }} User `followsAll`: may follow the changes of everybody's videos
 * @typedef {import("oauth4webapi").AuthorizationServer} Server
 */

const TOKENS = "tokens";
const PENDING = "sign-in";
const CHANNEL = "signed-in";
const BESIDE = "beside";

/** @type {Set<() => void>} */
const listeners = new Set();

/** Whether the session ended while somebody was at work: they can sign in again without losing anything. */
let ended = false;

/** @type {Promise<void> | null} */
let renewal = null;

/** Call `listener` whenever somebody signs in or out; returns how to stop that.
 * @param {() => void} listener */
export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether the session ended and waits for `signInAgain`. */
export function hasEnded() {
  return ended;
}

/** Who is signed in, by the claims of the access token; null: nobody.
 * @returns {User | null} */
export function user() {
  const tokens = stored();
  if (!tokens) return null;
  const claims = parseClaims(tokens.accessToken);
  const scopes = String(claims.scope ?? "").split(" ");
  const isAdmin = scopes.includes("videos/admin");
  return { subject: String(claims.sub ?? ""), isAdmin, followsAll: isAdmin || scopes.includes("videos/changes") };
}

/** The access token for a request; null: nobody is signed in. */
export function accessToken() {
  return stored()?.accessToken ?? null;
}

/** What the deployment says of its issuer.
 * @returns {Promise<Config>} */
export async function config() {
  const answer = await fetch("config.json");
  if (!answer.ok) throw new UserError(TEXT.noConfiguration(answer.status));
  return answer.json();
}

/** Lead to the issuer's page. It comes back to this one, which goes on at the same place. */
export async function signIn() {
  location.assign(await authorizationUrl());
}

/** Let somebody whose session ended sign in beside this page, which keeps all that is on it. Call it from a click. */
export function signInAgain() {
  // The window leads itself to the issuer: browsers open none for what follows a request.
  if (!window.open(`${here()}?${BESIDE}`, "sign-in", "popup,width=480,height=640")) void signIn();
}

/** Forget who is signed in, here and at the issuer: else it might sign in the next person as the last. */
export async function signOut() {
  const tokens = stored();
  forget();
  try {
    await endAtIssuer(tokens?.refreshToken ?? null);
  } catch {
    // There is no connection, say. Whatever is left at the issuer ends by itself.
  }
}

/** @param {string | null} token */
async function endAtIssuer(token) {
  const oauth = await import("oauth4webapi");
  const { clientId, server, options } = await issuer();
  if (token && server.revocation_endpoint) {
    await oauth.revocationRequest(server, { client_id: clientId }, oauth.None(), token, options);
  }
  if (!server.end_session_endpoint) return;
  const url = new URL(server.end_session_endpoint);
  url.searchParams.set("client_id", clientId);
  url.searchParams.set("post_logout_redirect_uri", here());
  url.searchParams.set("logout_uri", here()); // as Cognito calls it
  location.assign(url);
}

/** Drop the tokens of this tab. */
function forget() {
  sessionStorage.removeItem(TOKENS);
  ended = false;
  notify();
}

/** What to do first: take what the issuer sent back, if this is where it sent it. Resolves to whether this page goes on.
 * @returns {Promise<boolean>} */
export async function startSession() {
  syncTabs();
  const address = new URL(location.href);
  if (address.searchParams.has(BESIDE)) {
    // It begins with a copy of the other window's tokens, which are not its own.
    sessionStorage.setItem(BESIDE, user()?.subject ?? "");
    sessionStorage.removeItem(TOKENS);
    location.replace(await authorizationUrl());
    return false;
  }
  if (!address.searchParams.has("state")) return true;
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null");
  sessionStorage.removeItem(PENDING);
  const back = pending?.hash ?? "";
  history.replaceState(null, "", address.pathname + back); // the code must not stay in the address
  if (!pending) return true;
  const refusal = address.searchParams.get("error");
  if (refusal) throw new UserError(TEXT.refused(address.searchParams.get("error_description") ?? refusal));
  const oauth = await import("oauth4webapi");
  const { clientId, server, options } = await issuer();
  const client = { client_id: clientId };
  const parameters = oauth.validateAuthResponse(server, client, address, pending.state);
  const answer = await oauth.authorizationCodeGrantRequest(
    server, client, oauth.None(), parameters, here(), pending.verifier, options,
  );
  keep(await oauth.processAuthorizationCodeResponse(server, client, answer));
  const awaited = sessionStorage.getItem(BESIDE);
  if (awaited === null) return true;
  const now = user()?.subject;
  if (now !== awaited) {
    forget();
    throw new UserError(TEXT.otherUser(now ?? "", awaited));
  }
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage(stored());
  channel.close();
  window.close();
  return false;
}

/** Get a new access token in the place of one that was refused.
 *
 * Resolves once there is one, however long somebody takes to sign in again; requests that wait go on then.
 * @param {string | null} refused */
export async function renew(refused) {
  if (accessToken() !== refused) return; // somebody else was faster
  renewal ??= refresh().finally(() => (renewal = null));
  await renewal;
}

async function refresh() {
  const before = stored();
  const granted = before?.refreshToken ? await parseGrant(before.refreshToken) : null;
  if (!before || stored()?.accessToken !== before.accessToken) return; // somebody has signed out meanwhile
  if (granted) {
    keep(granted, before.refreshToken);
    return;
  }
  ended = true;
  notify();
  await new Promise((resolve) => {
    const stop = onSession(() => {
      if (ended) return;
      stop();
      resolve(undefined);
    });
  });
}

/** What the issuer grants for a refresh token; null: nothing any more. Whatever else goes wrong is thrown, as it may pass.
 * @param {string} token */
async function parseGrant(token) {
  const oauth = await import("oauth4webapi");
  const { clientId, server, options } = await issuer();
  const client = { client_id: clientId };
  try {
    const answer = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), token, options);
    return await oauth.processRefreshTokenResponse(server, client, answer);
  } catch (error) {
    if (error instanceof oauth.ResponseBodyError && error.status < 500) return null;
    throw error;
  }
}

async function authorizationUrl() {
  const oauth = await import("oauth4webapi");
  const { clientId, server, scopes, audience } = await issuer();
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  sessionStorage.setItem(PENDING, JSON.stringify({ verifier, state, hash: location.hash }));
  const url = new URL(server.authorization_endpoint ?? "");
  const parameters = {
    client_id: clientId,
    redirect_uri: here(),
    response_type: "code",
    scope: scopes,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    state,
    ...(audience ? { audience } : {}),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** The issuer, as it describes itself. */
async function issuer() {
  const oauth = await import("oauth4webapi");
  const { issuer: name, clientId, scopes, audience } = await config();
  if (!clientId) throw new UserError(TEXT.noClient);
  const url = new URL(name);
  // Only an issuer on this machine may do without TLS.
  const options = { [oauth.allowInsecureRequests]: url.hostname === "127.0.0.1" };
  const answer = await oauth.discoveryRequest(url, options);
  return { clientId, scopes, audience, options, server: await oauth.processDiscoveryResponse(url, answer) };
}

/** Where the issuer sends people back to. */
function here() {
  return location.origin + location.pathname;
}

/** @param {import("oauth4webapi").TokenEndpointResponse} answer
 * @param {string | null} [before] the refresh token that goes on if there is no new one */
function keep(answer, before) {
  if (!parseClaims(answer.access_token).sub) {
    throw new UserError(TEXT.unusableToken);
  }
  const tokens = { accessToken: answer.access_token, refreshToken: answer.refresh_token ?? before ?? null };
  sessionStorage.setItem(TOKENS, JSON.stringify(tokens));
  ended = false;
  notify();
}

/** Take over what a window beside this page got for the same user. */
function syncTabs() {
  new BroadcastChannel(CHANNEL).onmessage = ({ data }) => {
    if (!ended) return;
    if (parseClaims(data.accessToken).sub !== user()?.subject) return;
    sessionStorage.setItem(TOKENS, JSON.stringify(data));
    ended = false;
    notify();
  };
}

/** @returns {Tokens | null} */
function stored() {
  return JSON.parse(sessionStorage.getItem(TOKENS) ?? "null");
}

/** @param {string} token @returns {Record<string, unknown>} */
function parseClaims(token) {
  if (token.split(".").length !== 3) return {};
  const payload = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
  const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

function notify() {
  for (const listener of [...listeners]) listener();
}
