"""The console: past versions of a video, its history, and reverts."""

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Locator, Page, expect

from local import ROOT
from shared.schema import TABLE_NAME
from tests.e2e.browser import HOSTILE, Console, HeldRequests, meet_first, require_good_layout
from tests.e2e.conftest import Service
from tests.e2e.locators import button, dialog, field, group, heading, link, panel, region
from tests.polling import eventually

TRAIL_BEHIND = {
    "type": "urn:video-metadata:problem:trail-behind",
    "title": "Audit trail behind",
    "status": 503,
    "detail": "The audit trail does not have the newest changes yet. Retry the request.",
}
"""Response of the service while a change is not yet in the audit trail."""
LARGE = 101
"""Entries of a change set that is too large to be taken back at once."""


def sent(service: Service, method: str, path: str, body: Any = None, user: str = "alice") -> httpx.Response:
    """Send a request that must succeed, and return its response body."""
    reply = service.request(method, path, user, **({} if body is None else {"json": body}))
    assert reply.status_code < 300, reply.text
    return reply


def patched(service: Service, video: dict[str, Any], user: str = "alice", **fields: Any) -> None:
    """Change a video."""
    sent(service, "PATCH", f"/v1/videos/{video['videoId']}", fields, user)


def listed(service: Service, path: str, count: int) -> list[dict[str, Any]]:
    """The entries of a history, once there are `count` of them: they appear a moment after the changes."""

    def entries() -> list[dict[str, Any]]:
        return list(service.request("GET", path, "admin").json().get("items", []))

    return eventually(entries, lambda items: len(items) >= count)


def settled(service: Service, video: dict[str, Any]) -> str:
    """Wait until the trail has the newest version of a video; returns the id of the change set that made it."""
    path = f"/v1/videos/{video['videoId']}"
    version = service.request("GET", path).json()["version"]

    def sets() -> list[str]:
        items = service.request("GET", f"{path}/audit?limit=100").json()["items"]
        return [item["correlationId"] for item in items if (item["entity"], item.get("version")) == ("video", version)]

    return eventually(sets)[0]


def stored(service: Service, video: dict[str, Any]) -> dict[str, Any]:
    """The video as the API has it now."""
    return dict(service.request("GET", f"/v1/videos/{video['videoId']}").json())


def history(console: Console, video: dict[str, Any], user: str | None = "alice") -> Page:
    """A page at the history of a video."""
    page = console.open(f"videos/{video['videoId']}?tab=history", user)
    expect(panel(page, "History")).to_be_visible()
    return page


def entries(page: Page) -> Locator:
    """The entries of the history that the page shows."""
    return page.locator(".timeline > li")


def spoilt(service: Service) -> dict[str, Any]:
    """A video that alice made, admin spoilt, and alice changed again; all of it is in the trail."""
    video = service.create(title="The harbour", description="Ships at dawn.", category="travel")
    patched(service, video, "admin", title="SPOILT", description="spoilt")
    patched(service, video, category="spoilt", metadata={"take/one": "x"})
    settled(service, video)
    return video


def test_a_history_says_in_words_who_changed_what(console: Console) -> None:
    video = console.service.create(title="Before", description="x" * 300, publishAt=4_000_000_000)
    path = f"/v1/videos/{video['videoId']}"
    credit = {"name": "Ada", "ordering": 1, "roles": [{"category": "actor", "characters": ["Roy"]}]}
    sent(console.service, "PUT", f"{path}/credits/nm1", credit)
    sent(console.service, "PUT", f"{path}/releases/DE", {"titles": [{"title": "Der Hafen"}]})
    sent(console.service, "DELETE", f"{path}/credits/nm1")
    patched(console.service, video, "admin", title="After", description="short", metadata={"take/one": True})
    set_id = settled(console.service, video)
    listed(console.service, f"{path}/audit", 5)
    page = history(console, video)
    expect(entries(page)).to_have_count(5)
    newest = entries(page).filter(has_text="Changed by admin")
    expect(newest).to_contain_text("Title: Before → After")
    expect(newest).to_contain_text("take/one: yes")
    expect(link(newest, re.compile("^Change set of .*$"))).to_have_attribute("href", f"#/changesets/{set_id}")
    long = newest.get_by_role("group")
    expect(long.locator(".value")).to_be_hidden()
    long.locator("summary").click()
    expect(long.locator(".value")).to_have_text("x" * 300)
    expect(long.locator(".value")).to_be_visible()
    expect(entries(page).filter(has_text="Credit of Ada: created")).to_contain_text("Characters: Roy")
    expect(entries(page).filter(has_text="Credit of Ada: removed")).to_have_count(1)
    expect(entries(page).filter(has_text="Titles, Germany: created")).to_contain_text("Der Hafen")
    button(page, "Oldest first").click()
    expect(entries(page).first).to_contain_text("Created by alice")
    expect(entries(page).first).to_contain_text("Published from: 2 Oct 2096")


