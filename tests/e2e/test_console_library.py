"""The console's library: what it shows of videos, how they are chosen, and how somebody moves among them."""

import gzip
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import pytest
from playwright.sync_api import Dialog, Locator, Page, Response, expect

from tests.e2e.browser import Console, seek, serious
from tests.e2e.conftest import Service
from tests.waiting import eventually

MINUTE = 60_000
BATCH = 100
FIRST_SCREEN = 150_000
"""Bytes, as they are transferred."""

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
"""Titles that try to run something, to turn what stands beside them around, or to be larger than their place."""

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
    """The videos that are shown."""
    return page.get_by_role("list", name="Videos").locator("a.card")


def titles(page: Page) -> list[str]:
    """Their titles, in their order."""
    return page.locator(".library a .title").all_text_contents()


def create(service: Service, videos: Sequence[Mapping[str, Any]], user: str = "alice") -> None:
    """Create many videos, the first of them first."""
    for start in range(0, len(videos), BATCH):
        operations = [{"op": "create", "video": video} for video in videos[start : start + BATCH]]
        reply = service.request("POST", "/v1/videos/batch", user, json={"operations": operations})
        assert (reply.status_code, reply.json()["failed"]) == (200, 0), reply.text


def publish(service: Service, **fields: Any) -> dict[str, Any]:
    """A video of alice's that everybody sees."""
    video = service.create(visibility="public", **fields)
    for status in ("processing", "ready"):
        reply = service.request("PATCH", f"/v1/videos/{video['videoId']}", json={"status": status})
        assert reply.status_code == 200, reply.text
    return video


def at(page: Page, query: str) -> None:
    """Wait until the address is that of a choice."""
    expect(page).to_have_url(re.compile(re.escape(f"#/{query}") + "$"))


def asked(page: Page, query: str) -> AbstractContextManager[object]:
    """Wait at the end until the page has the first page of such a list: the list from before is gone then."""
    return page.expect_response(
        lambda answer: "/v1/videos?" in answer.url and "cursor=" not in answer.url and query in answer.url
    )


def test_a_card_says_what_is_known_of_a_video_and_who_sees_it(console: Console, unique: str) -> None:
    console.service.create(title="Not sent yet", category=unique)
    seen = publish(console.service, title="Regatta", category=unique, duration=61 * MINUTE + 5000)
    console.service.request("POST", f"/v1/videos/{seen['videoId']}/views", "bob")
    hidden = publish(console.service, title="Rehearsal", category=unique)
    console.service.request("PATCH", f"/v1/videos/{hidden['videoId']}", json={"visibility": "private"})
    page = console.open(f"?userId=me&category={unique}")
    expect(cards(page).filter(has_text="Not sent yet")).to_contain_text("uploaded")
    expect(cards(page).filter(has_text="Rehearsal")).to_contain_text("private")
    expect(cards(page).filter(has_text="Regatta")).to_contain_text("1:01:05")
    expect(cards(page).filter(has_text="Regatta")).to_contain_text("1 view")
    expect(cards(page).filter(has_text="Regatta").locator(".status")).to_have_count(0)
    expect(page.get_by_text("3 videos", exact=True)).to_be_visible()


def test_pictures_come_from_the_deployment_alone(console: Console, unique: str) -> None:
    picture = {"url": "https://pictures.example/poster.jpg"}
    console.service.create(title="With a picture elsewhere", category=unique, thumbnails={"poster": picture})
    page = console.open(f"?userId=me&category={unique}")
    expect(cards(page)).to_contain_text("With a picture elsewhere")
    expect(cards(page).locator("img")).to_have_count(0)


