"""The console: captions and chapters, as owners put them there and everybody gets them in the player."""

import re
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.e2e.browser import Console, announced, serious
from tests.e2e.conftest import Service
from tests.films import clip
from tests.waiting import eventually

SUBRIP = (
    b"1\n00:00:01,000 --> 00:00:04,000\nWe ride <i>out</i>\n\n2\n00:00:05,000 --> 00:00:09,000\nto the sea & back\n"
)
FAULTY = b"WEBVTT\n\n00:01.000 --> 00:02.000\nGood\n\n00:09.000 --> 00:04.000\nBackwards\n"
CUES = """(language) => [...document.querySelector("media-controller video").textTracks]
  .filter((track) => track.language === language && track.mode === "showing")
  .flatMap((track) => [...(track.cues ?? [])].map((cue) => [cue.startTime, cue.text]))"""
"""What the player shows in a language: from when, in seconds, and the text of each cue."""
IS_AT = """(seconds) => {
  const video = document.querySelector("media-controller video");
  return Math.abs(video.currentTime - seconds) < 0.2 && !video.seeking;
}"""
HAS_PICTURE = "() => document.querySelector('media-controller video').readyState > 1"


@pytest.fixture
def film(service: Service) -> dict[str, Any]:
    """A public video of alice's with a film of ten seconds, which is of this test alone."""
    video = service.create(title="A ride with words", visibility="public")
    service.upload(video, clip("bikes").read_bytes())
    path = f"/v1/videos/{video['videoId']}"
    eventually(lambda: service.request("GET", path).json()["status"], lambda status: status == "ready")
    return video


def opened(console: Console, video: dict[str, Any], user: str = "alice") -> Page:
    """A page at the captions and chapters of a video, whose film can be played."""
    page = console.open(f"videos/{video['videoId']}?tab=captions", user)
    expect(page.get_by_label("Quality")).to_be_visible()
    return page


def panel(page: Page) -> Locator:
    """What there is of captions and chapters."""
    return page.get_by_role("tabpanel", name="Captions and chapters")


def send(page: Page, name: str, content: bytes, language: str = "") -> Locator:
    """Add captions by a file; the form."""
    page.get_by_role("button", name="Add captions").click()
    form = page.get_by_role("dialog", name="Add captions")
    form.get_by_label("File").set_input_files(FilePayload(name=name, mimeType="", buffer=content))
    if language:
        form.get_by_label("Language").fill(language)
    form.get_by_role("button", name="Save").click()
    return form


def test_captions_of_a_file_are_listed_and_shown_over_the_film_also_in_another_quality(
    console: Console, film: dict[str, Any]
) -> None:
    page = opened(console, film)
    expect(panel(page)).to_contain_text("There are no captions yet.")
    form = send(page, "ride.en-NZ.srt", SUBRIP)  # its name says the language
    expect(form).to_have_count(0)
    announced(page, "Saved.")
    row = panel(page).get_by_role("listitem").filter(has_text="English (New Zealand)")
    expect(row).to_contain_text("2 cues")
    page.get_by_label("Captions", exact=True).select_option("English (New Zealand)")
    cues = [[1, "We ride <i>out</i>"], [5, "to the sea &amp; back"]]
    eventually(lambda: page.evaluate(CUES, "en-NZ"), lambda seen: seen == cues)
    page.get_by_label("Quality").select_option("source")
    expect(page.locator("media-controller video")).to_have_attribute("src", re.compile("-sources-"))
    page.wait_for_function(HAS_PICTURE)
    eventually(lambda: page.evaluate(CUES, "en-NZ"), lambda seen: seen == cues)
    assert serious(page) == []
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(panel(page)).to_contain_text("There are no captions yet.")
    expect(page.get_by_label("Captions", exact=True)).to_have_count(0)


def test_a_faulty_file_says_in_which_line(console: Console) -> None:
    video = console.service.create(title="Nothing but words")
    page = console.open(f"videos/{video['videoId']}?tab=captions")
    form = send(page, "ride.vtt", FAULTY, "en")
    expect(form).to_contain_text("Line 6: the end 00:00:04.000 is not after the start 00:00:09.000.")
    expect(form.get_by_label("File")).to_be_focused()
    form.get_by_label("File").set_input_files(FilePayload(name="ride.vtt", mimeType="", buffer=FAULTY[:36]))
    form.get_by_role("button", name="Save").click()
    expect(panel(page).get_by_role("listitem")).to_contain_text("1 cue,")


