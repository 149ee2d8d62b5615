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
from tests.e2e.browser import HOSTILE, Console, require_good_layout
from tests.e2e.conftest import Service
from tests.e2e.locators import button, dialog, field, group, heading, link, panel, region
from tests.polling import eventually

LARGE = 101
"""Number of entries in a change set that is too large to be reverted within one request."""


def sent(service: Service, method: str, path: str, body: Any = None, user: str = "alice") -> httpx.Response:
    """Send a request that must succeed, and return the response."""
    reply = service.request(method, path, user, **({} if body is None else {"json": body}))
    assert reply.status_code < 300, reply.text
    return reply


def patched(service: Service, video: dict[str, Any], user: str = "alice", **fields: Any) -> None:
    """Patch a video."""
    sent(service, "PATCH", f"/v1/videos/{video['videoId']}", fields, user)


def listed(service: Service, path: str, count: int) -> list[dict[str, Any]]:
    """Return the entries of a history as soon as it has `count` of them. They appear a moment after the changes."""

    def entries() -> list[dict[str, Any]]:
        return list(service.request("GET", path, "admin").json().get("items", []))

    return eventually(entries, lambda items: len(items) >= count)


def settled(service: Service, video: dict[str, Any]) -> str:
    """Wait until the trail has the newest version of a video. Return the id of the change set that wrote the
    version."""
    path = f"/v1/videos/{video['videoId']}"
    version = service.request("GET", path).json()["version"]

    def sets() -> list[str]:
        items = service.request("GET", f"{path}/audit?limit=100").json()["items"]
        return [item["correlationId"] for item in items if (item["entity"], item.get("version")) == ("video", version)]

    return eventually(sets)[0]


def stored(service: Service, video: dict[str, Any]) -> dict[str, Any]:
    """Return the current video from the API."""
    return dict(service.request("GET", f"/v1/videos/{video['videoId']}").json())


def history(console: Console, video: dict[str, Any], user: str | None = "alice") -> Page:
    """Open the history of a video."""
    page = console.open(f"videos/{video['videoId']}?tab=history", user)
    expect(panel(page, "History")).to_be_visible()
    return page


def entries(page: Page) -> Locator:
    """Locate the displayed entries of the history."""
    return page.locator(".timeline > li")


def spoilt(service: Service) -> dict[str, Any]:
    """Return a video that alice created, admin changed wrongly, and alice changed again. The trail has all changes."""
    video = service.create(title="The harbour", description="Ships at dawn.", category="travel")
    patched(service, video, "admin", title="SPOILT", description="spoilt")
    patched(service, video, category="spoilt", metadata={"take/one": "x"})
    settled(service, video)
    return video


