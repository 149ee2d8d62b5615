"""The console's operations: what failed and why, what waits, and numbers, for administrators alone."""

import json
import re
from collections.abc import Callable
from typing import Any, Literal

from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.browser import Console, Hold, serious
from tests.waiting import eventually

NO_FILM = b"This is not a film. " * 64
SHOWN: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 360), ("dark", 1280))
FAILED = "**/v1/videos?status=failed*"
"""The list of the videos that failed."""
HOSTILE = ["<script>window.ran = true</script>", "\u202egnihtyreve snrut", "W" * 300, "."]


def failed(console: Console, title: str) -> str:
    """A video whose film is not a film; its id."""
    video = console.service.create(title=title)
    console.service.upload(video, NO_FILM)
    eventually(lambda: status(console, video["videoId"]), lambda now: now == "failed")
    return str(video["videoId"])


def status(console: Console, video_id: str) -> str:
    """A video's status, as the API has it."""
    return str(console.service.request("GET", f"/v1/videos/{video_id}").json()["status"])


def panel(page: Page, title: str) -> Locator:
    """A panel of the page."""
    return page.get_by_role("region", name=title, exact=True)


def only(*video_ids: str) -> Callable[[Route], None]:
    """Lists of these videos alone, on whatever page they are: a test retries nothing of its neighbours', and they push
    nothing of it away.
    """

    def answer(route: Route) -> None:
        url = route.request.url.replace("limit=12", "limit=100")
        reply = route.fetch(url=url)
        page = reply.json()
        items = page["items"]
        while page["nextCursor"]:
            page = route.fetch(url=f"{url}&cursor={page['nextCursor']}").json()
            items += page["items"]
        wanted = [video for video in items if video["videoId"] in video_ids]
        route.fulfill(response=reply, json={"items": wanted, "nextCursor": None})

    return answer


def without_final(route: Route) -> None:
    """As if the worker was to blame, and not the film."""
    reply = route.fetch()
    jobs = reply.json()
    for job in jobs["items"]:
        job.get("error", {}).pop("final", None)
    route.fulfill(response=reply, json=jobs)


def test_a_film_that_is_not_one_is_shown_with_its_reason_and_the_way_to_another(console: Console, unique: str) -> None:
    video_id = failed(console, unique)
    page = console.open("", "admin")
    page.route(FAILED, only(video_id))
    page.get_by_role("link", name="Operations").click()
    row = panel(page, "Failed videos").get_by_role("listitem").filter(has_text=unique)
    expect(row).to_contain_text("The file is not a film in a supported format")
    expect(row).to_contain_text("only another film can help")
    expect(row.get_by_role("link", name=unique, exact=True)).to_have_attribute("href", f"#/videos/{video_id}")
    expect(row.get_by_role("button")).to_have_count(0)  # to try this film again cannot help
    row.get_by_role("link", name=f"Upload another film: {unique}").click()
    expect(page.get_by_role("heading", name=f"A new film for {unique}")).to_be_visible()


def test_a_job_that_failed_is_retried(console: Console, unique: str) -> None:
    video_id = failed(console, unique)
    page = console.open("", "admin")
    page.route(FAILED, only(video_id))
    page.route(f"**/v1/videos/{video_id}/jobs", without_final)
    page.get_by_role("link", name="Operations").click()
    row = panel(page, "Failed videos").get_by_role("listitem").filter(has_text=unique)
    expect(row.get_by_role("button")).to_be_visible()
    looks = Hold(page, f"**/v1/videos/{video_id}/jobs")  # else it may have failed again before anybody saw it queued
    with page.expect_response(re.compile("/jobs/probe/retry")) as answer:
        row.get_by_role("button", name=f"Retry: Looking at the film, {unique}").click()
    assert answer.value.status == 202
    expect(row).to_contain_text(re.compile("queued|running"))
    looks.let_go()
    expect(row).to_contain_text("The file is not a film in a supported format")  # once it has failed again
    jobs = console.service.request("GET", f"/v1/videos/{video_id}/jobs").json()["items"]
    assert [(job["kind"], job["state"], job["attempt"]) for job in jobs] == [("probe", "failed", 2)]


