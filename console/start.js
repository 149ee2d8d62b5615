// Entry point: loads the console, and reloads the page if that fails.
//
// A first visit requests all files at once, and Lambda throttles some of them if the account's concurrency limit is low. The
// browser caches the other files, so each reload requests fewer. Browsers do not retry failed module requests.

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
