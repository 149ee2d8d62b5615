"""The console's operations: what failed and why, what waits, and numbers, for administrators alone."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Route, expect

from tests.e2e.browser import HOSTILE, Console, HeldRequests, meet_first, require_good_layout
from tests.e2e.locators import button, field, heading, link, region
from tests.polling import eventually

NOT_A_VIDEO = b"This is not a film. " * 64
FAILED = "**/v1/videos?status=failed*"
"""The list of the videos that failed."""
TITLES = (
    HOSTILE,
    "<script>window.hit = 1</script>",
    "\u202egnihtyreve snrut",
    "W" * 300,
    ".",
    "Plain",
    "Plain",
    "Plain",
)
"""Titles of failed videos."""


def failed(console: Console, title: str) -> str:
    """A video whose film is not a film; its id."""
    video = console.service.create(title=title)
    console.service.upload(video, NOT_A_VIDEO)
    eventually(lambda: status(console, video["videoId"]), lambda now: now == "failed")
    return str(video["videoId"])


def status(console: Console, video_id: str) -> str:
    """A video's status, as the API has it."""
    return str(console.service.request("GET", f"/v1/videos/{video_id}").json()["status"])


def only(*video_ids: str) -> Callable[[Route], None]:
    """Lists of these videos alone, on whatever page they are: a test retries nothing of its neighbours', and they push
    nothing of it away.
    """

    def fulfill(route: Route) -> None:
        url = route.request.url.replace("limit=12", "limit=100")
        reply = route.fetch(url=url)
        page = reply.json()
        items = page["items"]
        while page["nextCursor"]:
            page = route.fetch(url=f"{url}&cursor={page['nextCursor']}").json()
            items += page["items"]
        selected = [video for video in items if video["videoId"] in video_ids]
        route.fulfill(response=reply, json={"items": selected, "nextCursor": None})

    return fulfill


def without_final(route: Route) -> None:
    """Report the worker as the cause of the failure, not the source file."""
    reply = route.fetch()
    jobs = reply.json()
    for job in jobs["items"]:
        job.get("error", {}).pop("final", None)
    route.fulfill(response=reply, json=jobs)


def test_failed_films_say_why_and_are_retried_where_that_can_help(console: Console, unique: str) -> None:
    hopeless, worth = f"Hopeless {unique}", f"Worth it {unique}"
    ids = {title: failed(console, title) for title in (hopeless, worth)}
    retried: list[str] = []
    page = console.open("", "admin")
    page.route(FAILED, only(*ids.values()))
    page.route(f"**/v1/videos/{ids[worth]}/jobs", without_final)
    page.on("request", lambda request: retried.append(request.url) if request.url.endswith("/retry") else None)
    link(page, "Operations").click()
    failures = region(page, "Failed videos")
    rows = {title: failures.get_by_role("listitem").filter(has_text=title) for title in ids}
    for row in rows.values():
        expect(row).to_contain_text("The file is not a video in a supported format")
    expect(rows[hopeless]).to_contain_text("Upload a different file")
    expect(link(rows[hopeless], hopeless)).to_have_attribute("href", f"#/videos/{ids[hopeless]}")
    expect(rows[hopeless].get_by_role("button")).to_have_count(0)  # to try this film again cannot help
    expect(button(rows[worth], f"Retry: Probe, {worth}")).to_be_visible()

    # Else it may have failed again before anybody saw it queued.
    held_reads = HeldRequests(page, f"**/v1/videos/{ids[worth]}/jobs", lambda _: bool(retried))
    button(failures, "Retry all shown").click()
    expect(failures.get_by_role("status").filter(has_text="Done")).to_have_text(
        "Done: 2 of 2 videos; 1 job retried, 1 video not retried because of the source file."
    )
    assert retried == [f"{console.service.base_url}/v1/videos/{ids[worth]}/jobs/probe/retry"]
    expect(rows[worth]).to_contain_text("Queued")
    held_reads.let_go()
    expect(rows[worth]).to_contain_text("The file is not a video in a supported format")  # once it has failed again
    jobs = console.service.request("GET", f"/v1/videos/{ids[worth]}/jobs").json()["items"]
    assert [(job["kind"], job["state"], job["attempt"]) for job in jobs] == [("probe", "failed", 2)]
    with page.expect_response(re.compile("/jobs/probe/retry$")) as retry:
        button(rows[worth], f"Retry: Probe, {worth}").click()
    assert retry.value.status == 202
    link(rows[hopeless], f"Upload another file: {hopeless}").click()
    expect(heading(page, f"Replace the file of {hopeless}")).to_be_visible()


