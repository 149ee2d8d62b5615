"""The console: playing a video, and watching its processing."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.browser import LIMIT_MS, Console, HeldRequests, announced, handle_first, require_good_layout, ride
from tests.e2e.conftest import Service
from tests.e2e.locators import button, dialog, field, group, heading, link, text
from tests.polling import eventually

RENDITION = re.compile(r"/renditions/.+\.mp4")
"""Pattern of the URL of a rendition."""
SOURCE = re.compile(r"-sources-")
"""Pattern of the URL of a source file."""
PLAYED = """(video, [seconds, patience]) => new Promise((done, fail) => {
  const look = () => (!video.paused || video.ended) && video.currentTime > seconds && done(video.currentTime);
  video.addEventListener("timeupdate", look);
  setTimeout(() => fail(new Error(`it is at ${video.currentTime}: ${video.error?.message}`)), patience);
  look();
})"""
RECORD_SOURCE_CHANGE = """(video) => {
  const { src } = video;
  video.addEventListener("timeupdate", () => { if (video.src === src) window.leftAt = video.currentTime; });
  video.addEventListener("seeked", () => { window.continuedAt = video.currentTime; }, { once: true });
}"""
"""Script that records two times of the video: when the player leaves its current file, and when it continues with
another file."""
HAS_CUES = "() => [...document.querySelector('media-controller video').textTracks].some(({ cues }) => cues?.length)"
"""Script that returns whether the player has loaded the storyboard's cues. Before, it shows no thumbnails on hover."""
LOADED = "(image) => image.decode()"


@pytest.fixture(scope="module")
def video(service: Service) -> dict[str, Any]:
    """Return a public video of alice that lasts ten seconds. All its jobs are done."""
    video = service.create(title="A ride through the city", visibility="public")
    service.upload(video, ride())
    path = f"/v1/videos/{video['videoId']}"
    eventually(lambda: service.request("GET", path).json()["status"], lambda status: status == "ready")
    eventually(
        lambda: [job["state"] for job in service.request("GET", f"{path}/jobs").json()["items"]],
        lambda states: set(states) == {"done"},
    )
    return video


def player(page: Page) -> Locator:
    """Locate the video element."""
    return page.locator("media-controller video")


def play(page: Page, seconds: float = 1) -> float:
    """Click the play button, wait until the player has reached a time, and return the current time."""
    button(page, "play").click()
    return played(page, seconds)


def played(page: Page, seconds: float) -> float:
    """Wait until the player has reached a time, and return the current time."""
    return float(player(page).evaluate(PLAYED, [seconds, LIMIT_MS]))


def job(page: Page, name: str) -> Locator:
    """Locate a job in the list of jobs."""
    return page.get_by_role("listitem").filter(has_text=name)


def test_video_is_played_while_processing_and_after_a_restore(console: Console) -> None:
    video = console.service.create(title="To be made")
    page = console.open(f"videos/{video['videoId']}")
    expect(page.get_by_role("main")).to_contain_text("No source video has arrived.")
    expect(link(page, "Upload a file")).to_have_attribute("href", f"#/upload?video={video['videoId']}")
    console.service.upload(video, ride())
    heading(page, "Processing").click()
    for name in ("Probe", "Poster", "Storyboard", "Rendition 240p"):
        expect(job(page, name)).to_contain_text("Done")
    expect(page.locator(".facts")).to_contain_text("Ready")
    page.locator("media-poster-image img").evaluate(LOADED)
    expect(page.get_by_role("main")).to_contain_text("Only you can play this video. The video is private.")
    expect(player(page)).to_have_attribute("src", RENDITION)
    expect(text(page, "All 4 steps done")).to_be_visible()  # no job changes the page from here on
    assert play(page) > 1
    assert page.evaluate("performance.getEntriesByType('navigation')[0].type") == "navigate"

    page.reload()  # the last job may have changed the video after the page read it, and Delete requires its version
    before = play(page)
    player(page).evaluate("(video) => video.pause()")  # otherwise the video could end before it is restored
    field(page, "Speed").select_option("1.5")
    button(page, "Delete").click()
    button(dialog(page, "Delete this video?"), "Delete").click()
    expect(player(page)).to_have_count(0)
    button(page, "Restore").click()
    expect(player(page)).to_have_js_property("playbackRate", 1.5)
    assert play(page, before) >= before


