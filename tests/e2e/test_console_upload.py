"""The console's upload screen: films that people choose go to S3, whatever happens on the way, and become videos.

Whose they are is of no matter here: several users share them, so that nobody's quota for a day ends soon.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.e2e.browser import Console, Hold, meet_first, serious, wait_until
from tests.e2e.conftest import Service
from tests.films import clip

URL_OF_UPLOAD = re.compile(r"/v1/videos/[^/]+/upload/[^/]+$")
LARGE = 100 * 1000**2 + 1
"""Bytes: the smallest film that is sent in parts, which are three."""
SO_FAR = "33.6 MB of 100 MB"
"""How far it is with the first of them."""
LATER_PARTS = re.compile(r"[?&]partNumber=[23](&|$)")
TO_S3 = re.compile(r"[?&]X-Amz-Signature=")


@pytest.fixture(scope="module")
def zeros(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A large file that takes no space on the disk, and is not a film."""
    file = tmp_path_factory.mktemp("films") / "zeros.mp4"
    with file.open("wb") as opened:
        opened.truncate(LARGE)
    yield file
    file.unlink()


class Transit(Hold):
    """What a page sends to S3. All that a pattern fits hangs on its way, until it is let go."""

    def __init__(self, page: Page, held: re.Pattern[str]) -> None:
        super().__init__(page, held)
        self.begun: list[str] = []
        """The numbers of the parts whose sending began."""
        self.taken: list[str] = []
        """The numbers of the parts that S3 took."""
        page.on("request", lambda request: self._note(request, self.begun))
        page.on("requestfinished", lambda request: self._note(request, self.taken))

    @staticmethod
    def _note(request: Request, where: list[str]) -> None:
        number = re.search(r"[?&]partNumber=(\d+)", request.url)
        if request.method == "PUT" and number:
            where.append(number[1])


def choose(page: Page, *files: Path | str, label: str = "Choose films") -> None:
    """Choose files as people do."""
    page.get_by_label(label).set_input_files(list(files))


def answers(page: Page) -> list[tuple[str, str, int]]:
    """Method, URL and status of each answer that a page gets from now on."""
    seen: list[tuple[str, str, int]] = []
    page.on("response", lambda answer: seen.append((answer.request.method, answer.url, answer.status)))
    return seen


def row(page: Page, title: str) -> Locator:
    """The upload of a title."""
    return page.get_by_role("article", name=title, exact=True)


def send(page: Page, file: Path, title: str) -> Locator:
    """Choose a file and begin to send it under a title; return its row."""
    choose(page, file)
    page.get_by_label("Title").fill(title)
    page.get_by_role("button", name="Upload", exact=True).click()
    return row(page, title)


def videos(service: Service, title: str, user: str = "alice") -> list[dict[str, Any]]:
    """The videos of this title that a user has."""
    return [service.request("GET", f"/v1/videos/{id_}", user).json() for id_ in service.titled(title, user)]


def reload(page: Page) -> None:
    """Load the page again although it asks not to."""
    with page.expect_event("dialog") as asked:
        page.once("dialog", lambda dialog: dialog.accept())
        page.reload()
    assert asked.value.type == "beforeunload"


def spoil_tokens(page: Page, **changes: str) -> None:
    """Change the tokens that the page has."""
    page.evaluate(
        "(changes) => sessionStorage.setItem('tokens',"
        " JSON.stringify({ ...JSON.parse(sessionStorage.getItem('tokens')), ...changes }))",
        changes,
    )


def refused(service: Service) -> str:
    """A token that says alice, as before, and that the gateway refuses: an expired one where there is one."""
    bad: Mapping[str, str] = service.bad_tokens
    return bad.get("expired", bad["with an altered signature"])


def test_a_film_becomes_a_video(console: Console, unique: str) -> None:
    page = console.open("upload", "bob")
    choose(page, clip("bikes"))
    expect(page.get_by_label("Title")).to_have_value("bikes")
    page.get_by_label("Title").fill(unique)
    page.get_by_label("Category").fill("cycling")
    page.get_by_label("Tags").fill("bikes, street,")
    page.get_by_label("Who may see it").select_option("Everybody")
    assert serious(page) == []
    page.get_by_role("button", name="Upload", exact=True).click()
    shown = row(page, unique)
    for step in ("Sent", "Arrived", "Looking at the film", "Poster", "Storyboard", "Version in 240p", "Ready"):
        expect(shown.get_by_text(f"{step}: done")).to_be_visible()
    expect(shown.locator(".poster img")).to_have_js_property("complete", True)
    assert serious(page) == []
    shown.get_by_role("link", name="To the video").click()
    expect(page.get_by_role("heading", name=unique)).to_be_visible()
    (video,) = videos(console.service, unique, "bob")
    assert (video["category"], sorted(video["tags"]), video["visibility"]) == ("cycling", ["bikes", "street"], "public")


