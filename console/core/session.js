// Session of the user: OAuth authorization code with PKCE (RFC 7636) at the issuer in the deployment's configuration.
//
// Tokens are in sessionStorage: they survive a reload, and end with the tab. They never occur in a URL.

import { UserError } from "./user-error.js";
import { texts } from "../texts/index.js";

const TEXT = texts.signIn;

/**
 * @typedef {{ issuer: string, clientId: string | null, scopes: string, audience: string | null, media?: string[] }} Config
 * @typedef {{ accessToken: string, refreshToken: string | null }} Tokens
 * @typedef {{ subject: string, isAdmin: boolean, followsAll: boolean }} User `followsAll`: may subscribe to the changes of all users
 * @typedef {import("oauth4webapi").AuthorizationServer} Server
 */

const TOKENS = "tokens";
const PENDING = "sign-in";
const CHANNEL = "signed-in";
const POPUP = "popup";

/** @type {Set<() => void>} */
const listeners = new Set();

/** Whether the session expired while the page was open. The user can sign in again without losing input. */
let ended = false;

/** @type {Promise<void> | null} */
let renewal = null;

/** Call `listener` after each sign-in, sign-out and expiry. Returns a function that removes the listener.
 * @param {() => void} listener */
export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether the session has expired, so that requests wait for `signInAgain`. */
export function hasEnded() {
  return ended;
}

/** Return the user in the claims of the access token; null if signed out.
 * @returns {User | null} */
export function user() {
  const tokens = stored();
  if (!tokens) return null;
  const claims = parseClaims(tokens.accessToken);
  const scopes = String(claims.scope ?? "").split(" ");
  const isAdmin = scopes.includes("videos/admin");
  return { subject: String(claims.sub ?? ""), isAdmin, followsAll: isAdmin || scopes.includes("videos/changes") };
}

/** Return the access token; null if signed out. */
export function accessToken() {
  return stored()?.accessToken ?? null;
}

/** Read the deployment's configuration. Throws UserError if it cannot be read.
 * @returns {Promise<Config>} */
export async function config() {
  const response = await fetch("config.json");
  if (!response.ok) throw new UserError(TEXT.noConfiguration(response.status));
  return response.json();
}

/** Navigate to the issuer's sign-in page, which redirects back to the current route. */
export async function signIn() {
  location.assign(await authorizationUrl());
}

/** Open a window to sign in again after the session has expired. This page keeps its state.
 *
 * Call it in a click handler, because browsers block other popups. Without a window, this page itself navigates. */
export function signInAgain() {
  // The window itself navigates to the issuer: after an asynchronous request, browsers would block it.
  if (!window.open(`${redirectUri()}?${POPUP}`, "sign-in", "popup,width=480,height=640")) void signIn();
}

/** Sign out here and at the issuer, which might otherwise sign in the next person as this user. */
export async function signOut() {
  const tokens = stored();
  deleteTokens();
  try {
    await signOutAtIssuer(tokens?.refreshToken ?? null);
  } catch {
    // Such as without a connection. The session at the issuer expires later.
  }
}

/** Revoke the refresh token, and navigate to the issuer's sign-out page if it has one. @param {string | null} token */
async function signOutAtIssuer(token) {
  const oauth = await import("oauth4webapi");
  const { clientId, server, options } = await issuer();
  if (token && server.revocation_endpoint) {
    await oauth.revocationRequest(server, { client_id: clientId }, oauth.None(), token, options);
  }
  if (!server.end_session_endpoint) return;
  const url = new URL(server.end_session_endpoint);
  url.searchParams.set("client_id", clientId);
  url.searchParams.set("post_logout_redirect_uri", redirectUri());
  url.searchParams.set("logout_uri", redirectUri()); // Cognito's name for this parameter
  location.assign(url);
}

/** Delete the tokens of this tab. */
function deleteTokens() {
  sessionStorage.removeItem(TOKENS);
  ended = false;
  notify();
}

/** Start the session of the page. Completes a sign-in if the URL is the issuer's redirect.
 *
 * Resolves to false if the page must not render, because it navigates away or closes. Throws an error if sign-in failed.
 * @returns {Promise<boolean>} */