def test_versions_are_compared_and_shown_as_they_were(console: Console) -> None:
    video = spoilt(console.service)
    page = history(console, video)
    tab = panel(page, "History")
    field(page, "Compare version 3").check()
    field(page, "Compare version 1").check()
    button(page, "Compare").click()
    expect(heading(page, "Changes from version 1 to version 3")).to_be_focused()
    expect(tab).to_contain_text("Title: The harbour → SPOILT")
    expect(tab).to_contain_text("Category: travel → spoilt")
    require_good_layout(page)
    field(page, "From version").fill("2")
    field(page, "To version").fill("3")
    field(page, "To version").press("Enter")
    expect(heading(page, "Changes from version 2 to version 3")).to_be_visible()
    expect(tab).to_contain_text("Category: travel → spoilt")
    expect(tab).not_to_contain_text("Title:")
    field(page, "From version").fill("3")
    button(page, "Compare").click()
    expect(tab).to_contain_text("These versions are identical.")

    link(page, "Full history").click()
    link(page, "View version 1").click()
    was = page.get_by_role("article", name="Version 1", exact=True)
    expect(was).to_contain_text("The harbour")
    expect(was).to_contain_text("Ships at dawn.")
    expect(was).to_contain_text("Not stored for this version: Views")
    require_good_layout(page)
    link(page, "Version 2").click()
    expect(page.get_by_role("article", name="Version 2", exact=True)).to_contain_text("SPOILT")
    link(page, "Compare with current version").click()
    expect(tab).to_contain_text("Category: travel → spoilt")

    def at(query: str) -> None:
        page.goto(f"{console.service.base_url}/console/#/videos/{video['videoId']}?tab=history&{query}")

    at(f"asOf={stored(console.service, video)['updatedAt']}")
    expect(page.get_by_role("article", name="Version 3", exact=True)).to_contain_text("SPOILT")
    link(page, "Full history").click()
    field(page, "Video as of").fill("2001-02-03T04:05")
    button(page, "Show").click()
    expect(page.get_by_role("alert")).to_contain_text("The video did not exist at that time")
    at("version=99")
    expect(page.get_by_role("alert")).to_contain_text("has no version 99")


def test_going_back_leaves_alone_what_others_changed_unless_it_is_ticked(console: Console) -> None:
    video = spoilt(console.service)
    page = history(console, video)
    retries = HeldRequests(page, "**/revert?*")
    meet_first(
        page, "**/revert?*", lambda route: route.fulfill(status=503, headers={"Retry-After": "1"}, json=TRAIL_BEHIND)
    )
    button(page, "Revert to this version: 1").click()
    asking = dialog(page, "Revert to version 1?")
    expect(asking.get_by_role("status")).to_contain_text("not available yet")
    retries.let_go()  # it tries again by itself
    own = group(asking, "Fields to revert")
    expect(own).to_contain_text("Category: spoilt → travel")
    others = group(asking, "Changed later by other users. Select a field to revert it too.")
    expect(others).to_contain_text("Title: SPOILT → The harbour")
    title = field(others, "Title")
    expect(title).not_to_be_checked()
    expect(title).to_have_accessible_description(re.compile("changed by admin in version 2"))
    require_good_layout(page)
    title.check()
    field(own, "Metadata \u203a take/one").uncheck()
    button(asking, "Revert 2 fields").click()
    expect(heading(page, "The harbour")).to_be_visible()
    fields = ("title", "category", "description", "metadata", "version")
    assert {name: stored(console.service, video)[name] for name in fields} == {
        "title": "The harbour",
        "category": "travel",
        "description": "spoilt",  # nobody ticked it
        "metadata": {"take/one": "x"},
        "version": 4,
    }
    expect(entries(page).first).to_contain_text("Title: SPOILT → The harbour")


