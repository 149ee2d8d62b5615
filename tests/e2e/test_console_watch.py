"""The console: watching a video, and seeing it made."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.browser import LIMIT_MS, Console, announced, meet_first, serious
from tests.e2e.conftest import Service
from tests.films import clip
from tests.waiting import eventually

RENDITION = re.compile(r"/renditions/.+\.mp4")
"""A version that the transcoder made, in a URL."""
SOURCE = re.compile(r"-sources-")
"""A film as it was uploaded, in a URL."""
PLAYED = """(video, [seconds, patience]) => new Promise((done, fail) => {
  const look = () => !video.paused && video.currentTime > seconds && done(video.currentTime);
  video.addEventListener("timeupdate", look);
  setTimeout(() => fail(new Error(`it is at ${video.currentTime}: ${video.error?.message}`)), patience);
  look();
})"""
NOTE_CHANGE = """(video) => {
  const { src } = video;
  video.addEventListener("timeupdate", () => { if (video.src === src) window.left = video.currentTime; });
  video.addEventListener("seeked", () => { window.wentOn = video.currentTime; }, { once: true });
}"""
"""Notes where a film leaves the file that it has now, and where it goes on: it plays while the test asks."""
HAS_CUES = "() => [...document.querySelector('media-controller video').textTracks].some(({ cues }) => cues?.length)"
"""Whether the player has the pictures of the storyboard: it shows none to somebody who points at it before."""
LOADED = "(image) => image.decode()"


@pytest.fixture(scope="module")
def film(service: Service) -> dict[str, Any]:
    """A public video of alice's, ten seconds long, all of whose jobs are done."""
    video = service.create(title="A ride through the city", visibility="public")
    service.upload(video, clip("bikes").read_bytes())
    path = f"/v1/videos/{video['videoId']}"
    eventually(lambda: service.request("GET", path).json()["status"], lambda status: status == "ready")
    eventually(
        lambda: [job["state"] for job in service.request("GET", f"{path}/jobs").json()["items"]],
        lambda states: set(states) == {"done"},
    )
    return video


def player(page: Page) -> Locator:
    """The video element, once there is one."""
    return page.locator("media-controller video")


def play(page: Page, seconds: float = 1) -> float:
    """Play until a time, as people do; where it is then."""
    page.get_by_role("button", name="play", exact=True).click()
    return played(page, seconds)


def played(page: Page, seconds: float) -> float:
    """Wait until it has played to a time; where it is then."""
    return float(player(page).evaluate(PLAYED, [seconds, LIMIT_MS]))


def job(page: Page, name: str) -> Locator:
    """A job in the list of what is made."""
    return page.get_by_role("listitem").filter(has_text=name)


def test_a_film_is_watched_while_it_is_made(console: Console) -> None:
    video = console.service.create(title="To be made")
    page = console.open(f"videos/{video['videoId']}")
    expect(page.get_by_text("No film has arrived.")).to_be_visible()
    expect(page.get_by_role("link", name="Upload a film")).to_have_attribute(
        "href", f"#/upload?video={video['videoId']}"
    )
    console.service.upload(video, clip("bikes").read_bytes())
    expect(job(page, "Looking at the film")).to_be_visible()
    for name in ("Looking at the film", "Poster", "Storyboard", "Version in 240p"):
        expect(job(page, name)).to_contain_text("done")
    expect(page.locator(".facts")).to_contain_text("ready")
    page.locator("media-poster-image img").evaluate(LOADED)
    expect(page.get_by_text("Nobody else can play it now. The video is private.")).to_be_visible()
    expect(player(page)).to_have_attribute("src", RENDITION)
    assert play(page) > 1
    assert page.evaluate("performance.getEntriesByType('navigation')[0].type") == "navigate"


def test_another_quality_goes_on_where_the_first_was(console: Console, film: dict[str, Any]) -> None:
    page = console.open(f"videos/{film['videoId']}")
    expect(player(page)).to_have_attribute("src", RENDITION)
    player(page).evaluate(NOTE_CHANGE)
    before = play(page)
    page.get_by_label("Quality").select_option("source")
    expect(player(page)).to_have_attribute("src", SOURCE)
    assert played(page, before) > before
    assert -0.1 < page.evaluate("window.wentOn - window.left") < 5


