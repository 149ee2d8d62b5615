"""The console's library: displayed fields, filters and navigation."""

import gzip
import re
from collections.abc import Mapping, Sequence
from typing import Any

from playwright.sync_api import Dialog, Locator, Page, Response, expect

from tests.e2e.browser import Console
from tests.e2e.conftest import Service
from tests.e2e.locators import button, dialog, field, group, heading, link, text
from tests.polling import eventually

MINUTE = 60_000
BATCH = 100
FIRST_SCREEN = 150_000
"""Maximum bytes of the first screen, compressed as transferred."""

RIGHT_TO_LEFT, LEFT_TO_RIGHT, ISOLATE, MARK, TOWER = "\u202e", "\u202d", "\u2067", "\u200f", "\u0301\u0322\u033f\u0489"
HOSTILE = (
    "<script>canary(%d)</script>",
    "</bdi></a><img src=x onerror=canary(%d)>",
    "<svg/onload=canary(%d)>",
    "\"><iframe srcdoc='<script>parent.canary(%d)</script>'>",
    "' autofocus onfocus='canary(%d)",
    "javascript:canary(%d)",
    "${canary(%d)}",
    "{{constructor.constructor('canary(%d)')()}}",
    "<${canary(%d)} />",
    "<style>*{display:none}</style> %d",
    "&lt;script&gt;canary(%d)&lt;/script&gt;",
    f"{RIGHT_TO_LEFT}backwards %d",
    f"{ISOLATE}{LEFT_TO_RIGHT}never ended %d",
    f"{MARK}\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 %d",
    f"{'o' + TOWER * 15} {'e' + TOWER * 15} %d",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f4 %d",
    "\U0001f30a" * 140 + "%d",
    "\ufdfd" * 140 + "%d",
    "W" * 290 + "%d",
    "x",
)
"""Hostile titles: they try to inject markup, reverse neighbouring text or overflow their box."""

CANARY = """
window.ran = [];
window.canary = (number) => window.ran.push(number);
"""

BROKEN = """
() => {
  const broken = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) broken.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const place of document.querySelectorAll(".library li")) {
    const { left, right, top, bottom } = place.getBoundingClientRect();
    const next = place.nextElementSibling?.getBoundingClientRect();
    if (left < 0 || right > width) broken.push(`outside: ${place.textContent}`);
    if (next && (next.top < bottom && next.top !== top || next.top === top && next.left < right)) broken.push(`over the next: ${place.textContent}`);
    for (const part of place.querySelectorAll("a, a > *, .about > *")) {
      const box = part.getBoundingClientRect();
      if (box.left < left - 1 || box.right > right + 1 || box.bottom > bottom + 1) broken.push(`over its edge: ${part.textContent}`);
    }
  }
  return broken;
}
"""


def cards(page: Page) -> Locator:
    """Locate the displayed videos."""
    return page.get_by_role("list", name="Videos", exact=True).locator("a.card")


def titles(page: Page) -> list[str]:
    """Return the displayed titles in order."""
    return page.locator(".library a .title").all_text_contents()


def create(service: Service, videos: Sequence[Mapping[str, Any]], user: str = "alice") -> None:
    """Create many videos in this order."""
    for start in range(0, len(videos), BATCH):
        operations = [{"op": "create", "video": video} for video in videos[start : start + BATCH]]
        reply = service.request("POST", "/v1/videos/batch", user, json={"operations": operations})
        assert (reply.status_code, reply.json()["failed"]) == (200, 0), reply.text


def at(page: Page, query: str) -> None:
    """Wait until the page's URL ends with this query."""
    expect(page).to_have_url(re.compile(re.escape(f"#/{query}") + "$"))


def enter(page: Page, label: str, value: str) -> None:
    """Type a value into a filter, and apply it."""
    field(page, label).fill(value)
    field(page, label).press("Enter")


