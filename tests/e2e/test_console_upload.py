"""The console's upload screen: chosen files reach S3 despite interruptions, and become videos.

The tests spread their uploads over several users, so that they stay within the daily quota per user.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from local.testbed.video_files import clip
from tests.e2e.browser import Console, require_good_layout, wait_until
from tests.e2e.conftest import Service
from tests.e2e.locators import button, dialog, field, heading, link

LARGE = 100 * 1000**2 + 1
"""Bytes of the smallest file that is sent in parts. It has three parts."""
SO_FAR = "33.6 MB of 100 MB"
"""Displayed progress after the first part."""
HOLD_LATER_PARTS = r"""
window.held = [];
window.XMLHttpRequest = class extends XMLHttpRequest {
  open(method, url) {
    this.isLater = /[?&]partNumber=[23](&|$)/.test(url);
    super.open(method, url);
  }
  send(body) {
    if (this.isLater && !window.isOpen) window.held.push(() => super.send(body));
    else super.send(body);
  }
  abort() {
    super.abort();
    this.dispatchEvent(new ProgressEvent("loadend"));
  }
};
"""
"""Script that holds all parts except the first until `LET_GO`. Playwright could hold them too, but routing makes each
request of a page take ten times as long."""
LET_GO = "() => { window.isOpen = true; for (const send of window.held.splice(0)) send(); }"
HOLDS_BOTH = "() => window.held.length === 2"
SMALL = "carphone_distorted"
"""Name of a clip of 7 KB, for tests that do not need renditions. Its only rendition is created in a moment."""


@pytest.fixture(scope="module")
def zeros(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a large sparse file without video data."""
    file = tmp_path_factory.mktemp("films") / "zeros.mp4"
    with file.open("wb") as opened:
        opened.truncate(LARGE)
    yield file
    file.unlink()


def choose(page: Page, *files: Path | str, label: str = "Select files") -> None:
    """Select files in a file field."""
    field(page, label).set_input_files(list(files))


def stored_parts(page: Page) -> list[str]:
    """Return a list to which the number of each part is added when the page has uploaded the part."""
    stored: list[str] = []

    def record(request: Request) -> None:
        number = re.search(r"[?&]partNumber=(\d+)", request.url)
        if request.method == "PUT" and number:
            stored.append(number[1])

    page.on("requestfinished", record)
    return stored


def row(page: Page, title: str) -> Locator:
    """Locate the upload with this title."""
    return page.get_by_role("article", name=title, exact=True)


def send(page: Page, file: Path, title: str) -> Locator:
    """Select a file, start its upload with this title, and return its row."""
    choose(page, file)
    field(page, "Title").fill(title)
    button(page, "Upload").click()
    return row(page, title)


def step(item: Locator, words: str) -> Locator:
    """Locate a step of an uploaded file."""
    return item.get_by_role("listitem").filter(has_text=words)


def videos(service: Service, title: str, user: str = "alice") -> list[dict[str, Any]]:
    """Return the videos of a user with this title."""
    return [service.request("GET", f"/v1/videos/{id_}", user).json() for id_ in service.titled(title, user)]


def reload(page: Page) -> None:
    """Reload the page, and confirm its warning."""
    with page.expect_event("dialog") as prompt:
        page.once("dialog", lambda dialog: dialog.accept())
        page.reload()
    assert prompt.value.type == "beforeunload"


def replace_tokens(page: Page, **changes: str) -> None:
    """Replace tokens that the page has stored."""
    page.evaluate(
        "(changes) => sessionStorage.setItem('tokens',"
        " JSON.stringify({ ...JSON.parse(sessionStorage.getItem('tokens')), ...changes }))",
        changes,
    )


def refused(service: Service) -> str:
    """Return a token of alice that the gateway refuses: an expired token if there is one."""
    bad: Mapping[str, str] = service.bad_tokens
    return bad.get("expired", bad["with an altered signature"])