def test_reasons_are_asked_for_when_they_come_into_view_whatever_videos_are_called(console: Console) -> None:
    videos = [console.service.create("admin", title=title, status="failed")["videoId"] for title in TITLES]
    page = console.open("", "admin")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if request.url.endswith("/jobs") else None)
    page.route(FAILED, only(*videos))
    page.set_viewport_size({"width": 500, "height": 500})
    link(page, "Operations").click()
    rows = region(page, "Failed videos").get_by_role("listitem")
    expect(rows).to_have_count(len(TITLES))
    rows.first.scroll_into_view_if_needed()
    expect(rows.first).to_contain_text("No job failed")
    assert 0 < len(requests) < len(TITLES)
    rows.last.scroll_into_view_if_needed()
    expect(rows.last).to_contain_text("No job failed")
    require_good_layout(page)


def test_a_video_that_is_long_in_processing_says_what_it_waits_for(console: Console, unique: str) -> None:
    fields: dict[str, Any] = {"status": "processing", "createdAt": 1_000_000_000, "userId": "alice"}
    video_id = console.service.create("admin", title=unique, **fields)["videoId"]
    try:
        page = console.open("", "admin")
        page.route("**/v1/videos?status=processing*", only(video_id))
        link(page, "Operations").click()
        page.set_viewport_size(
            {"width": 1280, "height": 10_000}
        )  # rows ask why once they are seen, and panels above them grow
        waiting = region(page, "Long processing")
        row = waiting.get_by_role("listitem").filter(has_text=unique)
        reason = console.service.request("GET", f"/v1/videos/{video_id}/why-not-ready", "admin").json()["reason"]
        expect(row).to_contain_text(reason)
        field(waiting, "Older than").select_option("a day")
        expect(row).to_contain_text(reason)
    finally:
        console.service.request("DELETE", f"/v1/videos/{video_id}", "admin")


def test_numbers_are_looked_up_and_a_panel_that_fails_takes_no_other_along(console: Console, unique: str) -> None:
    problem = {"type": "urn:video-metadata:problem:unavailable", "title": "Unavailable", "detail": "Try again later."}
    tags = {"items": [{"tag": f"tag {unique}", "count": 1}], "nextCursor": None}  # others are of other tests
    page = console.open("", "admin")
    page.route("**/v1/tags*", lambda route: route.fulfill(json=tags))
    meet_first(page, "**/v1/tags*", lambda route: route.fulfill(status=503, json=problem))
    link(page, "Operations").click()
    chart = region(page, "Tags")
    expect(chart.get_by_role("alert")).to_contain_text("Try again later.")
    expect(region(page, "Health")).to_contain_text("The service and its table respond")
    button(chart, "Try again").click()
    expect(link(chart, f"tag {unique}")).to_have_attribute("href", f"#/?tag=tag+{unique}")
    button(chart, "Table").click()
    expect(chart.get_by_role("row", name=f"tag {unique} 1", exact=True)).to_be_visible()
    expect(chart.get_by_role("alert")).to_have_count(0)

    totals = region(page, "User totals")
    expect(totals).to_contain_text("Enter a user ID")
    field(totals, "User").fill("alice")
    button(totals, "Show").click()
    expect(heading(totals, "alice")).to_be_visible()
    for name in ("Videos", "Ready", "Failed", "File size", "Duration", "Playlists"):
        number = totals.locator("div", has=page.locator("dt").get_by_text(name, exact=True)).locator("dd")
        expect(number.first).to_have_text(re.compile(r"\d"))
    expect(page).to_have_url(re.compile(r"#/operations\?user=alice$"))

    top = region(page, "Most viewed")
    expect(top).to_contain_text(re.compile("Computed|Not computed yet"))
    field(top, "Period").select_option("month")
    field(top, "Sort by").select_option("largest rise")
    with page.expect_response(re.compile(f"/v1/top.*category={unique}")) as response:
        field(top, "Category").fill(unique)
        field(top, "Category").press("Enter")
    assert re.search("window=month&sort=-rise", response.value.url)
    expect(top).to_contain_text("No views of published videos")
    expect(top).to_contain_text("Not computed yet")
    require_good_layout(page)


def test_operations_are_for_administrators_alone(console: Console) -> None:
    page = console.open("operations")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if "/v1/" in request.url else None)
    page.reload()
    expect(page.get_by_role("main")).to_contain_text("This page is for administrators.")
    expect(link(page.get_by_role("navigation"), "Operations")).to_have_count(0)
    assert requests == []