def test_reasons_are_asked_for_when_they_come_into_view(console: Console, unique: str) -> None:
    page = console.open("", "admin")
    videos = [console.service.create("admin", title=f"{unique} {n}", status="failed")["videoId"] for n in range(8)]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/jobs") else None)
    page.route(FAILED, only(*videos))
    page.set_viewport_size({"width": 500, "height": 500})
    page.get_by_role("link", name="Operations").click()
    rows = panel(page, "Failed videos").get_by_role("listitem")
    expect(rows).to_have_count(8)
    rows.first.scroll_into_view_if_needed()
    expect(rows.first).to_contain_text("None of its jobs has failed")
    assert 0 < len(asked) < 8
    rows.last.scroll_into_view_if_needed()
    expect(rows.last).to_contain_text("None of its jobs has failed")


def test_all_that_are_shown_are_retried_one_after_another(console: Console, unique: str) -> None:
    hopeless, worth = failed(console, f"Hopeless {unique}"), failed(console, f"Worth it {unique}")
    retried: list[str] = []
    page = console.open("", "admin")
    page.route(FAILED, only(hopeless, worth))
    page.route(f"**/v1/videos/{worth}/jobs", without_final)
    page.on("request", lambda request: retried.append(request.url) if request.url.endswith("/retry") else None)
    page.get_by_role("link", name="Operations").click()
    failures = panel(page, "Failed videos")
    failures.get_by_role("button", name="Retry all shown").click()
    expect(failures.get_by_role("status").filter(has_text="Done")).to_have_text(
        "Done: 2 of 2 videos; 1 job retried, 1 video left out, which only another film can help."
    )
    assert retried == [f"{console.service.base_url}/v1/videos/{worth}/jobs/probe/retry"]


def test_nothing_else_is_retried_once_the_jobs_of_the_day_are_used_up(console: Console, unique: str) -> None:
    videos = [console.service.create("admin", title=f"{unique} {n}", status="failed")["videoId"] for n in range(2)]
    retried: list[str] = []

    def jobs(route: Route) -> None:
        """Two that failed, of whichever video."""
        video_id = route.request.url.split("/")[-2]
        error = {"reason": "The worker stopped.", "at": 1_000_000_000}
        items = [
            {"videoId": video_id, "kind": kind, "state": "failed", "attempts": 3, "error": error}
            for kind in ("poster", "storyboard")
        ]
        route.fulfill(json={"items": items})

    def refuse(route: Route) -> None:
        retried.append(route.request.url)
        problem = {"type": "urn:video-metadata:problem:quota-exceeded", "title": "Quota exceeded", "detail": ""}
        route.fulfill(status=429, json=problem)

    page = console.open("", "admin")
    page.route(FAILED, only(*videos))
    page.route("**/v1/videos/*/jobs", jobs)
    page.route("**/v1/videos/*/jobs/*/retry", refuse)
    page.get_by_role("link", name="Operations").click()
    failures = panel(page, "Failed videos")
    failures.get_by_role("button", name="Retry all shown").click()
    expect(failures.get_by_role("status").filter(has_text="Done")).to_have_text(
        "Done: 1 of 2 videos; 0 jobs retried, 1 video refused."
    )
    expect(failures.get_by_role("alert").filter(has_text="Quota exceeded").first).to_be_visible()
    assert len(retried) == 1


def test_a_video_that_is_long_in_processing_says_what_it_waits_for(console: Console, unique: str) -> None:
    fields: dict[str, Any] = {"status": "processing", "createdAt": 1_000_000_000, "userId": "alice"}
    video_id = console.service.create("admin", title=unique, **fields)["videoId"]
    try:
        page = console.open("", "admin")
        page.route("**/v1/videos?status=processing*", only(video_id))
        page.get_by_role("link", name="Operations").click()
        page.set_viewport_size(
            {"width": 1280, "height": 10_000}
        )  # rows ask why once they are seen, and panels above them grow
        waiting = panel(page, "Long in processing")
        row = waiting.get_by_role("listitem").filter(has_text=unique)
        reason = console.service.request("GET", f"/v1/videos/{video_id}/why-not-ready", "admin").json()["reason"]
        expect(row).to_contain_text(reason)
        waiting.get_by_label("Created more than this long ago").select_option("a day")
        expect(row).to_contain_text(reason)
    finally:
        console.service.request("DELETE", f"/v1/videos/{video_id}", "admin")