def test_file_becomes_a_video_after_its_errors_are_corrected(console: Console, tmp_path: Path, unique: str) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "notes.txt").write_text("no film")
    page = console.open("upload", "bob")
    choose(page, tmp_path / "empty.mp4", tmp_path / "notes.txt", clip("bikes"))
    faults = page.get_by_role("alert")
    expect(faults).to_contain_text("empty.mp4: The file is empty.")
    expect(faults).to_contain_text("notes.txt: The type text/plain is not a video.")
    title, tags = field(page, "Title"), field(page, "Tags")
    expect(title).to_have_value("bikes")
    title.fill(" ")
    title.press("Enter")
    expect(title).to_have_accessible_description("Must not be empty.")
    require_good_layout(page)
    title.fill(unique)
    tags.fill("bikes, street,")
    field(page, "Category").fill("cycling")
    field(page, "Visibility").select_option("Public")
    title.press("Enter")
    item = row(page, unique)
    expect(item.get_by_role("heading")).to_be_focused()
    for name in ("Uploaded", "Received", "Probe", "Poster", "Storyboard", "Rendition 240p", "Ready"):
        expect(step(item, f"{name}: done")).to_be_visible()
    expect(item.locator(".poster img")).to_have_js_property("complete", True)
    require_good_layout(page)
    link(item, "View video").click()
    expect(heading(page, unique)).to_be_visible()
    (video,) = videos(console.service, unique, "bob")
    assert (video["category"], sorted(video["tags"]), video["visibility"]) == ("cycling", ["bikes", "street"], "public")


def test_dropped_file_that_is_no_video_can_be_replaced(console: Console, unique: str) -> None:
    page = console.open("upload", "bob")
    expect(heading(page, "Upload")).to_be_visible()
    dropped = page.evaluate_handle(
        """(name) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(5000)], `${name}_at_night.mp4`, { type: "video/mp4" }));
          return data;
        }""",
        unique,
    )
    title = f"{unique} at night"
    page.get_by_role("banner").dispatch_event("drop", {"dataTransfer": dropped})
    expect(field(page, "Title")).to_have_value(title)
    button(page, "Upload").click()
    failed = row(page, title)
    expect(step(failed, "Probe: failed")).to_contain_text("not a video in a supported format")
    link(failed, "Upload another file").click()
    expect(heading(page, f"Replace the file of {title}")).to_be_visible()
    button(failed, "Dismiss").click()

    choose(page, clip(SMALL), label="Select file")
    expect(button(page, "Upload")).to_be_visible()
    expect(field(page, "Title")).to_have_count(0)
    button(page, "Upload").click()
    expect(step(row(page, title), "Received: done")).to_be_visible()
    (video,) = videos(console.service, title, "bob")
    assert video["source"]["fileSize"] == clip(SMALL).stat().st_size
    link(page, "Library").click()
    assert console.service.request("DELETE", f"/v1/videos/{video['videoId']}", "bob").status_code == 204
    link(page, "Upload").click()
    expect(row(page, title)).to_contain_text("The video is deleted.")
    expect(row(page, title)).not_to_contain_text("waiting")


def test_upload_resumes_after_a_pause_a_reload_and_an_ended_session(console: Console, zeros: Path, unique: str) -> None:
    console.context.add_init_script(HOLD_LATER_PARTS)
    page = console.open("upload")
    parts = stored_parts(page)
    item = send(page, zeros, unique)
    # The upload continues while another screen is open, which has a link back.
    link(page, "Library").click()
    link(page, re.compile(r"^Uploading, \d+%$")).click()
    expect(item).to_contain_text(SO_FAR)
    wait_until(page, lambda: parts == ["1"])  # S3 stores the part a moment after the browser has sent it
    page.wait_for_function(HOLDS_BOTH)
    button(item, "Pause").click()
    expect(field(item, "Paused")).to_be_visible()
    reload(page)
    assert "X-Amz" not in page.evaluate("JSON.stringify(sessionStorage)"), "a presigned URL lets its holder upload"
    # Every screen has a link to paused uploads.
    link(page, "Playlists").click()
    link(page, "Resume upload").click()
    choose(page, clip(SMALL), label="Select file again")
    expect(item.get_by_role("alert")).to_contain_text("This is a different file")
    require_good_layout(page)
    field(item, "Select file again").focus()
    choose(page, zeros, label="Select file again")
    expect(item).to_contain_text(SO_FAR)
    expect(item.get_by_role("heading")).to_be_focused()  # the button was removed
    page.wait_for_function(HOLDS_BOTH)

    replace_tokens(page, accessToken=refused(console.service), refreshToken="it has ended")
    page.evaluate(LET_GO)
    ended = dialog(page, "Your session has ended")
    with page.expect_popup() as popup:
        button(ended, "Sign in again").click()
    console.identify(popup.value, "alice")
    expect(ended).to_be_hidden()
    expect(step(item, "Received: done")).to_be_visible()
    wait_until(page, lambda: len(parts) >= 3)
    assert sorted(parts) == ["1", "2", "3"]
    assert len(videos(console.service, unique)) == 1