def test_undo_of_one_change_and_going_back_restart_after_a_concurrent_change(console: Console) -> None:
    video = spoilt(console.service)
    page = history(console, video)
    button(page, "Revert this change: version 2").click()
    button(dialog(page, "Revert the change to version 2?"), "Revert 2 fields").click()
    expect(heading(page, "The harbour")).to_be_visible()
    after = stored(console.service, video)
    assert (after["description"], after["category"], after["version"]) == ("Ships at dawn.", "spoilt", 4)
    page.close()

    settled(console.service, video)
    page = history(console, video)
    button(page, "Revert to this version: 2").click()
    asking = dialog(page, "Revert to version 2?")
    expect(field(asking, "Category")).to_be_checked()
    patched(console.service, video, "admin", category="faster")
    button(asking, "Revert 4 fields").click()
    expect(asking.get_by_role("alert")).to_contain_text("Another user changed the video")
    others = group(asking, "Changed later by other users. Select a field to revert it too.")
    expect(others).to_contain_text("Category: faster → travel")
    button(asking, "Revert 3 fields").click()
    expect(asking).to_have_count(0)
    after = stored(console.service, video)
    assert (after["category"], after["metadata"]) == ("faster", {})


def test_going_back_says_where_the_model_refuses_it_and_when_nothing_would_change(console: Console) -> None:
    series = console.service.create(title="The series")
    video = console.service.create(title="An episode", seriesId=series["videoId"], season=1, episode=2)
    patched(console.service, video, seriesId=None, season=None, episode=None)
    settled(console.service, video)
    settled(console.service, series)
    page = history(console, video)
    button(page, "Revert to this version: 1").click()
    asking = dialog(page, "Revert to version 1?")
    field(asking, "Series").uncheck()
    button(asking, "Revert 2 fields").click()
    expect(asking).to_contain_text("must have `seriesId` with `season` or `episode`")
    field(asking, "Series").check()
    button(asking, "Revert 3 fields").click()
    expect(asking).to_have_count(0)
    assert stored(console.service, video)["seriesId"] == series["videoId"]

    page.goto(f"{console.service.base_url}/console/#/videos/{series['videoId']}?tab=history")
    expect(heading(page, "The series")).to_be_visible()
    button(page, "Revert to this version: 1").click()
    expect(asking).to_contain_text("Nothing to revert")
    button(asking, "Close").click()
    expect(asking).to_have_count(0)


def renamed(service: Service, count: int, **fields: Any) -> tuple[str, list[dict[str, Any]]]:
    """Videos whose titles one request spoilt, and the id of its change set, once all of it is listed."""
    videos = [service.create(title=f"Film {number}", **fields) for number in range(count)]
    operations = [
        {"op": "patch", "videoId": video["videoId"], "patch": {"title": f"SPOILT {number}", "category": "spoilt"}}
        for number, video in enumerate(videos)
    ]
    sent(service, "POST", "/v1/videos/batch", {"operations": operations})
    set_id = settled(service, videos[0])
    listed(service, f"/v1/changesets/{set_id}?limit=100", count)
    return set_id, videos


