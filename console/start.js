// The first script: it loads the console, and tries again where that fails.
//
// A first visit asks for all files at once. An account may let so few functions run side by side that some requests are
// refused; the browser keeps the files that came, so each further try needs fewer. It asks for none again by itself.

const TRIES = "tries";
const MOST = 5;

import("./app.js").then(
  () => sessionStorage.removeItem(TRIES),
  () => {
    const tries = Number(sessionStorage.getItem(TRIES)) + 1;
    sessionStorage.setItem(TRIES, String(tries));
    if (tries < MOST) {
      setTimeout(() => location.reload(), 200 * 2 ** tries);
      return;
    }
    sessionStorage.removeItem(TRIES);
    const root = document.getElementById("app");
    if (root) root.textContent = "The console cannot be loaded. Reload the page to try again.";
  },
);