def test_chapters_are_saved_in_their_order_and_lead_to_their_starts(console: Console, film: dict[str, Any]) -> None:
    page = opened(console, film)
    page.get_by_role("button", name="Add chapters").click()
    form = page.get_by_role("form", name="Chapters")
    form.get_by_label("Title of chapter 1").fill("The harbour <1>")
    form.get_by_role("button", name="Add a chapter").click()
    form.get_by_label("Start of chapter 2").fill("0:75")
    form.get_by_label("Title of chapter 2").fill("Out at sea")
    form.get_by_role("button", name="Save chapters").click()
    expect(form).to_contain_text("Write it as 5:30")
    form.get_by_label("Start of chapter 2").fill("1:00")
    form.get_by_role("button", name="Save chapters").click()
    expect(form.get_by_label("Start of chapter 2")).to_have_attribute(
        "aria-invalid", "true"
    )  # behind the end of the film
    form.get_by_label("Start of chapter 2").fill("0:06.5")
    form.get_by_role("button", name="Save chapters").click()
    expect(form).to_have_count(0)
    chapter = page.get_by_role("group").get_by_role("button", name="0:06.5 Out at sea")
    chapter.press("Enter")
    page.wait_for_function(IS_AT, arg=6.5)
    expect(chapter).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Edit chapters").click()
    form.get_by_role("button", name="Add one where the player is").click()
    expect(form.get_by_label("Start of chapter 3")).to_have_value("0:06.5")
    assert serious(page) == []


def test_proposed_chapters_are_taken_and_named(console: Console, film: dict[str, Any]) -> None:
    path = f"/v1/videos/{film['videoId']}/chapters"
    eventually(lambda: console.service.request("GET", path).status_code, lambda status: status == 200)
    page = opened(console, film)
    page.get_by_role("button", name="Take the proposed chapters").click()
    form = page.get_by_role("form", name="Chapters")
    expect(form.get_by_label("Title of chapter 2")).to_have_value("Chapter 2")
    form.get_by_label("Title of chapter 1").fill("The harbour")
    form.get_by_role("button", name="Save chapters").click()
    expect(form).to_have_count(0)
    expect(panel(page).get_by_role("listitem").first).to_contain_text("0:00 The harbour")
    answer = console.service.request("GET", path).json()
    starts = [chapter["start"] for chapter in answer["proposed"]]
    assert [chapter["start"] for chapter in answer["chapters"]] == starts
    assert serious(page) == []


def test_who_was_slower_with_chapters_decides(console: Console) -> None:
    video = console.service.create(title="Divided twice")
    path = f"/v1/videos/{video['videoId']}/chapters"
    page = console.open(f"videos/{video['videoId']}?tab=captions")
    page.get_by_role("button", name="Add chapters").click()
    form = page.get_by_role("form", name="Chapters")
    form.get_by_label("Title of chapter 1").fill("Mine")
    theirs = {"chapters": [{"start": 0, "title": "Theirs"}]}
    assert console.service.request("PUT", path, json=theirs).status_code == 201
    form.get_by_role("button", name="Save chapters").click()
    expect(form.get_by_role("alert")).to_contain_text("Changed meanwhile")
    form.get_by_role("button", name="Keep yours").click()
    expect(panel(page).get_by_role("listitem")).to_contain_text("Mine")
    assert console.service.request("GET", path).json()["chapters"] == [{"start": 0, "title": "Mine"}]


def test_everybody_who_sees_the_film_gets_both_and_may_write_neither(console: Console, film: dict[str, Any]) -> None:
    path = f"/v1/videos/{film['videoId']}"
    service = console.service
    kind = {"Content-Type": "application/x-subrip"}
    assert service.request("PUT", f"{path}/captions/de", content=SUBRIP, headers=kind).status_code == 201
    chapters = {"chapters": [{"start": 0, "title": "The harbour"}, {"start": 5000, "title": "The sea"}]}
    assert service.request("PUT", f"{path}/chapters", json=chapters).status_code == 201
    page = opened(console, film, "bob")
    expect(panel(page)).to_contain_text("German")
    expect(panel(page)).to_contain_text("0:05 The sea")
    expect(panel(page).get_by_role("button", name=re.compile("Add|Edit|Replace|Remove"))).to_have_count(0)
    page.get_by_label("Captions", exact=True).select_option("German")
    eventually(lambda: len(page.evaluate(CUES, "de")), lambda count: count == 2)
    panel(page).get_by_role("button", name="Go there: 0:05, The sea").click()
    page.wait_for_function(IS_AT, arg=5)
