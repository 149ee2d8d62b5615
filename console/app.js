// Root of the console: renders the header and the screen of the current route, and handles sign-in.

import { html, render } from "htm/preact";
import { useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "preact/hooks";
import { texts } from "./texts/index.js";
import { Problem } from "./core/api.js";
import { allowOrigins } from "./core/media.js";
import { lookUp } from "./core/lookup.js";
import { hrefTo, useRoute } from "./core/route.js";
import { startSession, hasEnded, onSession, signIn, signInAgain, signOut, user } from "./core/session.js";
import { visit } from "./core/history-entry.js";
import { Announcer, Dialog, Empty, Failure, Loading, UserText } from "./design/parts.js";
import Header from "./frame/header.js";
import Library from "./screens/library.js";

const TEXT = texts.app;

/**
 * @typedef {import("./core/session.js").User} User
 * @typedef {(props: { route: import("./core/route.js").Route, user: User }) => unknown} Screen
 */

/** Screens by the first segment of the route. All but the library are imported when they are first shown.
 * @type {Record<string, Screen | (() => Promise<{ default: Screen }>)>} */
const SCREENS = {
  "": Library,
  videos: () => import("./screens/video.js"),
  search: () => import("./screens/search.js"),
  upload: () => import("./screens/upload.js"),
  playlists: () => import("./screens/playlists.js"),
  changesets: () => import("./screens/changesets.js"),
  webhooks: () => import("./screens/webhooks.js"),
  operations: () => import("./screens/operations.js"),
  design: () => import("./design/page.js"),
};

function App() {
  const [now, setNow] = useState(user);
  const [ended, setEnded] = useState(hasEnded);
  useLayoutEffect(() => {
    const stop = onSession(() => {
      setNow(user());
      setEnded(hasEnded());
    });
    return () => void stop();
  }, []);
  if (!now) return html`<${Welcome} />`;
  return html`
    <a class="skip" href="#main" onClick=${focusMain}>${TEXT.skip}</a>
    <${Header} user=${now} />
    <main id="main" tabindex="-1"><${CurrentScreen} user=${now} key=${now.subject} /></main>
    ${ended && html`<${SignedOut} user=${now} />`}
    <${Announcer} />`;
}

/** @param {Event} event */
function focusMain(event) {
  event.preventDefault(); // the fragment of the URL is the route
  document.getElementById("main")?.focus();
}

/** Render the screen of the current route. @param {{ user: User }} props */
function CurrentScreen({ user: who }) {
  const route = useRoute();
  const name = route.path[0] ?? "";
  const screen = lookUp(SCREENS, name);
  const [loaded, setLoaded] = useState(/** @type {Record<string, Screen>} */ ({}));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [broken, reset] = useErrorBoundary();
  const shownPath = useRef(route.path.join("/"));
  const Shown = name === "" ? /** @type {Screen} */ (screen) : lookUp(loaded, name);

  useEffect(() => {
    if (!screen || name === "" || loaded[name]) return;
    const load = /** @type {() => Promise<{ default: Screen }>} */ (screen);
    let isLeft = false;
    load().then(
      (module) => setLoaded((before) => ({ ...before, [name]: module.default })),
      () => isLeft || setError(importProblem()),
    );
    return () => {
      isLeft = true;
    };
  }, [name]);

  useLayoutEffect(() => {
    if (shownPath.current === route.path.join("/")) return;
    shownPath.current = route.path.join("/");
    setError(null);
    if (broken) reset();
    scrollTo(0, visit().scroll);
    const main = document.getElementById("main");
    // Screen readers then start at the new screen. A screen may already have moved the focus into itself.
    if (!main?.contains(document.activeElement)) main?.focus({ preventScroll: true });
  }, [route]);

  if (broken) return html`<h1>${TEXT.failed}</h1><${Failure} error=${broken} retry=${reset} />`;
  if (!screen) return html`<h1>${TEXT.notFound}</h1><${Empty} icon="circle-alert"><p>${TEXT.pageMissing}</p><a class="button" href=${hrefTo([])}>${texts.common.goToLibrary}</a><//>`;
  if (error) return html`<h1>${TEXT.notLoaded}</h1><${Failure} error=${error} retry=${() => location.reload()} />`;
  return Shown ? html`<${Shown} route=${route} user=${who} />` : html`<${Loading} />`;
}

/** Return the problem to show if a screen cannot be imported: offline, or replaced by a newer deployment. */
function importProblem() {
  return navigator.onLine
    ? new Problem({ status: 0, title: TEXT.outdatedTitle, detail: TEXT.outdated })
    : new Problem({ status: 0, title: texts.common.noConnection, detail: TEXT.offline });
}

function Welcome() {
  const [error, setError] = useState(/** @type {unknown} */ (signInError));
  const [busy, setBusy] = useState(false);
  const start = () => {
    setBusy(true);
    signIn().catch((reason) => {
      setBusy(false);
      setError(reason);
    });
  };
  return html`<main class="welcome">
    <img src=${new URL("icon.svg", import.meta.url).href} alt="" width="64" height="64" />
    <h1>${texts.common.product}</h1>
    <p>${TEXT.welcome}</p>
    <button type="button" class="primary" disabled=${busy} onClick=${start}>${TEXT.signIn}</button>
    <${Failure} error=${error} />
  </main>`;
}

/** Dialog to sign in again. The current screen stays mounted behind it, so that no input is lost.
 * @param {{ user: User }} props */
function SignedOut({ user: { subject } }) {
  return html`<${Dialog} title=${TEXT.sessionEnded}>
    <p>${TEXT.signInAgainAs(html`<${UserText}>${subject}<//>`)}</p>
    <div class="actions">
      <button type="button" class="primary" onClick=${signInAgain}>${TEXT.signInAgain}</button>
      <button type="button" onClick=${signOut}>${TEXT.signOutAndDiscard}</button>
    </div>
  <//>`;
}

/** Error of the sign-in; null if there was none. @type {unknown} */
let signInError = null;

const originsLoaded = allowOrigins().catch(() => undefined); // on failure, only media of other origins are missing
const mustRender = await startSession().catch((error) => {
  signInError = error;
  return true;
});
await originsLoaded;
const root = document.getElementById("app");
if (mustRender && root) render(html`<${App} />`, root);