def test_playback_continues_in_another_quality_and_after_a_lost_connection(
    console: Console, video: dict[str, Any]
) -> None:
    page = console.open(f"videos/{video['videoId']}")
    interrupted: list[bool] = []
    for pattern in (RENDITION, SOURCE):
        page.route(pattern, lambda route: route.abort() if interrupted else route.fallback())
    expect(player(page)).to_have_attribute("src", RENDITION)
    player(page).evaluate(RECORD_SOURCE_CHANGE)
    before = play(page)
    field(page, "Quality").select_option("source")
    expect(player(page)).to_have_attribute("src", SOURCE)
    assert played(page, before) > before
    page.wait_for_function("window.continuedAt !== undefined")  # the time changes before the seek has ended
    assert -0.1 < page.evaluate("window.continuedAt - window.leftAt") < 5

    interrupted.append(True)
    field(page, "Quality").select_option("240p")
    notice = page.get_by_role("alert").filter(has_text="Playback interrupted")
    expect(notice).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("The browser cannot play")
    interrupted.clear()
    button(notice, "Try again").click()
    assert played(page, before) >= before
    expect(notice).to_have_count(0)

    for _ in ("240p", "source"):  # as if both files were damaged
        player(page).evaluate("""(video) => {
          Object.defineProperty(video, "error", { value: { code: 3 }, configurable: true });
          video.dispatchEvent(new Event("error"));
          delete video.error;
        }""")
    expect(page.get_by_role("main")).to_contain_text("This video cannot be played in this browser")
    button(page, "Try again").click()
    assert play(page, before) >= before


def test_scrubber_shows_storyboard_thumbnails_only_of_the_service(console: Console, video: dict[str, Any]) -> None:
    page = console.open(f"videos/{video['videoId']}", "bob")
    scrubber = page.locator("media-time-range")
    expect(scrubber).to_have_attribute("mediaduration", re.compile(r"^10(\.|$)"))
    page.wait_for_function(HAS_CUES)
    box = scrubber.bounding_box()
    assert box is not None
    picture = scrubber.locator("media-preview-thumbnail")
    for part in (0.25, 0.75):
        scrubber.hover(position={"x": box["width"] * part, "y": box["height"] / 2})
        expect(picture).to_be_visible()
        expect(picture).to_have_attribute("mediapreviewimage", re.compile(r"storyboard\.jpg#xywh=\d+,0,160,90$"))
    picture.locator("img").evaluate(LOADED)
    page.close()

    def refer_to_other_origin(route: Route) -> None:
        """Respond with thumbnails of another origin, which an owner may set."""
        response = route.fetch()
        pictures = {"poster": {"url": "https://elsewhere.example/poster.jpg"}}
        pictures["storyboard.vtt"] = {"url": "https://elsewhere.example/storyboard.vtt"}
        route.fulfill(response=response, body=json.dumps(response.json() | {"thumbnails": pictures}))

    def serve_foreign_storyboard(route: Route) -> None:
        """Serve a storyboard that refers to another origin."""
        response = route.fetch()
        route.fulfill(
            response=response, body=response.text().replace("storyboard.jpg", "https://elsewhere.example/a.jpg")
        )

    page = console.open("nowhere")
    page.route(f"**/v1/videos/{video['videoId']}", refer_to_other_origin)
    page.route("**/storyboard.vtt*", serve_foreign_storyboard)
    with page.expect_response("**/storyboard.vtt*"):  # the URL is that of the service
        page.goto(f"{console.service.base_url}/console/#/videos/{video['videoId']}")
    expect(text(page, "All 4 steps done")).to_be_visible()
    page.locator("media-time-range").hover()
    expect(page.locator("media-poster-image")).to_have_count(0)  # `console` records requests to other origins


