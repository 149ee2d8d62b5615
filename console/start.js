// Entry point: loads the console, and reloads the page if that fails.
//
// A first visit requests all files at once, and Lambda throttles some of them if the account's concurrency limit is low. The
// browser caches the other files, so each reload requests fewer. Browsers do not retry failed module requests.

const ATTEMPTS = "attempts";
const MAX_ATTEMPTS = 5;

import("./app.js").then(
  () => sessionStorage.removeItem(ATTEMPTS),
  () => {
    const attempts = Number(sessionStorage.getItem(ATTEMPTS)) + 1;
    sessionStorage.setItem(ATTEMPTS, String(attempts));
    if (attempts < MAX_ATTEMPTS) {
      setTimeout(() => location.reload(), 200 * 2 ** attempts);
      return;
    }
    sessionStorage.removeItem(ATTEMPTS);
    const root = document.getElementById("app");
    if (root) root.textContent = "The console cannot be loaded. Reload the page to try again.";
  },
);