def test_versions_of_a_video_are_listed_compared_viewed_and_reverted(console: Console) -> None:
    service, video = console.service, spoilt(console.service)
    page = history(console, video)
    history_panel = panel(page, "History")
    newest = entries(page).filter(has_text="Changed by admin")
    expect(newest).to_contain_text("Title: The harbour → SPOILT")
    expect(link(newest, re.compile("^Change set of .*$"))).to_have_attribute("href", re.compile("^#/changesets/"))
    require_good_layout(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    field(page, "Compare version 3").check()
    field(page, "Compare version 1").check()
    link(page, "Compare").click()
    expect(heading(page, "Changes from version 1 to version 3")).to_be_focused()
    expect(history_panel).to_contain_text("Category: travel → spoilt")
    require_good_layout(page)

    link(page, "Full history").click()
    link(page, "View version 1").click()
    was = page.get_by_role("article", name="Version 1", exact=True)
    expect(was).to_contain_text("Ships at dawn.")
    expect(was).to_contain_text("Not stored for this version: Views")
    require_good_layout(page)
    page.goto(
        f"{service.base_url}/console/#/videos/{video['videoId']}?tab=history&asOf={stored(service, video)['updatedAt']}"
    )
    expect(page.get_by_role("article", name="Version 3", exact=True)).to_contain_text("SPOILT")
    link(page, "Full history").click()

    button(page, "Revert the change of version 2").click()
    revert_dialog = dialog(page, "Revert the change of version 2?")
    change_fields = group(revert_dialog, "Fields to revert")
    expect(field(change_fields, "Title")).to_be_checked()
    expect(field(group(revert_dialog, "Other differences from version 1"), "Category")).not_to_be_checked()
    require_good_layout(page)
    field(change_fields, "Description").uncheck()
    button(revert_dialog, "Revert 1 field").click()
    expect(heading(page, "The harbour")).to_be_visible()
    fields = ("title", "category", "description", "metadata", "version")
    assert {name: stored(service, video)[name] for name in fields} == {
        "title": "The harbour",
        "category": "spoilt",
        "description": "spoilt",  # its box is not ticked
        "metadata": {"take/one": "x"},
        "version": 4,
    }
    expect(entries(page).first).to_contain_text("Title: SPOILT → The harbour")
    button(page, "Revert to this version: 1").click()
    revert_dialog = dialog(page, "Revert to version 1?")
    later_fields = group(revert_dialog, "Changed later by other users. Select a field to revert it too.")
    expect(field(later_fields, "Description")).to_have_accessible_description(
        re.compile("changed by admin in version 2")
    )


def renamed(service: Service, count: int, **fields: Any) -> tuple[str, list[dict[str, Any]]]:
    """Create videos, and give all of them a wrong title in one change set. Return the change set's id and the videos.

    All entries of the change set are then in the trail.
    """
    videos = [service.create(title=f"Film {number}", **fields) for number in range(count)]
    operations = [
        {"op": "patch", "videoId": video["videoId"], "patch": {"title": f"SPOILT {number}", "category": "spoilt"}}
        for number, video in enumerate(videos)
    ]
    sent(service, "POST", "/v1/videos/batch", {"operations": operations})
    set_id = settled(service, videos[0])
    listed(service, f"/v1/changesets/{set_id}?limit=100", count)
    return set_id, videos


def test_change_set_is_shown_reverted_and_restored(console: Console) -> None:
    set_id, videos = renamed(console.service, 3)
    patched(console.service, videos[0], "admin", title="Mended")
    settled(console.service, videos[0])

    def titles() -> list[str]:
        return [stored(console.service, video)["title"] for video in videos]

    other_page = console.open(f"changesets/{set_id}", "bob")
    # Before the page shows this message, it retries several times, because the trail may lag.
    expect(other_page.get_by_role("main")).to_contain_text("Change set not found.")
    other_page.close()
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

    undo_link = link(undo, "View the change set of this revert")  # the revert is itself a change set
    undo_id = str(undo_link.get_attribute("href")).rpartition("/")[2]
    listed(console.service, f"/v1/changesets/{undo_id}?limit=100", len(videos))
    undo_link.click()
    expect(entries(page).filter(has_text="Title: SPOILT 1 → Film 1")).to_have_count(1)
    button(page, "Preview revert").click()
    button(page, "Revert now").click()
    expect(heading(page, "Reverted")).to_be_visible()
    assert titles() == ["Mended", "SPOILT 1", "SPOILT 2"]


def test_revert_of_a_large_change_set_runs_in_the_background_with_progress(console: Console, tmp_path: Path) -> None:
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
    page.reload()  # the URL contains the id of the run
    expect(heading(undo, "Reverted")).to_be_visible()
    expect(undo.get_by_role("status")).to_contain_text(f"{LARGE} reverted")
    assert {stored(console.service, {"videoId": video})["status"] for video in videos[::20]} == {"deleted"}


def imported(service: Service, folder: Path) -> tuple[str, list[str]]:
    """Return the change set that an import prints, and the ids of alice's videos that it wrote."""
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


def test_playlist_is_restored_from_its_history(console: Console) -> None:
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


def test_hostile_texts_of_a_history_run_no_script_and_keep_the_layout(console: Console) -> None:
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
