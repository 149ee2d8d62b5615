"""The console's operations screen for administrators: failed videos with their reasons, pending jobs, and figures."""

import re
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.e2e.browser import HOSTILE, Console, HeldRequests, require_good_layout
from tests.e2e.locators import button, heading, link, region
from tests.polling import eventually

NOT_A_VIDEO = b"This is not a film. " * 64
FAILED = "**/v1/videos?status=failed*"
"""Pattern of the requests that list failed videos."""
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
    """Create a video with an invalid source file. Return its id after processing has failed."""
    video = console.service.create(title=title)
    console.service.upload(video, NOT_A_VIDEO)
    eventually(lambda: status(console, video["videoId"]), lambda now: now == "failed")
    return str(video["videoId"])


def status(console: Console, video_id: str) -> str:
    """Return a video's status from the API."""
    return str(console.service.request("GET", f"/v1/videos/{video_id}").json()["status"])


def only(*video_ids: str) -> Callable[[Route], None]:
    """Return a handler that responds to a list request with only these videos, from all pages of the list. So a test
    retries only its own videos, and other videos do not displace them."""

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
    """Respond as if the worker caused the failure, not the source file."""
    reply = route.fetch()
    jobs = reply.json()
    for job in jobs["items"]:
        job.get("error", {}).pop("final", None)
    route.fulfill(response=reply, json=jobs)


def test_failed_videos_show_the_reason_and_are_retried_if_useful(console: Console, unique: str) -> None:
    faulty, retryable = f"Hopeless {unique}", f"Worth it {unique}"
    ids = {title: failed(console, title) for title in (faulty, retryable)}
    retried: list[str] = []
    page = console.open("", "admin")
    page.route(FAILED, only(*ids.values()))
    page.route(f"**/v1/videos/{ids[retryable]}/jobs", without_final)
    page.on("request", lambda request: retried.append(request.url) if request.url.endswith("/retry") else None)
    link(page, "Operations").click()
    failures = region(page, "Failed videos")
    rows = {title: failures.get_by_role("listitem").filter(has_text=title) for title in ids}
    for row in rows.values():
        row.scroll_into_view_if_needed()  # a row loads its jobs when it is visible
        expect(row).to_contain_text("The file is not a video in a supported format")
    expect(rows[faulty]).to_contain_text("Upload a different file")
    expect(link(rows[faulty], faulty)).to_have_attribute("href", f"#/videos/{ids[faulty]}")
    expect(rows[faulty].get_by_role("button")).to_have_count(0)  # a retry with this file cannot succeed
    expect(button(rows[retryable], f"Retry: Probe, {retryable}")).to_be_visible()

    # Otherwise the job could fail again before the test sees it as queued.
    held_reads = HeldRequests(page, f"**/v1/videos/{ids[retryable]}/jobs", lambda _: bool(retried))
    button(failures, "Retry all shown").click()
    expect(failures.get_by_role("status").filter(has_text="Done")).to_have_text(
        "Done: 2 of 2 videos; 1 job retried, 1 video not retried because of the source file."
    )
    assert retried == [f"{console.service.base_url}/v1/videos/{ids[retryable]}/jobs/probe/retry"]
    expect(rows[retryable]).to_contain_text("Queued")
    held_reads.release()
    expect(rows[retryable]).to_contain_text("The file is not a video in a supported format")  # after the second failure
    jobs = console.service.request("GET", f"/v1/videos/{ids[retryable]}/jobs").json()["items"]
    assert [(job["kind"], job["state"], job["attempt"]) for job in jobs] == [("probe", "failed", 2)]
    with page.expect_response(re.compile("/jobs/probe/retry$")) as retry:
        button(rows[retryable], f"Retry: Probe, {retryable}").click()
    assert retry.value.status == 202
    link(rows[faulty], f"Upload another file: {faulty}").click()
    expect(heading(page, f"Replace the file of {faulty}")).to_be_visible()


def test_hostile_titles_of_failed_videos_keep_the_layout(console: Console) -> None:
    videos = [console.service.create("admin", title=title, status="failed")["videoId"] for title in TITLES]
    page = console.open("", "admin")
    page.route(FAILED, only(*videos))
    link(page, "Operations").click()
    rows = region(page, "Failed videos").get_by_role("listitem")
    expect(rows).to_have_count(len(TITLES))
    rows.last.scroll_into_view_if_needed()
    expect(rows.last).to_contain_text("No job failed")
    require_good_layout(page)