def test_every_choice_has_an_address_to_link_reload_and_go_back_to(console: Console, unique: str) -> None:
    create(console.service, [{"title": "Short", "category": unique, "duration": MINUTE - 1}])
    create(console.service, [{"title": "Long", "category": unique, "duration": 90_000, "format": "webm"}])
    page = console.open()
    page.get_by_text("Filters").click()
    page.get_by_label("Category").fill(unique)
    page.get_by_label("Category").press("Enter")
    at(page, f"?userId=me&category={unique}")
    expect(cards(page)).to_have_count(2)
    newest_first = titles(page)
    page.get_by_label("Order").select_option("Oldest first")
    at(page, f"?userId=me&category={unique}&order=asc")
    page.get_by_label("At least, minutes").fill("1.5")
    page.get_by_label("Format").fill("webm")
    page.get_by_label("Format").blur()
    at(page, f"?userId=me&category={unique}&order=asc&minDuration=90000&format=webm")
    expect(cards(page)).to_contain_text(["Long"])
    page.reload()
    expect(cards(page)).to_contain_text(["Long"])
    expect(page.get_by_label("At least, minutes")).to_have_value("1.5")
    page.go_back()
    page.go_back()
    expect(page.get_by_label("At least, minutes")).to_have_value("")
    expect(page.get_by_label("Order")).to_have_value("asc")
    expect(cards(page)).to_contain_text(newest_first[::-1])
    page.get_by_label("Created before").fill("2001-02-03")
    page.get_by_label("Created before").blur()
    expect(page.get_by_text("No video here fits all the filters.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Created before")).to_have_value("2001-02-03")
    page.get_by_role("link", name="Clear the filters").first.click()
    at(page, "?userId=me&order=asc")


def test_others_find_what_is_published_by_its_tag_region_category_and_owner(console: Console, unique: str) -> None:
    video = publish(console.service, title=f"Found {unique}", category=unique, tags=[unique])
    release = {"titles": [{"title": "Found"}]}
    console.service.request("PUT", f"/v1/videos/{video['videoId']}/releases/NZ", json=release)

    def listed(selector: str) -> bool:
        return unique in console.service.request("GET", f"/v1/videos?{selector}", "bob").text

    eventually(lambda: listed(f"tag={unique}") and listed("region=NZ"))  # these follow a moment later
    page = console.open("?show=tag", "bob")
    found = cards(page).filter(has_text=unique)
    expect(page.get_by_label("Show").get_by_role("option", name="In a status")).to_have_count(0)
    page.get_by_label("Tag", exact=True).fill(unique)
    page.get_by_label("Tag", exact=True).press("Enter")
    at(page, f"?tag={unique}")
    expect(found).to_have_count(1)
    page.get_by_label("Show").select_option("In a category")
    at(page, "?show=category")
    page.get_by_label("Category").fill(unique)
    page.get_by_label("Category").press("Enter")
    at(page, f"?category={unique}")
    expect(found).to_have_count(1)
    page.get_by_label("Show").select_option("Of one user")
    page.get_by_label("User").fill("alice")
    with asked(page, "userId=alice"):
        page.get_by_label("User").press("Enter")
    at(page, "?userId=alice")
    seek(page, unique)
    expect(found).to_have_count(1)
    with asked(page, "limit="):
        page.get_by_label("Show").select_option("everyone")
    at(page, "?show=everyone")
    seek(page, unique)
    expect(found).to_have_count(1)
    page.get_by_label("Show").select_option("Released in a region")
    page.get_by_label("Region").fill("nz")
    with asked(page, "region=nz"):
        page.get_by_label("Region").press("Enter")
    at(page, "?region=nz")
    expect(page.get_by_text("New Zealand")).to_be_visible()
    seek(page, unique)
    expect(found).to_have_count(1)


def test_admins_list_everybodys_videos_by_status(console: Console, unique: str) -> None:
    create(console.service, [{"title": "Waiting", "category": unique}])
    page = console.open("?show=status", "admin")
    page.get_by_label("Show").select_option("In a status")
    page.get_by_label("Status").select_option("uploaded")
    page.get_by_text("Filters").click()
    page.get_by_label("Category").fill(unique)
    page.get_by_label("Category").press("Enter")
    at(page, f"?status=uploaded&category={unique}")
    expect(cards(page)).to_contain_text(["Waiting"])