def test_totals_of_a_user_are_looked_up(console: Console) -> None:
    page = console.open("operations", "admin")
    totals = panel(page, "Totals of a user")
    expect(totals).to_contain_text("Name a user")
    totals.get_by_label("User").fill("alice")
    totals.get_by_role("button", name="Show", exact=True).click()
    expect(totals.get_by_role("heading", name="alice")).to_be_visible()
    for name in ("Videos", "ready", "failed", "Size of films", "Duration", "Playlists"):
        expect(totals.locator("div", has=page.locator("dt", has_text=name)).locator("dd").first).to_have_text(
            re.compile(r"\d")
        )
    expect(page).to_have_url(re.compile(r"#/operations\?user=alice$"))


def test_tags_are_a_chart_and_a_table_that_lead_to_the_library(console: Console, unique: str) -> None:
    tag = f"tag {unique}"
    console.service.create("admin", userId="alice", status="ready", visibility="public", tags=[tag])

    def tags() -> list[str]:
        names: list[str] = []
        parameters: dict[str, Any] = {"limit": 100}
        while True:
            listed = console.service.request("GET", "/v1/tags", params=parameters).json()
            names += [item["tag"] for item in listed["items"]]
            if listed["nextCursor"] is None:
                return names
            parameters["cursor"] = listed["nextCursor"]

    eventually(tags, lambda names: tag in names)
    page = console.open("operations", "admin")
    chart = panel(page, "Tags")
    link = chart.get_by_role("link", name=tag)
    more = chart.get_by_role("button", name="Show more")
    expect(more.or_(link).first).to_be_visible()
    while not link.is_visible():
        with page.expect_response(re.compile(r"/v1/tags\?.*cursor=")):
            more.click()
        expect(more.or_(link).first).to_be_visible()
    expect(link).to_have_attribute("href", f"#/?tag=tag+{unique}")
    chart.get_by_role("button", name="Table").click()
    expect(chart.get_by_role("row", name=f"{tag} 1")).to_be_visible()


def test_what_was_viewed_most_can_be_narrowed(console: Console, unique: str) -> None:
    page = console.open("operations", "admin")
    top = panel(page, "Most viewed")
    expect(top).to_contain_text(re.compile("Computed|not been computed"))
    top.get_by_label("In the last").select_option("month")
    top.get_by_label("First").select_option("largest rise")
    with page.expect_response(re.compile(f"/v1/top.*category={unique}")) as answer:
        top.get_by_label("Category").fill(unique)
        top.get_by_label("Category").press("Enter")
    assert re.search("window=month&sort=-rise", answer.value.url)
    expect(top).to_contain_text("No published video was viewed")
    expect(top).to_contain_text("not been computed yet")


def test_a_panel_that_fails_takes_no_other_along(console: Console) -> None:
    page = console.open("", "admin")
    problem = {"type": "urn:video-metadata:problem:unavailable", "title": "Unavailable", "detail": "Try again later."}
    refuse = [True]
    page.route(
        "**/v1/tags*",
        lambda route: route.fulfill(status=503, body=json.dumps(problem)) if refuse else route.continue_(),
    )
    page.get_by_role("link", name="Operations").click()
    tags = panel(page, "Tags")
    expect(tags.get_by_role("alert")).to_contain_text("Try again later.")
    expect(panel(page, "Health")).to_contain_text("The service and its table answer")
    refuse.clear()
    tags.get_by_role("button", name="Try again").click()
    expect(tags.get_by_role("alert")).to_have_count(0)
    expect(tags.get_by_role("button", name="Chart").or_(tags.get_by_text("No published video"))).to_be_visible()


def test_it_is_for_administrators_alone(console: Console) -> None:
    page = console.open("operations")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/v1/" in request.url else None)
    page.reload()
    expect(page.get_by_text("This page is for administrators.")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Operations")).to_have_count(0)
    assert asked == []


def test_everybody_can_use_it_whatever_videos_are_called(console: Console) -> None:
    videos = [console.service.create("admin", title=title, status="failed")["videoId"] for title in HOSTILE]
    console.service.create("admin", status="ready", visibility="public", tags=["seen"])
    eventually(lambda: console.service.request("GET", "/v1/tags").json()["items"])
    page = console.open("", "admin")
    page.route(FAILED, only(*videos))
    page.get_by_role("link", name="Operations").click()
    rows = panel(page, "Failed videos").get_by_role("listitem")
    expect(rows.first).to_contain_text("None of its jobs has failed")
    expect(panel(page, "Tags").get_by_text("Loading")).to_have_count(0)
    panel(page, "Tags").get_by_role("button", name="Table").click()
    for scheme, width in SHOWN:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("[document.documentElement.scrollWidth, window.ran]") == [width, None]
        assert serious(page) == []
