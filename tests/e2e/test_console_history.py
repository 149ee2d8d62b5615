"""What a video was, what changed, and taking it back, in the console."""

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Literal

import httpx
from playwright.sync_api import Locator, Page, Route, expect

from local import ROOT
from shared.schema import TABLE_NAME
from tests.e2e.browser import Console, Hold, meet_first, serious
from tests.e2e.conftest import Service
from tests.waiting import eventually

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
HOSTILE = '<img src=x onerror="window.hit=1">\u202e\u0645\u064a\u0646\u0627\u0621 \U0001f3ac ' + "W" * 150
BEHIND = {
    "type": "urn:video-metadata:problem:trail-behind",
    "title": "Audit trail behind",
    "status": 503,
    "detail": "The newest changes are not in the audit trail yet; try again.",
}
"""As the service answers while a change is not in the trail yet."""
LARGE = 101
"""Entries of a change set that is too large to be taken back at once."""


def sent(service: Service, method: str, path: str, body: Any = None, user: str = "alice") -> httpx.Response:
    """What is answered to a request that has to succeed."""
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

    return eventually(entries, lambda seen: len(seen) >= count)


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


def history(console: Console, video: dict[str, Any], user: str | None = "alice", **query: str) -> Page:
    """A page at the history of a video."""
    wanted = "".join(f"&{name}={value}" for name, value in query.items())
    page = console.open(f"videos/{video['videoId']}?tab=history{wanted}", user)
    expect(page.get_by_role("tabpanel", name="History")).to_be_visible()
    return page


def entries(page: Page) -> Locator:
    """The entries of the history that the page shows."""
    return page.locator(".timeline > li")