def test_a_film_that_is_dropped_anywhere_is_taken_as_well(console: Console, unique: str) -> None:
    page = console.open("upload", "bob")
    expect(page.get_by_role("heading", name="Upload")).to_be_visible()
    dropped = page.evaluate_handle(
        """(name) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(5000)], `${name}_at_night.mp4`, { type: "video/mp4" }));
          return data;
        }""",
        unique,
    )
    page.get_by_role("banner").dispatch_event("drop", {"dataTransfer": dropped})
    expect(page.get_by_label("Title")).to_have_value(f"{unique} at night")
    page.get_by_role("button", name="Upload", exact=True).click()
    shown = row(page, f"{unique} at night")
    expect(shown.get_by_text("Looking at the film: failed")).to_contain_text("not a film in a supported format")
    shown.get_by_role("link", name="Upload another film").click()
    expect(page.get_by_role("heading", name=f"A new film for {unique} at night")).to_be_visible()


def test_a_new_film_for_a_video_that_is_there(console: Console, unique: str) -> None:
    video = console.service.create("bob", title=unique)
    page = console.open(f"upload?video={video['videoId']}", "bob")
    choose(page, clip("bikes"), label="Choose a film")
    expect(page.get_by_label("Title")).to_be_hidden()
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(row(page, unique).get_by_text("Arrived: done")).to_be_visible()
    (sent,) = videos(console.service, unique, "bob")
    assert sent["source"]["fileSize"] == clip("bikes").stat().st_size

    page.get_by_role("link", name="Library").click()
    assert console.service.request("DELETE", f"/v1/videos/{video['videoId']}", "bob").status_code == 204
    page.get_by_role("link", name="Upload", exact=True).click()
    expect(row(page, unique)).to_contain_text("The video is deleted.")
    expect(row(page, unique)).not_to_contain_text("to come")


def test_an_interrupted_film_is_not_taken_for_that_of_another_video(console: Console, unique: str) -> None:
    one, other = (console.service.create("bob", title=f"{unique} {name}")["videoId"] for name in ("one", "other"))
    page = console.open(f"upload?video={one}", "bob")
    Transit(page, TO_S3)
    choose(page, clip("bikes"), label="Choose a film")
    page.get_by_role("button", name="Upload", exact=True).click()
    interrupted = row(page, f"{unique} one")
    expect(interrupted.get_by_label("Sending")).to_be_visible()
    reload(page)
    page.goto(f"{console.service.base_url}/console/#/upload?video={other}")
    expect(page.get_by_role("heading", name=f"A new film for {unique} other")).to_be_visible()
    choose(page, clip("bikes"), label="Choose a film")
    expect(page.get_by_role("button", name="Upload", exact=True)).to_be_visible()
    expect(interrupted.get_by_label("Choose the file again")).to_be_visible()
    page.goto(f"{console.service.base_url}/console/#/upload?video={one}")
    expect(page.get_by_role("heading", name=f"A new film for {unique} one")).to_be_visible()
    choose(page, clip("bikes"), label="Choose a film")
    expect(interrupted.get_by_label("Sending")).to_be_visible()


def test_each_part_is_sent_once_through_a_pause_the_end_of_a_token_and_wrong_etags(
    console: Console, zeros: Path, unique: str
) -> None:
    def garble(route: Route) -> None:
        wanted = json.loads(route.request.post_data or "")
        wanted["parts"][0]["etag"] = '"0123456789abcdef0123456789abcdef"'
        route.continue_(post_data=json.dumps(wanted))

    page = console.open("upload")
    meet_first(page, "**/complete", garble, 2)
    transit = Transit(page, LATER_PARTS)
    seen = answers(page)
    shown = send(page, zeros, unique)
    # Another screen does not disturb it, and leads back.
    page.get_by_role("link", name="Library").click()
    page.get_by_role("link", name="Uploading").click()
    expect(shown).to_contain_text(SO_FAR)
    wait_until(page, lambda: transit.taken == ["1"])  # all of it is sent a moment before S3 has it
    transit.wait_for(2)
    shown.get_by_role("button", name="Pause").click()
    expect(shown.get_by_label("Paused")).to_be_visible()
    transit.clear()
    spoil_tokens(page, accessToken=refused(console.service))
    shown.get_by_role("button", name="Go on").click()
    expect(shown.get_by_text("Arrived: done")).to_be_visible()
    expect(shown.get_by_role("heading")).to_be_focused()  # the button has gone
    wait_until(page, lambda: len(transit.taken) >= 3)
    assert sorted(transit.taken) == ["1", "2", "3"]
    assert sorted(transit.begun[3:]) == ["2", "3"]
    assert [status for _, path, status in seen if path.endswith("/complete")] == [401, 422, 200]