def test_every_filter_is_in_the_url_for_links_reload_and_back(console: Console, unique: str) -> None:
    create(console.service, [{"title": "Short", "category": unique, "duration": MINUTE - 1}])
    create(console.service, [{"title": "Long", "category": unique, "duration": 90_000, "format": "webm"}])
    page = console.open()
    text(page, "Filters").click()
    enter(page, "Category", unique)
    at(page, f"?userId=me&category={unique}")
    expect(cards(page)).to_have_count(2)
    newest_first = titles(page)
    field(page, "Sort by").select_option("Oldest first")
    at(page, f"?userId=me&category={unique}&order=asc")
    enter(page, "Minimum minutes", "1.5")
    at(page, f"?userId=me&category={unique}&order=asc&minDuration=90000")
    field(page, "Format").fill("webm")
    field(page, "Format").blur()
    at(page, f"?userId=me&category={unique}&order=asc&minDuration=90000&format=webm")
    expect(cards(page)).to_contain_text(["Long"])
    page.reload()
    expect(cards(page)).to_contain_text(["Long"])
    expect(field(page, "Minimum minutes")).to_have_value("1.5")
    page.go_back()
    page.go_back()
    expect(field(page, "Minimum minutes")).to_have_value("")
    expect(field(page, "Sort by")).to_have_value("createdAt-asc")
    expect(cards(page)).to_contain_text(newest_first[::-1])
    link(page, "Clear filters").first.click()
    at(page, "?userId=me&order=asc")


def test_long_list_loads_to_its_end_and_keeps_its_scroll_position(console: Console, unique: str) -> None:
    create(console.service, [{"title": f"Part {number}", "category": unique} for number in range(120)])
    page = console.open(f"?userId=me&category={unique}&order=asc")
    scroll_to_end(page, 120)
    assert sorted(titles(page)) == sorted(f"Part {number}" for number in range(120))
    opened = cards(page).nth(70)
    opened.scroll_into_view_if_needed()
    title, address = opened.locator(".title").inner_text(), str(opened.get_attribute("href"))
    opened.focus()
    # The page stores the offset at the scroll event, which precedes the next frame.
    scroll_offset = page.evaluate("new Promise((done) => requestAnimationFrame(() => done(scrollY)))")
    assert scroll_offset > 0
    opened.press("Enter")
    expect(heading(page, title)).to_be_visible()
    console.service.request("PATCH", f"/v1/{address.removeprefix('#/')}", json={"title": "Renamed"})
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.go_back()
    expect(opened).to_contain_text("Renamed")
    expect(opened).to_be_focused()
    page.wait_for_function("place => scrollY === place", arg=scroll_offset)
    assert cards(page).count() == 120
    # The list may read its first page again, because it receives changes by other tests.
    assert not [url for url in requests if "cursor=" in url]


def scroll_to_end(page: Page, number: int) -> None:
    """Scroll to the end of a list of `number` videos."""
    expect(cards(page).first).to_be_visible()
    while page.locator(".more").count():
        before = cards(page).count()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_function(
            "before => document.querySelectorAll('.library a').length > before || !document.querySelector('.more')",
            arg=before,
        )
    expect(text(page, f"{number:,} videos")).to_be_visible()


