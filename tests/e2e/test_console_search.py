"""The console's search, by words and by spoken sentences."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser import HOSTILE, IS_AT, Console, require_good_layout, ride
from tests.e2e.conftest import Service
from tests.e2e.locators import field, link
from tests.polling import eventually

CAPTIONS = "WEBVTT\n\n00:01.000 --> 00:03.000\nWe begin\n\n00:05.000 --> 00:08.000\nThe {word} sails at dawn\n"


def await_hits(service: Service, word: str, count: int) -> None:
    """Wait until the index contains `count` videos of alice with a word."""
    params = {"q": f'"{word}"', "userId": "alice"}

    def count_hits() -> int:
        reply = service.request("GET", "/v1/search", params=params)
        return int(reply.json()["total"]) if reply.status_code == 200 else -1

    eventually(count_hits, lambda total: total == count)


def tally(page: Page) -> Locator:
    """Locate the displayed number of results."""
    return page.locator(".tally")


def query(page: Page) -> Locator:
    """Locate the search box of the header."""
    return page.get_by_role("combobox", name="Search videos", exact=True)


def typed(page: Page, text: str) -> None:
    """Type a query on the search screen."""
    query(page).fill(text)


def suggest(page: Page, text: str) -> bool:
    """Type a query outside the search screen. Return whether the index of the instance that responds is up to date."""
    typed(page, "")
    with page.expect_response("**/v1/search?*") as response:
        typed(page, text)
    return response.value.status == 200 and bool(response.value.json()["complete"])


def test_video_is_found_by_its_captions_and_plays_from_the_quote(
    console: Console, service: Service, unique: str
) -> None:
    video = service.create(title="A ride", visibility="public")
    service.upload(video, ride())
    path = f"/v1/videos/{video['videoId']}"
    eventually(lambda: service.request("GET", path).json()["status"], lambda status: status == "ready")
    body = CAPTIONS.format(word=unique)
    put = service.request("PUT", f"{path}/captions/en", content=body, headers={"Content-Type": "text/vtt"})
    assert put.status_code == 201, put.text
    await_hits(service, unique, 1)
    page = console.open()
    page.keyboard.press("/")
    eventually(lambda: suggest(page, f'"{unique} sails" dawn'))
    expect(page.get_by_role("listbox", name="Suggestions", exact=True)).to_contain_text("sails at dawn")
    query(page).press("Enter")
    result = page.get_by_role("listitem").filter(has_text="sails at dawn")
    expect(result.locator("q mark").first).to_contain_text(unique)
    link(result, re.compile("^0:05 .*$")).click()
    page.wait_for_function(IS_AT, arg=5)
    expect(field(page, "Captions")).to_have_value("en")


def test_facets_narrow_the_results_despite_hostile_titles(console: Console, service: Service, unique: str) -> None:
    hostile = f"\U0001f3ac {HOSTILE[:80]} {unique} {'W' * 150}"
    for number, title in enumerate(("Part one of", "Part two of", hostile)):
        service.create(title=title if number == 2 else f"{title} {unique}", tags=["odd" if number % 2 else "even"])
    await_hits(service, unique, 3)
    page = console.open(f"search?q={unique}")
    expect(tally(page)).to_contain_text("3 videos")
    result = page.locator(".result").filter(has_text="onerror")
    expect(result.locator("h2 mark")).to_have_text(unique)
    expect(result.locator("h2")).to_have_text(hostile)
    require_good_layout(page, ("dark", 3840), ("light", 360))

    facets = page.get_by_role("navigation", name="Filters", exact=True)
    link(facets, "even").click()
    expect(tally(page)).to_contain_text("2 videos")
    assert "tag=even" in page.url
    page.reload()
    expect(query(page)).to_have_value(unique)
    expect(tally(page)).to_contain_text("2 videos")
    link(facets, "Remove filter: even").click()
    expect(tally(page)).to_contain_text("3 videos")
    typed(page, f"{unique} zzzzzzzz")
    expect(page.get_by_role("main")).to_contain_text("No videos match.")
    typed(page, "-only")
    expect(page.get_by_role("main").get_by_role("alert")).to_be_visible()