def test_the_keyboard_stays_where_somebody_acts(console: Console, unique: str) -> None:
    page = console.open("upload", "bob")
    Transit(page, TO_S3)
    meet_first(page, TO_S3, lambda route: route.fulfill(status=403), 2)  # the second one with a URL that is fresh
    shown = send(page, clip("bikes"), unique)
    shown.get_by_role("button", name="Try again").press("Enter")
    expect(shown.get_by_role("button", name="Pause")).to_be_focused()
    page.keyboard.press("Enter")
    expect(shown.get_by_role("button", name="Go on")).to_be_focused()
    page.keyboard.press("Enter")
    expect(shown.get_by_role("button", name="Pause")).to_be_focused()
    reload(page)
    shown.get_by_label("Choose the file again").focus()
    choose(page, clip("bikes"), label="Choose the file again")
    expect(shown.get_by_label("Sending")).to_be_visible()
    expect(shown.get_by_role("heading")).to_be_focused()


def test_an_upload_goes_on_by_itself_when_the_connection_is_back(console: Console, unique: str) -> None:
    page = console.open("upload", "bob")
    transit = Transit(page, TO_S3)
    shown = send(page, clip("bikes"), unique)
    expect(shown.get_by_label("Sending")).to_be_visible()
    transit.cut()
    expect(shown.get_by_text("There is no connection.")).to_be_visible()
    page.context.set_offline(False)
    expect(shown.get_by_text("Arrived: done")).to_be_visible()
    assert len(videos(console.service, unique, "bob")) == 1


def test_neither_a_reload_nor_the_end_of_a_session_loses_what_was_sent(
    console: Console, zeros: Path, unique: str
) -> None:
    page = console.open("upload")
    transit = Transit(page, LATER_PARTS)
    shown = send(page, zeros, unique)
    expect(shown).to_contain_text(SO_FAR)
    wait_until(page, lambda: transit.taken == ["1"])  # all of it is sent a moment before S3 has it
    transit.wait_for(2)
    reload(page)
    assert "X-Amz" not in page.evaluate("JSON.stringify(sessionStorage)"), "whoever has a URL may upload with it"
    # Wherever somebody is then, the way to what waits for its file is near.
    page.get_by_role("link", name="Playlists").click()
    page.get_by_role("link", name="Go on uploading").click()
    choose(page, clip("bikes"), label="Choose the file again")
    expect(shown.get_by_role("alert")).to_contain_text("This is not the file that was being sent")
    assert serious(page) == []
    choose(page, zeros, label="Choose the file again")
    expect(shown).to_contain_text(SO_FAR)

    spoil_tokens(page, accessToken=refused(console.service), refreshToken="it has ended")
    transit.let_go()
    ended = page.get_by_role("dialog", name="Your session has ended")
    with page.expect_popup() as popup:
        ended.get_by_role("button", name="Sign in again").click()
    popup.value.get_by_role("button", name="alice", exact=True).click()
    expect(ended).to_be_hidden()
    expect(shown.get_by_text("Arrived: done")).to_be_visible()
    wait_until(page, lambda: len(transit.taken) >= 3)
    assert sorted(transit.taken) == ["1", "2", "3"]
    assert sorted(transit.begun[3:]) == ["2", "3"]
    assert len(videos(console.service, unique)) == 1


def test_a_url_that_the_storage_no_longer_takes_is_replaced(console: Console, unique: str) -> None:
    page = console.open("upload", "bob")
    renewed: list[str] = []
    page.on("request", lambda asked: renewed.append(asked.method) if URL_OF_UPLOAD.search(asked.url) else None)
    # URLs end with the credentials that signed them, which nobody can hurry.
    page.route(TO_S3, lambda route: route.fallback() if renewed else route.fulfill(status=403))
    shown = send(page, clip("bikes"), unique)
    expect(shown.get_by_text("Arrived: done")).to_be_visible()
    assert renewed == ["GET"]