def test_a_change_set_is_looked_at_undone_and_put_back(console: Console) -> None:
    set_id, videos = renamed(console.service, 3)
    patched(console.service, videos[0], "admin", title="Mended")
    settled(console.service, videos[0])

    def titles() -> list[str]:
        return [stored(console.service, video)["title"] for video in videos]

    theirs = console.open(f"changesets/{set_id}", "bob")
    # It looks some times, because the trail may be behind, and then it ends.
    expect(theirs.get_by_role("main")).to_contain_text("Change set not found.")
    theirs.close()
    page = console.open("changesets")
    field(page, "Change set ID").fill(f" {set_id} ")
    button(page, "Show").click()
    expect(entries(page)).to_have_count(3)
    expect(entries(page).filter(has_text="Film 1 → SPOILT 1").get_by_role("link")).to_have_text("SPOILT 1")
    button(page, "Preview revert").click()
    undo = region(page, "Revert")
    expect(heading(undo, "Revert preview")).to_be_focused()
    expect(undo).to_contain_text("Skipped: Title, changed by admin in version 3")
    require_good_layout(page)
    assert titles() == ["Mended", "SPOILT 1", "SPOILT 2"]

    button(undo, "Revert now").click()
    expect(heading(undo, "Reverted")).to_be_visible()
    assert titles() == ["Mended", "Film 1", "Film 2"]
    assert not any("category" in stored(console.service, video) for video in videos)
    require_good_layout(page)

    undo_link = link(undo, "View the change set of this revert")  # the undo is a change set as well
    undo_id = str(undo_link.get_attribute("href")).rpartition("/")[2]
    listed(console.service, f"/v1/changesets/{undo_id}?limit=100", len(videos))
    undo_link.click()
    expect(entries(page).filter(has_text="Title: SPOILT 1 → Film 1")).to_have_count(1)
    button(page, "Preview revert").click()
    button(page, "Revert now").click()
    expect(heading(page, "Reverted")).to_be_visible()
    assert titles() == ["Mended", "SPOILT 1", "SPOILT 2"]


def test_a_change_set_is_set_back_also_where_others_changed_it_if_that_is_ticked(console: Console) -> None:
    set_id, videos = renamed(console.service, 1)
    patched(console.service, videos[0], "admin", title="Mended")
    settled(console.service, videos[0])
    page = console.open(f"changesets/{set_id}")
    button(page, "Preview revert").click()
    forced = group(page, "Also revert fields that were changed later")
    field(forced, re.compile("^Title.*$")).check()
    button(page, "Revert now").click()
    expect(heading(page, "Reverted")).to_be_visible()
    assert stored(console.service, videos[0])["title"] == "Film 0"


def test_a_large_change_set_goes_on_by_itself_and_is_watched(console: Console, tmp_path: Path) -> None:
    set_id, videos = imported(console.service, tmp_path)
    eventually(lambda: size_of(console.service, set_id), lambda size: size == LARGE)
    page = console.open(f"changesets/{set_id}")
    undo = region(page, "Revert")
    button(undo, "Preview revert").click()
    expect(page).to_have_url(re.compile(r"\?revert="))
    expect(heading(undo, "Revert preview")).to_be_visible()
    expect(undo.get_by_role("status")).to_contain_text(f"{LARGE} would be reverted")
    button(undo, "Revert now").click()
    expect(heading(undo, re.compile("^(Reverting|Reverted)$"))).to_be_visible()
    page.reload()  # the address says which run it is
    expect(heading(undo, "Reverted")).to_be_visible()
    expect(undo.get_by_role("status")).to_contain_text(f"{LARGE} reverted")
    assert {stored(console.service, {"videoId": video})["status"] for video in videos[::20]} == {"deleted"}


def imported(service: Service, folder: Path) -> tuple[str, list[str]]:
    """The change set of an import, as it prints it, and the ids of alice's videos that it wrote."""
    videos = [str(uuid.uuid4()) for _ in range(LARGE)]
    lines = [
        json.dumps({"entity": "Video", "videoId": video, "userId": "alice", "status": "uploaded", "title": "Imported"})
        for video in videos
    ]
    file = folder / "videos.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "tools", "import", str(file), "--table", TABLE_NAME]
    done = subprocess.run(
        command, env=os.environ | service.aws.environment(), check=True, capture_output=True, cwd=ROOT, text=True
    )
    return re.findall(r"import-[0-9a-f-]{36}", done.stdout)[0], videos