def test_the_scrubber_shows_pictures_of_the_storyboard(console: Console, film: dict[str, Any]) -> None:
    page = console.open(f"videos/{film['videoId']}", "bob")
    scrubber = page.locator("media-time-range")
    expect(scrubber).to_have_attribute("mediaduration", re.compile(r"^10(\.|$)"))
    page.wait_for_function(HAS_CUES)
    box = scrubber.bounding_box()
    assert box is not None
    picture = scrubber.locator("media-preview-thumbnail")
    for part in (0.25, 0.75):
        scrubber.hover(position={"x": box["width"] * part, "y": box["height"] / 2})
        expect(picture).to_be_visible()
        expect(picture).to_have_attribute("mediapreviewimage", re.compile(r"storyboard\.jpg#xywh=\d+,0,160,68$"))
    picture.locator("img").evaluate(LOADED)


def test_pictures_of_elsewhere_are_not_asked_for(console: Console, film: dict[str, Any]) -> None:
    def elsewhere(route: Route) -> None:
        """Their owner may say any address."""
        answer = route.fetch()
        pictures = {"poster": {"url": "https://elsewhere.example/poster.jpg"}}
        pictures["storyboard.vtt"] = {"url": "https://elsewhere.example/storyboard.vtt"}
        route.fulfill(response=answer, body=json.dumps(answer.json() | {"thumbnails": pictures}))

    def sheets(route: Route) -> None:
        """And so may a storyboard."""
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("storyboard.jpg", "https://elsewhere.example/a.jpg"))

    page = console.open("nowhere")
    page.route(f"**/v1/videos/{film['videoId']}", elsewhere)
    page.route("**/storyboard.vtt*", sheets)
    with page.expect_response("**/storyboard.vtt*"):  # the one that the service itself says
        page.goto(f"{console.service.base_url}/console/#/videos/{film['videoId']}")
    expect(page.get_by_text("4 jobs, all done")).to_be_visible()
    page.locator("media-time-range").hover()
    expect(page.locator("media-poster-image")).to_have_count(0)  # and `console` knows who was asked


def test_an_address_that_has_ended_is_renewed(console: Console, film: dict[str, Any]) -> None:
    page = console.open("nowhere")
    refused: list[str] = []
    held: list[Route] = []

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        route.fulfill(status=403, body="<Error><Code>AccessDenied</Code></Error>", content_type="application/xml")

    meet_first(page, RENDITION, refuse)
    page.route("**/playback", lambda route: held.append(route) if refused else route.continue_())
    with page.expect_request(lambda request: bool(refused) and request.url.endswith("/playback")):
        page.goto(f"{console.service.base_url}/console/#/videos/{film['videoId']}")
    page.get_by_role("button", name="play", exact=True).click()  # while there is nothing to play yet
    (renewal,) = held
    renewal.continue_()
    assert played(page, 1) > 1


def test_what_the_browser_cannot_play_is_left_for_what_it_can(console: Console, film: dict[str, Any]) -> None:
    page = console.open("nowhere")
    page.route(RENDITION, lambda route: route.fulfill(status=200, body="not a film", content_type="video/mp4"))
    page.goto(f"{console.service.base_url}/console/#/videos/{film['videoId']}")
    expect(page.get_by_text("This browser does not play 240p")).to_be_visible()
    expect(player(page)).to_have_attribute("src", SOURCE)
    assert play(page) > 1
    page.route(SOURCE, lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("This film does not play here")).to_be_visible()
    page.unroute(SOURCE)
    page.get_by_role("button", name="Try again").click()
    assert play(page) > 1


def test_a_film_that_comes_back_plays_as_before(console: Console) -> None:
    video = console.service.create(title="Comes back")
    console.service.upload(video, clip("bikes").read_bytes())
    page = console.open(f"videos/{video['videoId']}")
    expect(page.get_by_text("4 jobs, all done")).to_be_visible()  # so that nothing changes it from here on
    before = play(page)
    page.get_by_label("Speed").select_option("1.5")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(player(page)).to_have_count(0)
    page.get_by_role("button", name="Restore").click()
    expect(player(page)).to_have_js_property("playbackRate", 1.5)
    assert play(page, before) >= before


def test_a_film_whose_connection_is_lost_goes_on_later(console: Console, film: dict[str, Any]) -> None:
    page = console.open(f"videos/{film['videoId']}")
    before = play(page)
    page.get_by_label("Quality").select_option("source")
    played(page, before)
    page.route(RENDITION, lambda route: route.abort())
    page.route(SOURCE, lambda route: route.abort())
    page.get_by_label("Quality").select_option("240p")
    lost = page.get_by_role("alert").filter(has_text="The film does not come")
    expect(lost).to_be_visible()
    expect(page.get_by_text("This browser does not play")).to_have_count(0)
    page.unroute_all()
    lost.get_by_role("button", name="Try again").click()
    assert played(page, before) >= before
    expect(lost).to_have_count(0)