def test_hundred_hostile_titles_run_no_script_and_keep_the_layout(console: Console, unique: str) -> None:
    hostile = [title % number if "%d" in title else title for number in range(5) for title in HOSTILE]
    create(console.service, [{"title": title, "category": unique} for title in hostile])
    refused = {"op": "create", "video": {"title": "two\nlines"}}
    reply = console.service.request("POST", "/v1/videos/batch", json={"operations": [refused]})
    assert reply.json()["items"][0]["problem"]["errors"][0]["pointer"].endswith("/title")
    console.context.add_init_script(CANARY)
    dialogs: list[str] = []

    def refuse(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    console.context.on("dialog", refuse)
    page = console.open(f"?userId=me&category={unique}")
    scroll_to_end(page, len(hostile))
    assert sorted(titles(page)) == sorted(hostile)
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(BROKEN) == []
    assert (page.evaluate("window.ran"), dialogs) == ([], [])


def test_first_screen_is_small_and_usable_by_keyboard(console: Console, unique: str) -> None:
    create(console.service, [{"title": f"Part {number}", "category": unique} for number in range(48)])
    page = console.open(f"?userId=me&category={unique}")
    expect(cards(page)).to_have_count(48)
    address = page.url
    page.goto("about:blank")  # otherwise a late response to the old page, whose body is discarded, could be received
    received: list[Response] = []
    page.on("response", lambda response: received.append(response))
    page.goto(address)
    expect(cards(page)).to_have_count(48)
    sizes = {
        response.url: len(gzip.compress(response.body())) if "/console/" in response.url else len(response.body())
        for response in tuple(received)  # a later response is not part of the first screen
    }
    assert any(url.endswith("/app.js") for url in sizes)
    assert any("/v1/videos?" in url for url in sizes)
    assert sum(sizes.values()) < FIRST_SCREEN, sizes

    tops = [box["y"] for box in (card.bounding_box() for card in cards(page).all()) if box]
    columns = tops.count(tops[0])
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search videos", exact=True)).to_be_focused()
    field(page, "Category").focus()
    page.keyboard.type("/")
    expect(field(page, "Category")).to_have_value(f"{unique}/")
    page.keyboard.press("Backspace")
    cards(page).first.focus()
    for key, expected_index in [
        ("ArrowRight", 1),
        ("ArrowDown", 1 + columns),
        ("ArrowUp", 1),
        ("End", 47),
        ("Home", 0),
    ]:
        page.keyboard.press(key)
        expect(cards(page).nth(expected_index)).to_be_focused()
    expect(page.locator(".library a[tabindex='0']")).to_have_count(1)
    title = titles(page)[0]
    page.keyboard.press("Enter")
    expect(heading(page, title)).to_be_visible()


def test_selected_videos_are_edited_together_and_reverted(console: Console, unique: str) -> None:
    create(console.service, [{"title": f"Part {number}", "category": unique, "tags": ["old"]} for number in range(3)])
    page = console.open(f"?userId=me&category={unique}")
    button(page, "Table").click()
    for number in (0, 2):
        field(page, f"Select Part {number}").check()
    button(group(page, "Selected videos"), "Edit …").click()
    editing = dialog(page, "Edit 2 videos")
    field(editing, "Visibility").select_option("Public")
    field(editing, "Add tags").fill("new")
    button(editing, "Save").click()
    expect(editing.get_by_role("status")).to_have_text("2 of 2 videos: 2 changed, 0 failed.")
    expect(page.get_by_role("row").filter(has_text="Public")).to_have_count(2)
    undo = link(editing, "Undo")
    changeset = str(undo.get_attribute("href")).removeprefix("#/changesets/")

    def count_entries() -> int:
        entries = console.service.request("GET", f"/v1/changesets/{changeset}").json()
        return len(entries.get("items", ()))  # 404 until the first entry is stored

    eventually(count_entries, lambda count: count == 2)
    undo.click()
    button(page, "Preview revert").click()
    button(page, "Revert now").click()
    expect(heading(page, "Reverted")).to_be_visible()
    listed = console.service.request("GET", "/v1/videos", params={"userId": "alice", "category": unique}).json()[
        "items"
    ]
    assert {video["visibility"] for video in listed} == {"private"}


def test_library_shows_a_changed_status_without_a_reload(console: Console, unique: str) -> None:
    video = console.service.create(title="On its way", category=unique)
    console.context.clock.install()
    page = console.open(f"?userId=me&category={unique}")
    expect(cards(page)).to_contain_text("Uploaded")
    picture = {"url": page.evaluate("document.querySelector('link[rel=icon]').href")}
    changes = {"status": "processing", "thumbnails": {"poster": picture}}
    console.service.request("PATCH", f"/v1/videos/{video['videoId']}", json=changes)
    page.clock.fast_forward(5000)
    expect(cards(page)).to_contain_text("Processing")
    expect(cards(page).locator("img")).to_have_js_property("complete", True)
    assert cards(page).locator("img").evaluate("picture => picture.naturalWidth") > 0
    console.service.request("DELETE", f"/v1/videos/{video['videoId']}")
    page.clock.fast_forward(5000)
    expect(cards(page)).to_have_count(0)
