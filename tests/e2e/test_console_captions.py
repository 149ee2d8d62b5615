"""The console: owners upload captions and chapters, and all viewers get them in the player."""

import re
from typing import Any

from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.e2e.browser import IS_AT, Console, HeldRequests, announced, disable_frames, require_good_layout, ride
from tests.e2e.locators import button, dialog, field, form, panel
from tests.polling import eventually

SUBRIP = (
    b"1\n00:00:01,000 --> 00:00:04,000\nWe ride <i>out</i>\n\n2\n00:00:05,000 --> 00:00:09,000\nto the sea & back\n"
)
FAULTY = b"WEBVTT\n\n00:01.000 --> 00:02.000\nGood\n\n00:09.000 --> 00:04.000\nBackwards\n"
SHOWS = """([language, expected]) => {
  const tracks = [...document.querySelector("media-controller video").textTracks];
  const shown = tracks.filter((track) => track.language === language && track.mode === "showing");
  const cues = shown.flatMap((track) => [...(track.cues ?? [])].map((cue) => [cue.startTime, cue.text]));
  return JSON.stringify(cues) === JSON.stringify(expected);
}"""
"""Script that returns whether the player shows these cues in a language. A cue is a start time in seconds, and a
text."""
HAS_PICTURE = "() => document.querySelector('media-controller video').readyState > 1"
CUES = [[1, "We ride <i>out</i>"], [5, "to the sea &amp; back"]]
NEW_ZEALAND = "the captions in English (New Zealand)"


def opened(console: Console, video: dict[str, Any], user: str = "alice") -> Page:
    """Open the captions and chapters of a video that can be played."""
    page = console.open(f"videos/{video['videoId']}?tab=captions", user)
    expect(field(page, "Quality")).to_be_visible()
    return page


def texts(page: Page) -> Locator:
    """Locate the panel of captions and chapters."""
    return panel(page, "Captions and chapters")


def send(page: Page, name: str, content: bytes, language: str = "") -> Locator:
    """Add captions from a file, and return the form."""
    button(page, "Add captions").click()
    add_dialog = dialog(page, "Add captions")
    field(add_dialog, "File").set_input_files(FilePayload(name=name, mimeType="", buffer=content))
    if language:
        field(add_dialog, "Language").fill(language)
    button(add_dialog, "Save").click()
    return add_dialog