def test_a_film_of_which_nothing_plays_is_tried_again(console: Console, film: dict[str, Any]) -> None:
    page = console.open(f"videos/{film['videoId']}")
    before = play(page)
    for _ in ("240p", "source"):  # as when each of them is damaged
        player(page).evaluate("""(video) => {
          Object.defineProperty(video, "error", { value: { code: 3 }, configurable: true });
          video.dispatchEvent(new Event("error"));
          delete video.error;
        }""")
    expect(page.get_by_text("This film does not play here")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    assert play(page, before) >= before


def test_a_view_counts_once_for_each_visit_and_its_owner_sees_it(console: Console, film: dict[str, Any]) -> None:
    page = console.open(f"videos/{film['videoId']}", "bob")  # nobody else of these tests plays it, but for its owner
    play(page)
    expect(page.locator(".facts")).to_contain_text("1 view")
    page.reload()
    with page.expect_response("**/views") as again:
        play(page)
    assert again.value.json()["reason"] == "repeated"
    path = f"/v1/videos/{film['videoId']}/views"
    eventually(lambda: console.service.request("GET", path).json()["total"])
    page = console.open(f"videos/{film['videoId']}", "alice")
    expect(page.get_by_role("img", name=re.compile("^1 view in 30 days"))).to_be_visible()
    expect(page.get_by_text("A view of the same viewer was counted")).to_be_visible()
    page.get_by_label("24 hours").check()
    expect(page.get_by_role("img", name=re.compile("^1 view in 24 hours"))).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.get_by_role("table").locator("tbody tr")).to_have_count(24)


def test_a_file_that_is_not_a_film_says_so_and_asks_for_another(console: Console) -> None:
    video = console.service.create(title="Not a film")
    page = console.open(f"videos/{video['videoId']}")
    console.service.upload(video, b"Minutes of the meeting. " * 100)
    probe = job(page, "Looking at the film")
    expect(probe).to_contain_text("The file is not a film in a supported format")
    expect(probe.get_by_role("link", name="Upload another film")).to_have_attribute(
        "href", f"#/upload?video={video['videoId']}"
    )
    expect(probe.get_by_role("button")).to_have_count(0)
    expect(page.get_by_text("This film does not play here")).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("POST")  # which is what programs are told to do
    assert serious(page) == []

    def not_for_good(route: Route) -> None:
        """What another attempt may repair looks the same, but for one word."""
        answer = route.fetch()
        jobs = answer.json()
        for one in jobs["items"]:
            one.get("error", {}).pop("final", None)
        route.fulfill(response=answer, body=json.dumps(jobs))

    def attempt() -> int:
        jobs = console.service.request("GET", f"/v1/videos/{video['videoId']}/jobs").json()["items"]
        return int(next(one["attempt"] for one in jobs if one["kind"] == "probe"))

    before = attempt()
    page.route("**/jobs", not_for_good)
    page.reload()
    with page.expect_response("**/jobs/probe/retry") as retried:
        probe.get_by_role("button", name="Try again: Looking at the film").click()
    assert retried.value.status == 202
    eventually(attempt, lambda number: number > before)  # it may have failed again before the page looked
    page.unroute_all(behavior="wait")
    page.reload()
    expect(probe.get_by_role("link", name="Upload another film")).to_be_visible()


def test_a_private_video_of_somebody_else_says_why_it_is_not_shown(console: Console) -> None:
    video = console.service.create(user="bob", title="Mine alone")
    page = console.open(f"videos/{video['videoId']}", "alice")
    expect(page.get_by_role("heading", name="You cannot see this video")).to_be_visible()
    expect(page.get_by_text("it is private, not ready, not published yet, or expired")).to_be_visible()


def test_the_poster_is_chosen_by_keyboard(console: Console, film: dict[str, Any]) -> None:
    page = console.open(f"videos/{film['videoId']}")
    poster = page.locator("media-poster-image")
    before = poster.get_attribute("src") or ""
    page.get_by_text("Choose the moment that it shows").press("Enter")
    moments = page.get_by_role("group", name="Moments of the film").get_by_role("radio")
    expect(moments).to_have_count(10)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    announced(page, "The new poster is there.")
    expect(poster).not_to_have_attribute("src", before)
    poster.locator("img").evaluate(LOADED)


def test_nothing_on_the_screen_stands_in_anybodys_way(console: Console, film: dict[str, Any]) -> None:
    page = console.open(f"videos/{film['videoId']}")
    expect(player(page)).to_be_visible()
    for summary in ("4 jobs, all done", "Choose the moment that it shows"):
        page.get_by_text(summary).click()
    expect(page.get_by_text("In the last 24 hours")).to_be_visible()
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 640})
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 360