def test_what_is_viewed_most_is_shown_as_the_service_counts_it(console: Console, unique: str) -> None:
    page = console.open("?show=top")
    with page.expect_response(re.compile(r"/v1/top\?window=week&")) as asked:
        page.get_by_label("Viewed in").select_option("The last week")
    at(page, "?show=top&window=week")
    expect(cards(page).locator(".title")).to_have_text([item["title"] for item in asked.value.json()["items"]])
    page.get_by_label("First").select_option("Rising most")
    page.get_by_label("Category").fill(unique)
    page.get_by_label("Category").press("Enter")
    at(page, f"?show=top&window=week&sort=-rise&category={unique}")
    expect(page.get_by_text("Nothing is counted here yet.")).to_be_visible()


def test_what_the_service_refuses_is_shown_where_it_was_chosen(console: Console) -> None:
    page = console.open(f"?userId=me&minDuration={2 * MINUTE}&maxDuration={MINUTE}")
    shortest = page.get_by_label("At least, minutes")
    expect(shortest).to_have_attribute("aria-invalid", "true")
    expect(shortest).to_have_accessible_description("must not be more than `maxDuration`")
    shortest.fill("0.5")
    shortest.press("Enter")
    expect(shortest).not_to_have_attribute("aria-invalid", "true")
    page.get_by_label("Show").select_option("Released in a region")
    page.get_by_label("Region").fill("nowhere")
    page.get_by_label("Region").press("Enter")
    expect(page.get_by_label("Region")).to_have_attribute("aria-invalid", "true")


def test_a_problem_of_no_control_is_shown_in_the_place_of_the_list(console: Console) -> None:
    page = console.open("?status=failed")
    expect(page.get_by_role("alert")).to_contain_text("Only admins can list all videos by status")


def test_an_offline_page_says_so_and_goes_on_afterwards(console: Console, unique: str) -> None:
    create(console.service, [{"title": "Still there", "category": unique}])
    page = console.open(f"?userId=me&category={unique}")
    expect(cards(page)).to_contain_text(["Still there"])
    console.context.set_offline(True)
    page.get_by_label("Order").select_option("Oldest first")
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    console.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(cards(page)).to_contain_text(["Still there"])
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_long_list_goes_on_to_its_end_and_keeps_its_place(console: Console, unique: str) -> None:
    create(console.service, [{"title": f"Part {number}", "category": unique} for number in range(120)])
    page = console.open(f"?userId=me&category={unique}&order=asc")
    to_the_end(page, 120)
    assert sorted(titles(page)) == sorted(f"Part {number}" for number in range(120))
    opened = cards(page).nth(70)
    opened.scroll_into_view_if_needed()
    title, link, place = opened.locator(".title").inner_text(), opened.get_attribute("href"), page.evaluate("scrollY")
    assert place > 0
    opened.click()
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    console.service.request("PATCH", f"/v1/{str(link).removeprefix('#/')}", json={"title": "Renamed"})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.go_back()
    expect(opened).to_contain_text("Renamed")
    expect(opened).to_be_focused()
    assert page.evaluate("scrollY") == place
    assert cards(page).count() == 120
    # The first page may be looked at: what other tests do is among the changes that the console follows.
    assert not [url for url in asked if "cursor=" in url]


def to_the_end(page: Page, number: int) -> None:
    """Scroll until the list ends, which is so long."""
    expect(cards(page).first).to_be_visible()
    while page.locator(".more").count():
        before = cards(page).count()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_function(
            "before => document.querySelectorAll('.library a').length > before || !document.querySelector('.more')",
            arg=before,
        )
    expect(page.get_by_text(f"{number:,} videos", exact=True)).to_be_visible()