export async function startSession() {
  syncTabs();
  const address = new URL(location.href);
  if (address.searchParams.has(POPUP)) {
    // A popup starts with a copy of its opener's sessionStorage, with the expired tokens.
    sessionStorage.setItem(POPUP, user()?.subject ?? "");
    sessionStorage.removeItem(TOKENS);
    location.replace(await authorizationUrl());
    return false;
  }
  if (!address.searchParams.has("state")) return true;
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null");
  sessionStorage.removeItem(PENDING);
  const back = pending?.hash ?? "";
  history.replaceState(null, "", address.pathname + back); // removes the authorization code from the URL
  if (!pending) return true;
  const refusal = address.searchParams.get("error");
  if (refusal) throw new UserError(TEXT.refused(address.searchParams.get("error_description") ?? refusal));
  const oauth = await import("oauth4webapi");
  const { clientId, server, options } = await issuer();
  const client = { client_id: clientId };
  const parameters = oauth.validateAuthResponse(server, client, address, pending.state);
  const response = await oauth.authorizationCodeGrantRequest(
    server, client, oauth.None(), parameters, redirectUri(), pending.verifier, options,
  );
  storeTokens(await oauth.processAuthorizationCodeResponse(server, client, response));
  const expected = sessionStorage.getItem(POPUP);
  if (expected === null) return true;
  const now = user()?.subject;
  if (now !== expected) {
    deleteTokens();
    throw new UserError(TEXT.otherUser(now ?? "", expected));
  }
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage(stored());
  channel.close();
  window.close();
  return false;
}

/** Replace a rejected access token.
 *
 * Resolves when there is a new token. If the refresh token is invalid, this waits until the user has signed in again.
 * @param {string | null} refused */
export async function renew(refused) {
  if (accessToken() !== refused) return; // another request has already renewed it
  renewal ??= refresh().finally(() => (renewal = null));
  await renewal;
}

async function refresh() {
  const before = stored();
  const granted = before?.refreshToken ? await exchangeRefreshToken(before.refreshToken) : null;
  if (!before || stored()?.accessToken !== before.accessToken) return; // the user signed out in the meantime
  if (granted) {
    storeTokens(granted, before.refreshToken);
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

/** Exchange a refresh token. Returns null if the issuer rejects it; throws other errors, which may be transient.
 * @param {string} token */
async function exchangeRefreshToken(token) {
  const oauth = await import("oauth4webapi");
  const { clientId, server, options } = await issuer();
  const client = { client_id: clientId };
  try {
    const response = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), token, options);
    return await oauth.processRefreshTokenResponse(server, client, response);
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
    redirect_uri: redirectUri(),
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

/** Read the issuer's metadata. Throws UserError if the deployment has no OAuth client. */
async function issuer() {
  const oauth = await import("oauth4webapi");
  const { issuer: name, clientId, scopes, audience } = await config();
  if (!clientId) throw new UserError(TEXT.noClient);
  const url = new URL(name);
  // Only an issuer on this machine may omit TLS.
  const options = { [oauth.allowInsecureRequests]: url.hostname === "127.0.0.1" };
  const response = await oauth.discoveryRequest(url, options);
  return { clientId, scopes, audience, options, server: await oauth.processDiscoveryResponse(url, response) };
}

/** Return the redirect URI of this page. */
function redirectUri() {
  return location.origin + location.pathname;
}

/** @param {import("oauth4webapi").TokenEndpointResponse} response
 * @param {string | null} [before] refresh token to keep if the response has none */
function storeTokens(response, before) {
  if (!parseClaims(response.access_token).sub) {
    throw new UserError(TEXT.unusableToken);
  }
  const tokens = { accessToken: response.access_token, refreshToken: response.refresh_token ?? before ?? null };
  sessionStorage.setItem(TOKENS, JSON.stringify(tokens));
  ended = false;
  notify();
}

/** Accept the tokens that the popup of `signInAgain` received, if they belong to the same user. */
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

/** Return the claims of a JWT, unverified; no claims for an opaque token.
 * @param {string} token @returns {Record<string, unknown>} */
function parseClaims(token) {
  if (token.split(".").length !== 3) return {};
  const payload = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
  const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

function notify() {
  for (const listener of [...listeners]) listener();
}