def test_a_quota_says_when_to_try_again(console: Console, unique: str) -> None:
    page = console.open("upload", "admin")
    problem = {
        "type": "urn:video-metadata:problem:quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": "",
    }
    # Nobody can use up a quota in a test: all of them share it.
    meet_first(
        page,
        re.compile(r"/v1/videos/[^/]+/upload$"),
        lambda route: route.fulfill(status=429, headers={"Retry-After": "7000"}, body=json.dumps(problem)),
    )
    shown = send(page, clip("bikes"), unique)
    expect(shown.get_by_role("alert")).to_contain_text("Quota exceeded")
    expect(shown.get_by_role("alert")).to_contain_text("Try again in 2 hours.")
    shown.get_by_role("button", name="Try again").click()
    expect(shown.get_by_text("Arrived: done")).to_be_visible()
    assert len(videos(console.service, unique, "admin")) == 1


def test_what_is_wrong_stands_where_it_is_wrong(console: Console, tmp_path: Path, unique: str) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "notes.txt").write_text("no film")
    page = console.open("upload", "bob")
    choose(page, tmp_path / "empty.mp4", tmp_path / "notes.txt", clip("bikes"))
    faults = page.get_by_role("alert")
    expect(faults).to_contain_text("empty.mp4: This file is empty.")
    expect(faults).to_contain_text("notes.txt: This is not a film, but of the type text/plain.")
    title, tags = page.get_by_label("Title"), page.get_by_label("Tags")
    title.fill(" ")
    tags.fill(f"short, {'x' * 65}")
    title.press("Enter")
    expect(title).to_be_focused()
    expect(title).to_have_accessible_description("String should have at least 1 character")
    expect(tags).to_have_accessible_description(re.compile(r"^x+: String should have at most 64 characters"))
    assert serious(page) == []
    title.fill(unique)
    tags.fill("short")
    title.press("Enter")
    expect(row(page, unique).get_by_role("heading")).to_be_focused()
    expect(row(page, unique).get_by_text("Arrived: done")).to_be_visible()


def test_two_films_are_sent_at_a_time_and_one_can_be_given_up(console: Console, tmp_path: Path, unique: str) -> None:
    names = [f"{unique}-{number}" for number in range(3)]
    for name in names:
        (tmp_path / f"{name}.mp4").write_bytes(clip("bikes").read_bytes())
    page = console.open("upload", "admin")
    transit = Transit(page, TO_S3)
    choose(page, *(tmp_path / f"{name}.mp4" for name in names))
    page.get_by_role("button", name="Upload all 3").click()
    expect(page.get_by_label("Sending")).to_have_count(2)
    expect(row(page, names[0]).get_by_role("heading")).to_be_focused()
    expect(page.get_by_text("Waits for its turn.")).to_have_count(1)
    row(page, names[0]).get_by_role("button", name="Cancel").click()
    with page.expect_request(TO_S3):  # that of the third
        page.get_by_role("dialog").get_by_role("button", name="Cancel the upload").click()
    expect(row(page, names[0])).to_be_hidden()
    expect(page.get_by_role("heading", name="Upload")).to_be_focused()
    transit.let_go()
    for name in names[1:]:
        expect(row(page, name).get_by_text("Arrived: done")).to_be_visible()
    assert [len(videos(console.service, name, "admin")) for name in names] == [0, 1, 1]


def test_what_was_filled_in_is_not_lost_by_mistake(console: Console, unique: str) -> None:
    page = console.open("upload", "admin")
    choose(page, clip("bikes"))
    page.get_by_label("Title").press_sequentially(unique)
    reload(page)
    choose(page, clip("bikes"))
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_label("Title")).to_have_count(0)
    asked: list[str] = []
    page.on("dialog", lambda dialog: asked.append(dialog.type))
    page.reload()
    expect(page.get_by_label("Choose films")).to_be_attached()
    assert asked == []


def test_nobody_signs_out_of_an_upload_by_mistake(console: Console, unique: str) -> None:
    page = console.open("upload", "admin")
    Transit(page, TO_S3)
    shown = send(page, clip("bikes"), unique)
    expect(shown.get_by_label("Sending")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("dialog").get_by_role("button", name="Stay").click()
    expect(shown.get_by_label("Sending")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    console.sign_out(page, "Sign out and stop them")
    assert page.evaluate("sessionStorage.length") == 0