def test_a_thousand_hostile_titles_run_nothing_and_break_no_layout(console: Console, unique: str) -> None:
    hostile = [title % number if "%d" in title else title for number in range(50) for title in HOSTILE]
    first, *others = ({"title": title, "category": unique} for title in hostile)
    begun = console.service.create("admin", **first)["createdAt"]
    create(console.service, others, "admin")
    refused = {"op": "create", "video": {"title": "two\nlines"}}
    reply = console.service.request("POST", "/v1/videos/batch", json={"operations": [refused]})
    assert reply.json()["items"][0]["problem"]["errors"][0]["pointer"].endswith("/title")
    console.context.add_init_script(CANARY)
    dialogs: list[str] = []

    def refuse(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    console.context.on("dialog", refuse)
    page = console.open(f"?userId=me&category={unique}&from={begun}", "admin")
    to_the_end(page, len(hostile))
    assert sorted(titles(page)) == sorted(hostile)
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(BROKEN) == []
    assert (page.evaluate("window.ran"), dialogs) == ([], [])


def test_the_first_screen_is_small(console: Console, unique: str) -> None:
    create(console.service, [{"title": f"Part {number}", "category": unique} for number in range(48)])
    page = console.open(f"?userId=me&category={unique}")
    expect(cards(page)).to_have_count(48)
    received: list[Response] = []
    page.on("response", lambda answer: received.append(answer))
    page.reload()
    expect(cards(page)).to_have_count(48)
    sizes = {
        answer.url: len(gzip.compress(answer.body())) if "/console/" in answer.url else len(answer.body())
        for answer in received
    }
    assert any(url.endswith("/app.js") for url in sizes)
    assert any("/v1/videos?" in url for url in sizes)
    assert sum(sizes.values()) < FIRST_SCREEN, sizes


def test_everything_is_done_by_keyboard(console: Console, unique: str) -> None:
    create(console.service, [{"title": f"Part {number}", "category": unique} for number in range(10)])
    page = console.open(f"?userId=me&category={unique}&order=asc")
    expect(cards(page)).to_have_count(10)
    tops = [box["y"] for box in (card.bounding_box() for card in cards(page).all()) if box]
    columns = tops.count(tops[0])
    page.keyboard.press("/")
    expect(page.get_by_label("Show")).to_be_focused()
    page.get_by_label("Category").focus()
    page.keyboard.type("/")
    expect(page.get_by_label("Category")).to_have_value(f"{unique}/")
    page.keyboard.press("Backspace")
    cards(page).first.focus()
    for key, place in [
        ("ArrowRight", 1),
        ("ArrowDown", 1 + columns),
        ("ArrowLeft", columns),
        ("ArrowUp", 0),
        ("ArrowUp", 0),
        ("ArrowLeft", 0),
        ("End", 9),
        ("ArrowRight", 9),
        ("ArrowDown", 9),
        ("Home", 0),
    ]:
        page.keyboard.press(key)
        expect(cards(page).nth(place)).to_be_focused()
    expect(page.locator(".library a[tabindex='0']")).to_have_count(1)
    title = titles(page)[0]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=title)).to_be_visible()


def test_what_becomes_of_a_film_shows_without_a_reload(console: Console, unique: str) -> None:
    video = console.service.create(title="On its way", category=unique)
    page = console.context.new_page()
    page.clock.install()
    page.goto(f"{console.service.base_url}/console/#/?userId=me&category={unique}")
    console.sign_in(page, "alice")
    expect(cards(page)).to_contain_text("uploaded")
    picture = {"url": page.evaluate("document.querySelector('link[rel=icon]').href")}
    changes = {"status": "processing", "thumbnails": {"poster": picture}}
    console.service.request("PATCH", f"/v1/videos/{video['videoId']}", json=changes)
    page.clock.fast_forward(5000)
    expect(cards(page)).to_contain_text("processing")
    expect(cards(page).locator("img")).to_have_js_property("complete", True)
    assert cards(page).locator("img").evaluate("picture => picture.naturalWidth") > 0
    console.service.request("DELETE", f"/v1/videos/{video['videoId']}")
    page.clock.fast_forward(5000)
    expect(cards(page)).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_of_it_stands_in_somebodys_way(console: Console, unique: str, scheme: Literal["light", "dark"]) -> None:
    create(console.service, [{"title": "Shown", "category": unique, "duration": MINUTE}])
    page = console.open(f"?userId=me&category={unique}&minDuration=1")
    page.emulate_media(color_scheme=scheme)
    expect(cards(page)).to_have_count(1)
    assert serious(page) == []
    page.get_by_label("Show").select_option("With a tag")
    expect(page.get_by_text("Say which videos to show.")).to_be_visible()
    assert serious(page) == []