def size_of(service: Service, changeset_id: str) -> int:
    """Return the current number of listed entries of a change set."""
    count, query = 0, "limit=100"
    while query:
        page = service.request("GET", f"/v1/changesets/{changeset_id}?{query}").json()
        count += len(page.get("items", []))
        cursor = page.get("nextCursor")
        query = f"limit=100&cursor={cursor}" if cursor else ""
    return count


def test_a_playlist_has_a_history_and_is_brought_back_by_it(console: Console) -> None:
    service = console.service
    videos = [service.create(title=title) for title in ("First", "Second")]
    playlist = sent(service, "POST", "/v1/playlists", {"title": "An evening"}).json()
    path = f"/v1/playlists/{playlist['playlistId']}"
    for video in videos:
        sent(service, "POST", f"{path}/entries", {"videoId": video["videoId"]})
    sent(service, "PATCH", f"{path}/entries/{videos[1]['videoId']}", {"after": None})
    sent(service, "DELETE", f"{path}/entries/{videos[0]['videoId']}")
    sent(service, "PATCH", path, {"title": "A night"})
    listed(service, f"{path}/audit", 6)
    page = console.open(f"playlists/{playlist['playlistId']}")
    heading(page, "History").click()
    expect(entries(page)).to_have_text(
        [
            re.compile("Title: An evening → A night"),
            re.compile("First: removed"),
            re.compile("Second: moved"),
            re.compile("Second: added"),
            re.compile("First: added"),
            re.compile("Playlist: created by alice"),
        ]
    )
    require_good_layout(page)

    sent(service, "DELETE", path)
    listed(service, f"{path}/audit", 7)
    page.reload()
    expect(heading(page, "Playlist deleted")).to_be_visible()
    require_good_layout(page)
    deletion = entries(page).filter(has_text="Playlist: deleted by alice")
    link(deletion, re.compile("^Change set of .*$")).click()
    button(page, "Preview revert").click()
    button(page, "Revert now").click()
    expect(heading(page, "Reverted")).to_be_visible()
    link(region(page, "Revert"), "A night").click()
    expect(page.get_by_role("article")).to_contain_text("Second")


def test_hostile_texts_of_a_history_run_nothing_and_break_no_layout(console: Console) -> None:
    service = console.service
    video = service.create(title=HOSTILE, description=HOSTILE, category=HOSTILE[:100])
    path = f"/v1/videos/{video['videoId']}"
    credit = {"name": HOSTILE, "ordering": 1, "roles": [{"category": HOSTILE[:64], "job": HOSTILE}]}
    sent(service, "PUT", f"{path}/credits/nm1", credit)
    patched(service, video, title="Tame", metadata={HOSTILE[:64]: HOSTILE, "__proto__": HOSTILE})
    set_id = settled(service, video)
    listed(service, f"{path}/audit", 3)
    listed(service, f"/v1/changesets/{set_id}", 1)
    page = history(console, video)
    expect(entries(page)).to_have_count(3)
    require_good_layout(page)

    button(page, "Revert to this version: 1").click()
    expect(field(dialog(page, "Revert to version 1?"), "Metadata \u203a __proto__")).to_be_checked()
    require_good_layout(page)
    page.keyboard.press("Escape")
    for route in ("tab=history&version=1", "tab=history&from=1&to=2"):
        page.goto(f"{service.base_url}/console/#/videos/{video['videoId']}?{route}")
        expect(panel(page, "History").filter(has_text="onerror")).to_be_visible()
        require_good_layout(page)
    page.goto(f"{service.base_url}/console/#/changesets/{set_id}")
    expect(entries(page).filter(has_text="onerror").first).to_be_visible()
    require_good_layout(page)
    assert page.locator("main img").count() == 0
