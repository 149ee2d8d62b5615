"""Screens of the console, with the sample data of the mock: for the layout tests and the screenshots."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Page

from tests.e2e.mock_api import SEARCHED, State, video_id

Act = Callable[[Page], object]
"""Function that opens a part of a screen, such as a dialog."""
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WIDTHS = (360, 1280, 3840)
"""Widths of the page in CSS pixels: a phone, a laptop and a 4K monitor."""
HEIGHTS = {360: 740, 1280: 800, 3840: 1200}
"""Height of the window in CSS pixels, by its width."""

CHOOSE_FILES = """
(files) => {
  const input = document.querySelector("input[type=file]");
  const transfer = new DataTransfer();
  const block = new Uint8Array(1e6);
  for (const [name, blocks, type] of files) transfer.items.add(new File(Array(blocks).fill(block), name, { type }));
  input.files = transfer.files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}
"""
"""Function that selects files, each with its name, its size in MB, and its media type."""
FILES = [
    ["Night_ferry.mp4", 120, "video/mp4"],
    ["Low tide, second take.mov", 120, "video/quicktime"],
    ["Harvest.mkv", 120, ""],
]


def press(*names: str) -> Act:
    """Return a function that clicks the buttons with these names, in this order."""

    def act(page: Page) -> None:
        for name in names:
            page.get_by_role("button", name=name, exact=True).first.click()

    return act


def unfold(name: str) -> Act:
    """Return a function that opens the folded part with this text."""
    return lambda page: page.locator("summary").get_by_text(name, exact=True).click()


def select_first(*names: str) -> Act:
    """Return a function that selects the first video of the library, and then clicks these buttons in order."""

    def act(page: Page) -> None:
        page.get_by_role("checkbox").first.check(force=True)
        press(*names)(page)

    return act


def choose_files(page: Page) -> None:
    """Select files to upload."""
    page.evaluate(CHOOSE_FILES, FILES)


def upload_files(page: Page) -> None:
    """Upload files; the mock of the storage accepts only the first part of each."""
    choose_files(page)
    page.get_by_role("button", name="Upload all 3", exact=True).click()
    page.get_by_text("Uploading", exact=True).nth(1).wait_for()
    page.get_by_role("button", name="Pause", exact=True).first.click()


def edit_upload(page: Page) -> None:
    """Edit the details of the first video during its upload."""
    upload_files(page)
    press("Edit details")(page)


def suggest(page: Page) -> None:
    """Type a search, and wait for the suggestions."""
    page.get_by_role("combobox", name="Search videos", exact=True).fill(SEARCHED)
    page.get_by_role("option").first.wait_for()


def run_question(title: str) -> Act:
    """Return a function that runs the saved question with this title, and waits for its result."""

    def act(page: Page) -> None:
        page.get_by_label("Question", exact=True).select_option(title)
        press("Run")(page)
        page.get_by_role("heading", name=title, exact=True).wait_for()

    return act


@dataclass(frozen=True)
class Screen:
    """Screen or part of a screen: its route, the signed-in user, the state of the mock, and the function that opens the
    part."""

    name: str
    route: str = ""
    user: str | None = "alice"
    state: State = "full"
    act: Act | None = None


VIDEO = f"videos/{video_id(0)}"
SCREENS = (
    Screen("welcome", user=None),
    Screen("design", "design"),
    Screen("library"),
    Screen("library-table", act=press("Table")),
    Screen("library-filters", "?show=everyone&category=nature", act=unfold("Filters")),
    Screen("library-selected", act=select_first()),
    Screen("library-bulk", act=select_first("Edit …")),
    Screen("library-top", "?show=top"),
    Screen("library-empty", state="empty"),
    Screen("library-failed", state="failing"),
    Screen("menu", act=press("Account: alice")),
    Screen("suggestions", act=suggest),
    Screen("video", VIDEO),
    *(
        Screen(f"video-{tab}", f"{VIDEO}?tab={tab}")
        for tab in ("credits", "titles", "captions", "playlists", "history")
    ),
    Screen("video-edit", VIDEO, act=press("Edit")),
    Screen("video-delete", VIDEO, act=press("Delete")),
    Screen("video-processing", f"videos/{video_id(3)}"),
    Screen("video-failed", f"videos/{video_id(5)}"),
    Screen("video-add-credit", f"{VIDEO}?tab=credits", act=press("Add credit")),
    Screen("upload", "upload"),
    Screen("upload-drafts", "upload", act=choose_files),
    Screen("upload-rows", "upload", act=upload_files),
    Screen("upload-edit", "upload", act=edit_upload),
    Screen("search", f"search?q={SEARCHED}"),
    Screen("search-empty", f"search?q={SEARCHED}", state="empty"),
    Screen("playlists", "playlists"),
    Screen("playlists-empty", "playlists", state="empty"),
    Screen("playlists-new", "playlists", act=press("New playlist")),
    Screen("playlist", "playlists/6fa459ea-ee8a-4ca4-894e-db77e1603550"),
    Screen("webhooks", "webhooks"),
    Screen("webhooks-empty", "webhooks", state="empty"),
    Screen("webhooks-new", "webhooks", act=press("New webhook")),
    Screen("webhooks-refused", "webhooks", act=press("New webhook", "Create")),
    Screen("webhook", "webhooks/0b7e4a52-58c1-4b7e-9d61-2f3c8a9d1e40"),
    Screen("webhook-rotate", "webhooks/0b7e4a52-58c1-4b7e-9d61-2f3c8a9d1e40", act=press("Rotate secret …")),
    Screen("change-sets", "changesets"),
    Screen("change-set", "changesets/JKJb0"),
    Screen("operations", "operations", user="admin"),
    Screen("operations-empty", "operations", user="admin", state="empty"),
    Screen("questions-chart", "operations/questions", user="admin", act=run_question("Users with most changes")),
    Screen("questions-rows", "operations/questions", user="admin", act=run_question("Deleted and removed items")),
    Screen("not-found", "nowhere"),
)

_TYPO = "watre"
"""Search query with a typo. The mock finds the same videos for each query."""
DOCUMENTED: Mapping[str, tuple[Screen, Scheme]] = {
    "library": (Screen("library"), "light"),
    "library-dark": (Screen("library"), "dark"),
    "video": (Screen("video", VIDEO), "light"),
    "search": (Screen("search", f"search?q={_TYPO}"), "light"),
    "upload": (Screen("upload", "upload", act=upload_files), "light"),
    "playlist": (Screen("playlist", "playlists/6fa459ea-ee8a-4ca4-894e-db77e1603550"), "light"),
    "operations": (Screen("operations", "operations", user="admin"), "light"),
}
"""Pictures of the documents, by name: the screen and the theme."""