def is_accessible_at_any_width(page: Page) -> None:
    """See that a page has no serious fault, in either scheme, and that nothing is wider than a small telephone."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert serious(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size({"width": 1280, "height": 800})


def spoilt(service: Service) -> dict[str, Any]:
    """A video that alice made, admin spoilt, and alice changed again; all of it is in the trail."""
    video = service.create(title="The harbour", description="Ships at dawn.", category="travel")
    patched(service, video, "admin", title="SPOILT", description="spoilt")
    patched(service, video, category="spoilt", metadata={"take/one": "x"})
    settled(service, video)
    return video


class TestTheTimeline:
    def test_says_in_words_who_changed_what(self, console: Console) -> None:
        video = console.service.create(title="Before", description="x" * 300, publishAt=4_000_000_000)
        patched(console.service, video, "admin", title="After", description="short", metadata={"take/one": True})
        set_id = settled(console.service, video)
        page = history(console, video)
        expect(entries(page)).to_have_count(2)
        newest = entries(page).first
        expect(newest).to_contain_text("Changed by admin")
        expect(newest).to_contain_text("Title: Before → After")
        expect(newest).to_contain_text("take/one: yes")
        long = newest.get_by_role("group")
        expect(long.get_by_text("x" * 300)).to_be_hidden()
        long.get_by_text(re.compile("^x")).first.click()
        expect(long.get_by_text("x" * 300)).to_be_visible()
        expect(newest.get_by_role("link", name="Change set")).to_have_attribute("href", f"#/changesets/{set_id}")
        page.get_by_role("button", name="Oldest first").click()
        expect(entries(page).first).to_contain_text("Created by alice")
        expect(entries(page).first).to_contain_text(re.compile(r"Published from: 2 Oct 2096"))

    def test_has_what_lies_beside_the_video(self, console: Console) -> None:
        video = console.service.create(title="With a crew")
        path = f"/v1/videos/{video['videoId']}"
        credit = {"name": "Ada", "ordering": 1, "roles": [{"category": "actor", "characters": ["Roy"]}]}
        sent(console.service, "PUT", f"{path}/credits/nm1", credit)
        sent(console.service, "PUT", f"{path}/releases/DE", {"titles": [{"title": "Der Hafen"}]})
        sent(console.service, "DELETE", f"{path}/credits/nm1")
        listed(console.service, f"{path}/audit", 4)
        page = history(console, video)
        expect(entries(page)).to_have_count(4)
        expect(page.get_by_text("Credit of Ada: created")).to_be_visible()
        expect(page.get_by_text("Credit of Ada: removed")).to_be_visible()
        expect(entries(page).filter(has_text="Credit of Ada: created")).to_contain_text("Characters: Roy")
        expect(entries(page).filter(has_text="Titles, Germany: created")).to_contain_text("Der Hafen")

    def test_folds_many_fields(self, console: Console) -> None:
        video = console.service.create(title="Large")
        patched(console.service, video, metadata={f"key{number}": number for number in range(50)})
        settled(console.service, video)
        page = history(console, video)
        last = entries(page).get_by_text("key9: 9")  # they are sorted as texts
        expect(last).to_be_hidden()
        page.get_by_text("38 more fields").click()
        expect(last).to_be_visible()

    def test_marks_what_is_cut(self, console: Console) -> None:
        video = console.service.create(title="Large", description="The beginning")
        settled(console.service, video)
        page = console.open("playlists")

        def cut(route: Route) -> None:
            page_of_entries = route.fetch().json()
            for change in page_of_entries["items"][0]["changes"]:
                if change["field"] == "/description":
                    change["toBytes"] = 300_000  # as of a value that is larger than any field of a video can be
            route.fulfill(json=page_of_entries)

        page.route("**/audit?*", cut)
        page.goto(f"{console.service.base_url}/console/#/videos/{video['videoId']}?tab=history")
        expect(entries(page)).to_contain_text("The beginning cut: the beginning of 300,000 bytes")


class TestComparing:
    def test_two_entries_that_are_picked(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video)
        page.get_by_label("Compare version 3").check()
        page.get_by_label("Compare version 1").check()
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.get_by_role("heading", name="From version 1 to version 3")).to_be_focused()
        panel = page.get_by_role("tabpanel", name="History")
        expect(panel).to_contain_text("Title: The harbour → SPOILT")
        expect(panel).to_contain_text("Category: travel → spoilt")
        is_accessible_at_any_width(page)

    def test_two_versions_that_are_typed(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video, version="1")
        page.get_by_role("link", name="Whole history").click()
        page.get_by_label("From version").fill("2")
        page.get_by_label("To version").fill("3")
        page.get_by_label("To version").press("Enter")
        panel = page.get_by_role("tabpanel", name="History")
        expect(panel).to_contain_text("Category: travel → spoilt")
        expect(panel).not_to_contain_text("Title:")
        page.get_by_label("From version").fill("3")
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(panel).to_contain_text("Nothing differs between them.")


class TestAVersion:
    def test_is_shown_as_it_was(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video)
        page.get_by_role("link", name="The video as it was in version 1").click()
        was = page.get_by_role("article", name="Version 1")
        expect(was).to_contain_text("The harbour")
        expect(was).to_contain_text("Ships at dawn.")
        expect(was).to_contain_text("Not kept of this version: Views")
        is_accessible_at_any_width(page)
        page.get_by_role("link", name="Version 2", exact=True).click()
        expect(page.get_by_role("article", name="Version 2")).to_contain_text("SPOILT")
        page.get_by_role("link", name="What has changed since").click()
        expect(page.get_by_role("tabpanel", name="History")).to_contain_text("Category: travel → spoilt")

    def test_is_found_by_its_time(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video, asOf=str(stored(console.service, video)["updatedAt"]))
        expect(page.get_by_role("article", name="Version 3")).to_contain_text("SPOILT")
        page.get_by_role("link", name="Whole history").click()
        page.get_by_label("As it was on").fill("2001-02-03T04:05")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("There was no such video at that time")

    def test_that_never_was_is_said_so(self, console: Console) -> None:
        page = history(console, spoilt(console.service), version="99")
        expect(page.get_by_role("alert")).to_contain_text("never had a version 99")


class TestGoingBack:
    def test_leaves_alone_what_others_changed_unless_it_is_ticked(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video)
        page.get_by_role("button", name="Go back to this: version 1").click()
        dialog = page.get_by_role("dialog", name="Go back to version 1?")
        own = dialog.get_by_role("group", name="This is set back")
        expect(own).to_contain_text("Category: spoilt → travel")
        others = dialog.get_by_role("group", name="Changed since by others")
        expect(others).to_contain_text("Title: SPOILT → The harbour")
        expect(others.get_by_label("Title")).not_to_be_checked()
        expect(others.get_by_label("Title")).to_have_accessible_description(re.compile("changed by admin in version 2"))
        is_accessible_at_any_width(page)
        others.get_by_label("Title").check()
        own.get_by_label("take/one").uncheck()
        dialog.get_by_role("button", name="Set back 2 fields").click()
        expect(page.get_by_role("heading", name="The harbour")).to_be_visible()
        fields = ("title", "category", "description", "metadata", "version")
        assert {name: stored(console.service, video)[name] for name in fields} == {
            "title": "The harbour",
            "category": "travel",
            "description": "spoilt",  # nobody ticked it
            "metadata": {"take/one": "x"},
            "version": 4,
        }
        expect(entries(page).first).to_contain_text("Title: SPOILT → The harbour")

    def test_one_change_is_undone_alone(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video, "admin")
        page.get_by_role("button", name="Undo this change: version 2").click()
        page.get_by_role("dialog").get_by_role("button", name="Set back 2 fields").click()
        expect(page.get_by_role("heading", name="The harbour")).to_be_visible()
        after = stored(console.service, video)
        assert (after["description"], after["category"]) == ("Ships at dawn.", "spoilt")

    def test_begins_anew_when_somebody_is_faster(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video)
        page.get_by_role("button", name="Go back to this: version 2").click()
        dialog = page.get_by_role("dialog", name="Go back to version 2?")
        expect(dialog.get_by_label("Category")).to_be_checked()
        patched(console.service, video, "admin", category="faster")
        dialog.get_by_role("button", name="Set back 2 fields").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Somebody changed the video in the meantime")
        others = dialog.get_by_role("group", name="Changed since by others")
        expect(others).to_contain_text("Category: faster → travel")
        dialog.get_by_role("button", name="Set back 1 field").click()
        expect(dialog).to_have_count(0)
        after = stored(console.service, video)
        assert (after["category"], after["metadata"]) == ("faster", {})

    def test_waits_while_the_trail_is_behind(self, console: Console) -> None:
        video = spoilt(console.service)
        page = history(console, video)
        again = Hold(page, "**/revert?*")
        meet_first(
            page, "**/revert?*", lambda route: route.fulfill(status=503, headers={"Retry-After": "1"}, json=BEHIND)
        )
        page.get_by_role("button", name="Go back to this: version 2").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("status")).to_contain_text("still on their way")
        again.let_go()
        expect(dialog.get_by_label("Category")).to_be_checked()  # it tried again by itself

    def test_says_where_the_model_refuses_it(self, console: Console) -> None:
        series = console.service.create(title="The series")
        video = console.service.create(title="An episode", seriesId=series["videoId"], season=1, episode=2)
        patched(console.service, video, seriesId=None, season=None, episode=None)
        settled(console.service, video)
        page = history(console, video)
        page.get_by_role("button", name="Go back to this: version 1").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Series").uncheck()
        dialog.get_by_role("button", name="Set back 2 fields").click()
        expect(dialog).to_contain_text("season and episode need the seriesId")
        dialog.get_by_label("Series").check()
        dialog.get_by_role("button", name="Set back 3 fields").click()
        expect(dialog).to_have_count(0)
        assert stored(console.service, video)["seriesId"] == series["videoId"]

    def test_says_so_when_nothing_would_change(self, console: Console) -> None:
        video = console.service.create(title="As ever")
        settled(console.service, video)
        page = history(console, video)
        page.get_by_role("button", name="Go back to this: version 1").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Nothing would change")
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)


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


class TestAChangeSet:
    def test_is_looked_at_undone_and_put_back(self, console: Console) -> None:
        set_id, videos = renamed(console.service, 3)
        patched(console.service, videos[0], "admin", title="Mended")
        settled(console.service, videos[0])
        page = console.open(f"changesets/{set_id}")
        expect(entries(page)).to_have_count(3)
        expect(entries(page).filter(has_text="Film 1 → SPOILT 1").get_by_role("link")).to_have_text("SPOILT 1")
        page.get_by_role("button", name="See what taking it back would do").click()
        undo = page.get_by_role("region", name="Take it back")
        expect(undo.get_by_role("heading", name="What taking it back would do")).to_be_focused()
        expect(undo.get_by_text("Left alone: Title, changed by admin in version 3")).to_be_visible()
        is_accessible_at_any_width(page)
        assert [stored(console.service, video)["title"] for video in videos] == ["Mended", "SPOILT 1", "SPOILT 2"]

        undo.get_by_role("button", name="Take it back now").click()
        expect(undo.get_by_role("heading", name="Taken back")).to_be_visible()
        assert [stored(console.service, video)["title"] for video in videos] == ["Mended", "Film 1", "Film 2"]
        assert not any("category" in stored(console.service, video) for video in videos)
        is_accessible_at_any_width(page)

        again = undo.get_by_role("link", name="take this back too")  # the undo is a change set as well
        undo_id = str(again.get_attribute("href")).rpartition("/")[2]
        listed(console.service, f"/v1/changesets/{undo_id}?limit=100", len(videos))
        again.click()
        expect(page.get_by_text("Title: SPOILT 1 → Film 1")).to_be_visible()
        page.get_by_role("button", name="See what taking it back would do").click()
        page.get_by_role("button", name="Take it back now").click()
        expect(page.get_by_role("heading", name="Taken back")).to_be_visible()
        assert [stored(console.service, video)["title"] for video in videos] == ["Mended", "SPOILT 1", "SPOILT 2"]

    def test_sets_back_what_others_changed_where_somebody_says_so(self, console: Console) -> None:
        set_id, videos = renamed(console.service, 1)
        patched(console.service, videos[0], "admin", title="Mended")
        settled(console.service, videos[0])
        page = console.open(f"changesets/{set_id}")
        page.get_by_role("button", name="See what taking it back would do").click()
        page.get_by_role("group", name="Set back as well").get_by_label("Title").check()
        page.get_by_role("button", name="Take it back now").click()
        expect(page.get_by_role("heading", name="Taken back")).to_be_visible()
        assert stored(console.service, videos[0])["title"] == "Film 0"

    def test_is_found_by_its_id(self, console: Console) -> None:
        set_id, _ = renamed(console.service, 1)
        page = console.open("changesets")
        page.get_by_label("Id of the change set").fill(f" {set_id} ")
        page.get_by_role("button", name="Show").click()
        expect(entries(page)).to_contain_text("Film 0 → SPOILT 0")

    def test_of_somebody_else_is_not_shown(self, console: Console) -> None:
        set_id, _ = renamed(console.service, 1)
        page = console.open(f"changesets/{set_id}", "bob")
        expect(page.get_by_text("There is no such change set, or nothing of it is yours.")).to_be_visible()

    def test_that_is_large_goes_on_by_itself_and_is_watched(self, console: Console, tmp_path: Path) -> None:
        set_id, videos = imported(console.service, tmp_path)
        eventually(lambda: size_of(console.service, set_id), lambda size: size == LARGE)
        page = console.open(f"changesets/{set_id}")
        undo = page.get_by_role("region", name="Take it back")
        undo.get_by_role("button", name="See what taking it back would do").click()
        expect(page).to_have_url(re.compile(r"\?revert="))
        expect(undo.get_by_role("heading", name="What taking it back would do")).to_be_visible()
        expect(undo.get_by_role("status")).to_contain_text(f"{LARGE} would be set back")
        undo.get_by_role("button", name="Take it back now").click()
        expect(undo.get_by_role("heading", name=re.compile("^Tak"))).to_be_visible()
        page.reload()  # the address says which run it is
        expect(undo.get_by_role("heading", name="Taken back")).to_be_visible()
        expect(undo.get_by_role("status")).to_contain_text(f"{LARGE} set back")
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
    """How many entries of a change set are listed by now."""
    count, query = 0, "limit=100"
    while query:
        page = service.request("GET", f"/v1/changesets/{changeset_id}?{query}").json()
        count += len(page.get("items", []))
        cursor = page.get("nextCursor")
        query = f"limit=100&cursor={cursor}" if cursor else ""
    return count


def test_a_playlist_has_a_history_of_its_own(console: Console) -> None:
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
    page.get_by_text("History", exact=True).click()
    expect(entries(page)).to_have_count(6)
    for number, words in enumerate(
        ("Title: An evening → A night", "First: taken out", "Second: moved", "Second: put in", "First: put in")
    ):
        expect(entries(page).nth(number)).to_contain_text(words)
    expect(entries(page).last).to_contain_text("Playlist: created by alice")
    is_accessible_at_any_width(page)


def test_a_deleted_playlist_is_brought_back(console: Console) -> None:
    video = console.service.create(title="First")
    playlist = sent(console.service, "POST", "/v1/playlists", {"title": "An evening"}).json()
    path = f"/v1/playlists/{playlist['playlistId']}"
    sent(console.service, "POST", f"{path}/entries", {"videoId": video["videoId"]})
    sent(console.service, "DELETE", path)
    listed(console.service, f"{path}/audit", 3)
    page = console.open(f"playlists/{playlist['playlistId']}")
    expect(page.get_by_role("heading", name="It is deleted")).to_be_visible()
    is_accessible_at_any_width(page)
    entries(page).filter(has_text="Playlist: deleted by alice").get_by_role("link", name="Change set").click()
    page.get_by_role("button", name="See what taking it back would do").click()
    page.get_by_role("button", name="Take it back now").click()
    expect(page.get_by_role("heading", name="Taken back")).to_be_visible()
    page.get_by_role("region", name="Take it back").get_by_role("link", name="An evening").click()
    expect(page.get_by_role("article")).to_contain_text("First")


def test_hostile_texts_run_nothing_and_break_no_layout(console: Console) -> None:
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
    is_accessible_at_any_width(page)

    page.get_by_role("button", name="Go back to this: version 1").click()
    expect(page.get_by_role("dialog").get_by_label("__proto__")).to_be_checked()
    is_accessible_at_any_width(page)
    page.keyboard.press("Escape")
    for place in ("tab=history&version=1", "tab=history&from=1&to=2"):
        page.goto(f"{service.base_url}/console/#/videos/{video['videoId']}?{place}")
        expect(page.get_by_role("tabpanel", name="History").get_by_text("onerror").first).to_be_visible()
        is_accessible_at_any_width(page)
    page.goto(f"{service.base_url}/console/#/changesets/{set_id}")
    expect(entries(page).get_by_text("onerror").first).to_be_visible()
    is_accessible_at_any_width(page)
    assert page.locator("main img").count() == 0
    assert page.evaluate("window.hit ?? null") is None
