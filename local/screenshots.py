"""`make screenshots`: takes the screenshots of the console for the documents.

The program uses a separate MiniStack and deployment, with the videos of local/sample_videos.py.
"""

import io
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import Browser, Locator, Page

from local import ROOT, LocalError, exit_status
from local.browser import launched
from local.demo import ApiClient, load_scenes, upload
from local.issuer import USERS
from local.run import service_in

PICTURES = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1280, 800
PATIENCE_MS = 60_000
READY_SECONDS = 300.0
"""Maximum seconds to wait for one condition, such as a video that becomes ready."""
SEARCHED = "watre"
"""Search query with a typo. The descriptions or captions of five videos contain the correct word."""
NO_FILM = b"This is a letter, and not a film.\n" * 100


SOUGHT = """
(video) => new Promise((done) => {
  video.addEventListener("seeked", done, { once: true });
  video.currentTime = 3;
})
"""
"""JavaScript that seeks to the fourth second of a video, and resolves once the video shows it."""


@dataclass
class Studio:
    """Running service, and API clients of its users, for the screenshots."""

    base_url: str
    clients: dict[str, ApiClient]

    def fill(self) -> list[str]:
        """Create the videos, wait until all of them are ready, and return their ids."""
        films = load_scenes(self.clients["admin"], "alice")
        for video_id in films:
            self._await(f"/v1/videos/{video_id}", "status", "ready")
        for number, video_id in enumerate(films):
            for _ in range(40 - 3 * number):
                self._send("bob", "POST", f"/v1/videos/{video_id}/views")
            self._send("bob", "PUT", f"/v1/videos/{video_id}/rating", {"value": 10 - number % 4})
        people = {"nm0000101": ("Ada Mason", "director"), "nm0000102": ("Ilse Brandt", "cinematographer")}
        for order, (person, (name, role)) in enumerate(people.items(), 1):
            credit = {"name": name, "ordering": order, "roles": [{"category": role}]}
            self._send("alice", "PUT", f"/v1/videos/{films[0]}/credits/{person}", credit)
        playlist = self._send("alice", "POST", "/v1/playlists", {"title": "By the sea", "visibility": "public"})
        for video_id in (films[0], films[9], films[1], films[11]):
            entry = {"videoId": video_id}
            self._send("alice", "POST", f"/v1/playlists/{playlist['playlistId']}/entries", entry)
        broken = self._send("bob", "POST", "/v1/videos", {"title": "Letter from the archive"})["videoId"]
        upload(self.clients["bob"], broken, NO_FILM)
        self._await(f"/v1/videos/{broken}", "status", "failed")
        self._await(f"/v1/search?q={SEARCHED}", "total", 5)
        return films

    def _send(self, user: str, method: str, path: str, body: Any = None) -> Any:
        answer = self.clients[user].send(method, path, **({} if body is None else {"json": body}))
        if answer.status_code >= 400:
            raise LocalError(f"{method} {path} was rejected: {answer.status_code} {answer.text[:300]}")
        return answer.json()

    def _await(self, path: str, name: str, value: Any) -> None:
        """Poll the API until the member `name` of the document at `path` has the value.

        The API sends no notification of such a change.
        """
        deadline = time.monotonic() + READY_SECONDS
        while self._send("admin", "GET", path)[name] != value:
            if time.monotonic() > deadline:
                raise LocalError(f"The {name} of {path} did not become {value} within {READY_SECONDS:.0f} seconds.")
            time.sleep(0.5)


def take(studio: Studio) -> None:
    """Take all screenshots."""
    films = studio.fill()
    PICTURES.mkdir(exist_ok=True)
    with launched() as browser:
        with _signed_in(browser, studio, "alice") as page:
            _save(page, "library", _posters(page, 12))
            _go(page, f"videos/{films[0]}")
            page.locator("video").evaluate(SOUGHT)
            page.locator("media-time-range").hover()
            _save(page, "video", [page.get_by_role("tabpanel"), page.locator("media-preview-thumbnail")])
            _go(page, "upload")
            _save(page, "upload", [page.get_by_role("button", name="Select files")])
            _go(page, f"search?q={SEARCHED}")
            _save(page, "search", [page.locator("q mark").first, *_posters(page, 4)])
            _go(page, "playlists")
            page.get_by_role("link", name="By the sea").click()
            _save(page, "playlist", [page.get_by_role("heading", name="By the sea"), *_posters(page, 4)])
        with _signed_in(browser, studio, "alice", scheme="dark") as page:
            _save(page, "library-dark", _posters(page, 12))
        with _signed_in(browser, studio, "admin") as page:
            _go(page, "operations")
            _save(page, "operations", [page.get_by_text("The file is not a video").first])


@contextmanager
def _signed_in(
    browser: Browser, studio: Studio, user: str, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, locale="en-GB", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{studio.base_url}/console/")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name=user, exact=True).click()
    page.get_by_role("button", name=f"Account: {user}", exact=True).wait_for()
    yield page
    context.close()


def _go(page: Page, place: str) -> None:
    page.evaluate("(place) => { location.hash = `#/${place}` }", place)


def _posters(page: Page, number: int) -> list[Locator]:
    return [page.locator(".poster img").nth(place) for place in range(number)]


def _save(page: Page, name: str, shown: Sequence[Locator]) -> None:
    """Wait until the elements in `shown` and their images are loaded, then write a screenshot of the page.

    The format is WebP, which has a third of the size of a PNG.
    """
    for part in shown:
        part.wait_for()
        part.evaluate("(part) => part instanceof HTMLImageElement ? part.decode() : undefined")
    with Image.open(io.BytesIO(page.screenshot(animations="disabled"))) as image:
        image.convert("RGB").save(PICTURES / f"{name}.webp", quality=88, method=6)
    print((PICTURES / f"{name}.webp").relative_to(ROOT), flush=True)


def main() -> int:
    """Start a service, take all screenshots, and return the exit status."""
    return exit_status(_run)


def _run() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="screenshots-")))
        aws, issuer = stack.enter_context(service_in(folder, print))
        clients = {
            user: stack.enter_context(closing(ApiClient(aws.endpoint, issuer.mint(user, scopes))))
            for user, scopes in USERS.items()
        }
        take(Studio(aws.endpoint, clients))


if __name__ == "__main__":
    sys.exit(main())
