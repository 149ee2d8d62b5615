"""The console: search, as somebody who remembers a word or a sentence."""

import json
import re

from playwright.sync_api import Page, expect

from tests.e2e.browser import Console, serious
from tests.e2e.conftest import Service
from tests.films import clip
from tests.waiting import eventually

HOSTILE = '<img src=x onerror="window.hit=1">\u202e\u0645\u064a'
CAPTIONS = "WEBVTT\n\n00:01.000 --> 00:03.000\nWe begin\n\n00:05.000 --> 00:08.000\nThe {word} sails at dawn\n"
IS_AT = """(seconds) => {
  const video = document.querySelector("media-controller video");
  return video && Math.abs(video.currentTime - seconds) < 0.2 && !video.seeking;
}"""


def found(service: Service, word: str, count: int) -> None:
    """Wait until the index has so many of alice's videos with a word."""
    asked = {"q": f'"{word}"', "userId": "alice"}

    def look() -> int:
        reply = service.request("GET", "/v1/search", params=asked)
        return int(reply.json()["total"]) if reply.status_code == 200 else -1

    eventually(look, lambda total: total == count)


def typed(page: Page, text: str) -> None:
    """Type a question."""
    page.get_by_role("searchbox").fill(text)


def test_a_film_is_found_by_what_is_said_in_it_and_plays_from_there(
    console: Console, service: Service, unique: str
) -> None:
    video = service.create(title="A ride", visibility="public")
    service.upload(video, clip("bikes").read_bytes())
    path = f"/v1/videos/{video['videoId']}"
    eventually(lambda: service.request("GET", path).json()["status"], lambda status: status == "ready")
    body = CAPTIONS.format(word=unique)
    put = service.request("PUT", f"{path}/captions/en", content=body, headers={"Content-Type": "text/vtt"})
    assert put.status_code == 201, put.text
    found(service, unique, 1)
    page = console.open()
    page.get_by_role("link", name="Search", exact=True).click()
    typed(page, f'"{unique} sails" dawn')
    result = page.get_by_role("listitem").filter(has_text="sails at dawn")
    expect(result.locator("q mark").first).to_contain_text(unique)
    assert serious(page) == []
    result.get_by_role("link", name=re.compile("0:05")).click()
    page.wait_for_function(IS_AT, arg=5)
    expect(page.get_by_label("Captions", exact=True)).to_have_value("en")


def test_facets_lead_to_fewer_and_the_address_keeps_what_was_chosen(
    console: Console, service: Service, unique: str
) -> None:
    for number in range(3):
        service.create(title=f"Part {number} of {unique}", tags=["odd" if number % 2 else "even"], category=unique)
    found(service, unique, 3)
    page = console.open(f"search?q={unique}")
    expect(page.get_by_role("status").filter(has_text="3 videos")).to_be_visible()
    facets = page.get_by_role("navigation", name="Fewer videos")
    facets.get_by_role("link", name="even").click()
    expect(page.get_by_role("status").filter(has_text="2 videos")).to_be_visible()
    assert "tag=even" in page.url
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value(unique)
    expect(page.get_by_role("status").filter(has_text="2 videos")).to_be_visible()
    facets.get_by_role("link", name=re.compile("not even alone")).click()
    expect(page.get_by_role("status").filter(has_text="3 videos")).to_be_visible()
    typed(page, f"{unique} zzzzzzzz")
    expect(page.get_by_text("Nothing fits all of these words.")).to_be_visible()
    typed(page, "-only")
    expect(page.get_by_role("searchbox")).to_have_attribute("aria-invalid", "true")
    assert serious(page) == []


def test_hostile_titles_run_nothing_and_marks_stand_where_they_belong(
    console: Console, service: Service, unique: str
) -> None:
    title = f"🎬 {HOSTILE} {unique} {'W' * 200}"
    service.create(title=title)
    found(service, unique, 1)
    page = console.open(f"search?q={unique}")
    result = page.locator(".result")
    expect(result.locator("h2 mark")).to_have_text(unique)
    expect(result.locator("h2")).to_have_text(title)
    assert json.loads(page.evaluate("JSON.stringify(window.hit ?? null)")) is None
    for width in (3840, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(page) == []