def test_captions_and_chapters_of_the_owner_are_shown_to_all_viewers(console: Console) -> None:
    service = console.service
    video = service.create(title="A ride with words", visibility="public")
    path = f"/v1/videos/{video['videoId']}"
    service.upload(video, ride())
    eventually(lambda: service.request("GET", path).json()["status"], lambda status: status == "ready")
    eventually(lambda: service.request("GET", f"{path}/chapters").status_code, lambda status: status == 200)
    page = opened(console, video)

    expect(texts(page)).to_contain_text("No captions yet.")
    expect(send(page, "ride.en-NZ.srt", SUBRIP)).to_have_count(0)  # the name of the file contains the language
    announced(page, "Saved.")
    row = texts(page).get_by_role("listitem").filter(has_text="English (New Zealand)")
    expect(row).to_contain_text("2 cues")
    field(page, "Captions").select_option("English (New Zealand)")
    page.wait_for_function(SHOWS, arg=["en-NZ", CUES])
    field(page, "Quality").select_option("source")
    expect(page.locator("media-controller video")).to_have_attribute("src", re.compile("-sources-"))
    page.wait_for_function(HAS_PICTURE)
    page.wait_for_function(SHOWS, arg=["en-NZ", CUES])

    button(page, "Use proposed chapters").click()
    chapters = form(page, "Chapters")
    expect(field(chapters, "Title of chapter 2")).to_have_value("Chapter 2")
    field(chapters, "Title of chapter 1").fill("The harbour <1>")
    button(chapters, "Save chapters").click()
    expect(chapters).to_have_count(0)
    expect(texts(page)).to_contain_text("0:00 The harbour <1>")
    stored_chapters = service.request("GET", f"{path}/chapters").json()
    starts = [chapter["start"] for chapter in stored_chapters["proposed"]]
    assert [chapter["start"] for chapter in stored_chapters["chapters"]] == starts
    added = len(starts) + 1
    assert 6500 not in starts

    button(page, "Edit chapters").click()
    button(chapters, "Add chapter").click()
    start = field(chapters, f"Start of chapter {added}")
    start.fill("0:75")
    field(chapters, f"Title of chapter {added}").fill("Out at sea")
    button(chapters, "Save chapters").click()
    expect(chapters).to_contain_text("Enter a time such as 5:30")
    start.fill("1:00")  # after the end of the video, which only the service knows
    button(chapters, "Save chapters").click()
    expect(start).to_have_accessible_description(re.compile("source video"))
    start.fill("0:06.5")
    button(chapters, "Save chapters").click()
    expect(chapters).to_have_count(0)
    expect(texts(page)).to_contain_text("0:06.5 Out at sea")
    chapter_button = button(page.get_by_role("group"), "0:06.5 Out at sea")
    chapter_button.press("Enter")
    page.wait_for_function(IS_AT, arg=6.5)
    expect(chapter_button).to_have_attribute("aria-current", "true")
    button(page, "Edit chapters").click()
    button(chapters, "Add chapter at playback position").click()
    following = 2 + sum(start < 6500 for start in starts)
    expect(field(chapters, f"Start of chapter {following}")).to_have_value("0:06.5")
    require_good_layout(page)

    viewer_page = opened(console, video, "bob")
    expect(texts(viewer_page)).to_contain_text("English (New Zealand)")
    expect(texts(viewer_page)).to_contain_text("0:06.5 Out at sea")
    expect(button(texts(viewer_page), re.compile("^(Add|Edit|Replace|Remove)( .*)?$"))).to_have_count(0)
    field(viewer_page, "Captions").select_option("English (New Zealand)")
    viewer_page.wait_for_function(SHOWS, arg=["en-NZ", CUES])
    button(texts(viewer_page), "Play from here: 0:06.5, Out at sea").click()
    viewer_page.wait_for_function(IS_AT, arg=6.5)
    viewer_page.close()

    polls = HeldRequests(page, re.compile("/v1/changes"))
    polls.wait_for(1)
    feed = f"/v1/changes?userId={video['userId']}&after="
    position = service.request("GET", f"{feed}now").json()["nextCursor"]
    german = f"{path}/captions/de"
    created = service.request("PUT", german, content=SUBRIP, headers={"Content-Type": "application/x-subrip"})
    assert created.status_code == 201

    def next_languages() -> list[str | None]:
        nonlocal position
        changes = service.request("GET", f"{feed}{position}").json()
        position = changes["nextCursor"]
        return [change.get("language") for change in changes["items"]]

    eventually(next_languages, lambda languages: "de" in languages)
    button(page, f"Remove {NEW_ZEALAND}").click()
    question = dialog(page, f"Remove {NEW_ZEALAND}?")
    expect(question).to_be_visible()
    polls.release()
    expect(texts(page)).to_contain_text("German")  # the list has been read again, and the dialog is still open
    button(question, "Remove").click()
    expect(row).to_have_count(0)
    assert service.request("DELETE", german, headers={"If-Match": created.headers["etag"]}).status_code == 204
    expect(texts(page)).to_contain_text("No captions yet.")
    expect(field(page, "Captions")).to_have_count(0)


def test_form_has_the_focus_before_the_next_frame(console: Console) -> None:
    """A focus change after the next frame would move typed text into another field."""
    video = console.service.create(title="For a fast typist")
    page = console.open(f"videos/{video['videoId']}")
    expect(button(page, "Edit")).to_be_visible()
    disable_frames(page)
    button(page, "Edit").dispatch_event("click")
    expect(field(page, "Title")).to_be_focused()