def test_expired_url_is_renewed_and_the_source_replaces_an_unplayable_rendition(
    console: Console, video: dict[str, Any]
) -> None:
    page = console.open("nowhere")
    refused: list[str] = []

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        route.fulfill(status=403, body="<Error><Code>AccessDenied</Code></Error>", content_type="application/xml")

    handle_first(page, RENDITION, refuse)
    with HeldRequests(page, "**/playback", lambda _: bool(refused)) as renewal:
        page.goto(f"{console.service.base_url}/console/#/videos/{video['videoId']}")
        renewal.wait_for(1)
        button(page, "play").click()  # before the player has a URL
    assert played(page, 1) > 1
    page.close()

    page = console.open("nowhere")
    interrupted: list[bool] = []
    page.route(RENDITION, lambda route: route.fulfill(status=200, body="not a film", content_type="video/mp4"))
    page.route(SOURCE, lambda route: route.abort() if interrupted else route.fallback())
    page.goto(f"{console.service.base_url}/console/#/videos/{video['videoId']}")
    expect(page.get_by_role("main")).to_contain_text("The browser cannot play 240p")
    expect(player(page)).to_have_attribute("src", SOURCE)
    assert play(page) > 1
    interrupted.append(True)
    page.reload()
    expect(page.get_by_role("main")).to_contain_text("This video cannot be played in this browser")
    interrupted.clear()
    button(page, "Try again").click()
    assert play(page) > 1


def test_view_counts_once_and_the_owner_sees_it_and_chooses_the_poster(console: Console, video: dict[str, Any]) -> None:
    page = console.open(f"videos/{video['videoId']}", "bob")  # no other test plays this video as bob
    play(page)
    expect(page.locator(".facts")).to_contain_text("1 view")
    page.reload()
    with page.expect_response("**/views") as second_view:
        play(page)
    assert second_view.value.json()["reason"] == "repeated"
    page.close()

    path = f"/v1/videos/{video['videoId']}/views"
    eventually(lambda: console.service.request("GET", path).json()["total"])
    page = console.open(f"videos/{video['videoId']}", "alice")
    expect(page.get_by_role("img", name=re.compile("^1 view in the last 30 days.*$"))).to_be_visible()
    text(page, "Table and excluded views").click()
    expect(page.get_by_role("main")).to_contain_text("A later view of the same viewer was counted")
    require_good_layout(page, ("light", 1280))

    poster = page.locator("media-poster-image")
    before = poster.get_attribute("src") or ""
    frames = group(page, "Frames").get_by_role("radio")
    expect(frames).to_have_count(10)
    frames.first.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    announced(page, "Poster updated.")
    expect(poster).not_to_have_attribute("src", before)
    poster.locator("img").evaluate(LOADED)
    expect(text(page, "All 4 steps done")).to_be_attached()
    require_good_layout(page, ("light", 1280), ("dark", 360))


def test_video_that_cannot_be_played_shows_the_reason(console: Console) -> None:
    page = console.open(f"videos/{console.service.create(user='bob', title='Mine alone')['videoId']}", "alice")
    expect(heading(page, "Video unavailable")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("It may be private, not ready, not yet published, or expired")

    video = console.service.create(title="Not a film")
    console.service.upload(video, b"Minutes of the meeting. " * 100)
    page.goto(f"{console.service.base_url}/console/#/videos/{video['videoId']}")
    probe = job(page, "Probe")
    expect(probe).to_contain_text("The file is not a video in a supported format")
    another = link(probe, "Upload another file")
    expect(another).to_have_attribute("href", f"#/upload?video={video['videoId']}")
    expect(probe.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("main")).to_contain_text("This video cannot be played.")
    expect(page.get_by_role("main")).not_to_contain_text("Either this browser")
    expect(page.get_by_role("main")).not_to_contain_text("POST")  # the text is meant for API clients
    require_good_layout(page)
