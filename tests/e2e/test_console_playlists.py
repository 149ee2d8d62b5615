"""The console's playlists: created, changed, filled and reordered."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.browser import HOSTILE, Console, HeldRequests, require_good_layout, seek
from tests.e2e.locators import button, dialog, field, heading, link, text

TITLES = (
    HOSTILE,
    "<script>window.hit = 1</script>",
    "\u202egnihtyreve snrut\u2067 \u05e9\u05dc\u05d5\u05dd",
    "W" * 300,
    "\U0001f3ac" * 150,
    ".",
)
"""Titles of videos that try to inject markup or to overflow their box."""


def playlist(console: Console, *titles: str, name: str = "An evening", **fields: Any) -> tuple[str, list[str]]:
    """Create a playlist of alice with a new video for each title. Return the playlist's id and the videos' ids."""
    reply = console.service.request("POST", "/v1/playlists", json={"title": name} | fields)
    assert reply.status_code == 201, reply.text
    playlist_id = reply.json()["playlistId"]
    with ThreadPoolExecutor(4) as pool:
        videos = [video["videoId"] for video in pool.map(lambda title: console.service.create(title=title), titles)]
    for video_id in videos:
        added = console.service.request("POST", f"/v1/playlists/{playlist_id}/entries", json={"videoId": video_id})
        assert added.status_code == 201, added.text
    return playlist_id, videos


def order(console: Console, playlist_id: str) -> list[str]:
    """Return the titles of a playlist's videos from the API."""
    entries = console.service.request("GET", f"/v1/playlists/{playlist_id}/entries?limit=100").json()["items"]
    return [entry["video"]["title"] for entry in entries]


def rows(page: Page) -> Locator:
    """Locate the displayed entries."""
    return page.get_by_role("list", name="Videos", exact=True).get_by_role("listitem")


def handle_of(page: Page, title: str) -> Locator:
    """Locate the drag handle of a video."""
    return button(page, f"Move {title}")


def handle_position(page: Page, title: str) -> tuple[float, float]:
    """Return the coordinates of a video's handle, from the left and from the top."""
    box = handle_of(page, title).bounding_box()
    assert box
    return box["x"] + 10, box["y"] + 10


def wait_for_order(page: Page, *titles: str) -> None:
    """Wait until the page shows these videos in this order."""
    expect(rows(page).locator(".title")).to_have_text(list(titles))


def act_and_await_move(page: Page, act: Callable[[], object]) -> None:
    """Call `act`, which moves an entry in the page, and wait until the service has stored the move."""
    with page.expect_response(lambda response: response.request.method == "PATCH") as response:
        act()
    assert response.value.status == 200, response.value.text()


def pull(page: Page, title: str, onto: str) -> None:
    """Drag a video by its handle over another video, without releasing it."""
    (x, start), (_, end) = handle_position(page, title), handle_position(page, onto)
    page.mouse.move(x, start)
    page.mouse.down()
    page.mouse.move(x, end, steps=5)
    expect(page.locator("[data-shift=dragged]")).to_contain_text(title)


def drag(page: Page, title: str, onto: str) -> None:
    """Drag a video by its handle to the position of another video."""
    pull(page, title, onto)
    page.mouse.up()


def test_playlist_is_created_filled_and_deleted(console: Console, unique: str) -> None:
    title, name = f"Film {unique}", f"Evening {unique}"
    video_id = console.service.create(title=title)["videoId"]
    page = console.open("playlists")
    button(page, "New playlist").click()
    expect(field(page, "Title")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    button(page, "New playlist").click()
    button(page, "Create").click()
    expect(field(page, "Title")).to_have_accessible_description("Must not be empty.")
    field(page, "Title").fill(name)
    field(page, "Visibility").select_option("public")
    button(page, "Create").click()
    expect(heading(page, name)).to_be_visible()
    expect(page).to_have_url(re.compile(r"#/playlists/[0-9a-f-]{36}$"))
    playlist_id = page.url.rpartition("/")[2]

    video_field, add = field(page, "Add a video"), button(page, "Add")
    video_field.fill("not a video")
    add.click()
    expect(video_field).to_have_accessible_description(re.compile("enter the address of a video page"))
    video_field.fill(f"{console.service.base_url}/console/#/videos/{video_id}?tab=history")
    add.click()
    wait_for_order(page, title)
    expect(link(page, re.compile(f"^{title} .*$"))).to_have_attribute("href", f"#/videos/{video_id}")
    video_field.fill(video_id.upper())
    add.click()
    expect(video_field).to_have_accessible_description(re.compile("already contains"))
    video_field.fill("00000000-0000-4000-8000-000000000000")
    add.click()
    expect(video_field).to_have_accessible_description(re.compile("Must be the id of an existing video"))
    assert order(console, playlist_id) == [title]
    button(page, f"Remove {title}").click()
    expect(rows(page)).to_have_count(0)
    video_field.fill(video_id)
    add.click()
    wait_for_order(page, title)
    assert order(console, playlist_id) == [title]

    button(page, "Delete").click()
    confirmation = dialog(page, "Delete playlist?")
    button(confirmation, "Cancel").click()
    button(page, "Delete").click()
    button(confirmation, "Delete").click()
    expect(heading(page, "Playlists")).to_be_visible()
    expect(link(page, name)).to_have_count(0)
    assert console.service.request("GET", f"/v1/playlists/{playlist_id}").status_code == 404


def test_playlist_form_loses_no_input_while_saving_or_after_a_concurrent_change(console: Console, unique: str) -> None:
    playlist_id, _ = playlist(console, name=f"Old {unique}", description="As it was")
    path = f"/v1/playlists/{playlist_id}"
    video_id = console.service.create(title="One")["videoId"]
    page = console.open(f"playlists/{playlist_id}")
    # The new entry is listed even if the video cannot be read.
    page.route(f"**/v1/videos/{video_id}", lambda route: route.abort("connectionfailed"))
    video_field = field(page, "Add a video")
    video_field.fill(video_id)
    with HeldRequests(page, f"**{path}/**", lambda request: request.method != "GET") as saving:
        video_field.press("Enter")
        saving.wait_for(1)
        expect(video_field).to_be_editable(editable=False)
        expect(video_field).to_be_focused()
    wait_for_order(page, "One")
    expect(video_field).to_be_editable()
    expect(video_field).to_have_value("")
    expect(text(page, "1 video")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)

    button(page, "Edit").click()
    title = field(page, "Title")
    expect(title).to_have_value(f"Old {unique}")
    title.fill(f"New {unique}")
    # An entry that was added concurrently causes no conflict.
    video = {"videoId": console.service.create()["videoId"]}
    assert console.service.request("POST", f"{path}/entries", json=video).status_code == 201
    with HeldRequests(page, f"**{path}", lambda request: request.method != "GET") as saving:
        title.press("Enter")
        saving.wait_for(1)
        for label in ("Title", "Description", "Visibility"):
            expect(field(page, label)).to_be_editable(editable=False)
    expect(heading(page, f"New {unique}")).to_be_visible()

    button(page, "Edit").click()
    expect(title).to_have_value(f"New {unique}")
    other_changes = {"title": f"Theirs {unique}", "description": "As they want it"}
    assert console.service.request("PATCH", path, json=other_changes).status_code == 200
    title.fill(f"Mine {unique}")
    button(page, "Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Changed by another user")
    expect(page.get_by_role("alert")).to_contain_text(f"Theirs {unique}")
    expect(title).to_have_value(f"Mine {unique}")
    expect(field(page, "Description")).to_have_value("As they want it")
    button(page, "Keep my changes").click()
    expect(heading(page, f"Mine {unique}")).to_be_visible()
    now = console.service.request("GET", path).json()
    assert (now["title"], now["description"]) == (f"Mine {unique}", "As they want it")


def test_videos_are_reordered_by_mouse_and_touch(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three", "Four", "Five", "Six", "Seven")
    page = console.open(f"playlists/{playlist_id}")
    wait_for_order(page, "One", "Two", "Three", "Four", "Five", "Six", "Seven")
    act_and_await_move(page, lambda: drag(page, "One", onto="Three"))
    wait_for_order(page, "Two", "Three", "One", "Four", "Five", "Six", "Seven")
    act_and_await_move(page, lambda: drag(page, "Four", onto="Two"))
    wait_for_order(page, "Four", "Two", "Three", "One", "Five", "Six", "Seven")
    pull(page, "Four", onto="Three")
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page.locator("[data-shift]")).to_have_count(0)
    wait_for_order(page, "Four", "Two", "Three", "One", "Five", "Six", "Seven")

    (x, start), (_, end) = handle_position(page, "Three"), handle_position(page, "Four")
    device = console.context.new_cdp_session(page)

    def touch(kind: str, *heights: float) -> None:
        points = [{"x": x, "y": height} for height in heights]
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def swipe() -> None:
        touch("touchStart", start)
        for part in (0.3, 0.6, 1):
            touch("touchMove", start + part * (end - start))
        touch("touchEnd")

    act_and_await_move(page, swipe)
    wait_for_order(page, "Three", "Four", "Two", "One", "Five", "Six", "Seven")

    page.set_viewport_size({"width": 800, "height": 500})
    # The bar at the bottom could cover the row, so the row is scrolled to the middle.
    handle_of(page, "Three").evaluate("handle => handle.scrollIntoView({ block: 'center' })")

    def drag_to_edge() -> None:
        x, start = handle_position(page, "Three")
        page.mouse.move(x, start)
        page.mouse.down()
        page.mouse.move(x, 495, steps=3)
        expect(rows(page).last).to_be_in_viewport(ratio=1)  # the page scrolls
        page.mouse.up()

    act_and_await_move(page, drag_to_edge)
    expected = ["Four", "Two", "One", "Five", "Six", "Seven", "Three"]
    wait_for_order(page, *expected)
    assert order(console, playlist_id) == expected
    page.reload()
    wait_for_order(page, *expected)


def test_videos_are_reordered_by_keyboard_and_by_buttons(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three")
    page = console.open(f"playlists/{playlist_id}")
    handle = handle_of(page, "One")
    announcement = page.locator("[aria-live=assertive]")
    handle.press("Enter")
    expect(announcement).to_contain_text("Picked up. Position 1 of 3")
    page.keyboard.press("ArrowDown")
    expect(announcement).to_have_text("Position 2.")
    page.keyboard.press("ArrowDown")
    wait_for_order(page, "Two", "Three", "One")
    expect(handle).to_be_focused()
    page.keyboard.press("Escape")
    expect(announcement).to_have_text("Move cancelled. Position 1.")
    wait_for_order(page, "One", "Two", "Three")
    expect(handle).to_be_focused()

    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    act_and_await_move(page, lambda: page.keyboard.press("Enter"))
    expect(announcement).to_have_text("Dropped at position 2.")
    expect(handle).to_be_focused()
    assert order(console, playlist_id) == ["Two", "One", "Three"]

    page.keyboard.press("Enter")
    act_and_await_move(page, lambda: page.keyboard.press("End"))
    wait_for_order(page, "Two", "Three", "One")
    assert order(console, playlist_id) == ["Two", "Three", "One"]

    handle.click()
    button(page, "Up").click()
    button(page, "Up").click()
    wait_for_order(page, "One", "Two", "Three")
    require_good_layout(page)
    act_and_await_move(page, button(page, "Drop").click)
    assert order(console, playlist_id) == ["One", "Two", "Three"]


def test_refused_move_is_reverted_and_can_be_retried(console: Console) -> None:
    playlist_id, (one, two, _) = playlist(console, "One", "Two", "Three")
    page = console.open(f"playlists/{playlist_id}")
    wait_for_order(page, "One", "Two", "Three")
    console.context.set_offline(True)
    drag(page, "One", onto="Three")
    expect(page.get_by_role("main")).to_contain_text("“One” was not moved.")
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    wait_for_order(page, "One", "Two", "Three")
    console.context.set_offline(False)
    act_and_await_move(page, button(page, "Try again").click)
    wait_for_order(page, "Two", "Three", "One")
    assert order(console, playlist_id) == ["Two", "Three", "One"]

    console.service.request("DELETE", f"/v1/playlists/{playlist_id}/entries/{two}")
    drag(page, "One", onto="Three")  # after a removed entry
    expect(page.get_by_role("main")).to_contain_text("“One” was not moved.")
    button(page, "Try again").click()
    wait_for_order(page, "Three", "One")

    assert console.service.request("DELETE", f"/v1/videos/{one}").status_code == 204
    page.reload()
    wait_for_order(page, "Three")
    expect(page.get_by_role("main")).to_contain_text("1 more video is deleted or not visible to you.")


def test_public_playlists_are_read_only_for_other_users(console: Console, unique: str) -> None:
    name = f"Open {unique}"
    playlist(console, name=name, visibility="public")
    hidden_id, _ = playlist(console, name=f"Hidden {unique}")
    page = console.open("playlists", "bob")
    page.get_by_role("textbox", name="Playlists of a user", exact=True).fill("alice")
    button(page, "Show").click()
    expect(heading(page, "Playlists of alice")).to_be_visible()
    seek(page, name)
    link(page, re.compile(f"^{name}.*$")).click()
    expect(heading(page, name)).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("No videos")
    for action in ("Edit", "Delete", "Add"):
        expect(button(page, action)).to_have_count(0)
    page.goto(f"{console.service.base_url}/console/#/playlists/{hidden_id}")
    expect(page.get_by_role("alert")).to_contain_text("The playlist does not exist")


def test_long_playlist_loads_to_its_end_and_the_end_key_moves_a_video_there(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three", "Four", "Five")
    page = console.open("playlists")
    entries = f"**/v1/playlists/{playlist_id}/entries?*"

    def by_threes(route: Route) -> None:
        route.continue_(url=route.request.url.replace("limit=50", "limit=3"))

    page.route(entries, by_threes)
    with HeldRequests(page, entries, lambda request: "cursor=" in request.url) as second:
        page.goto(f"{console.service.base_url}/console/#/playlists/{playlist_id}")
        wait_for_order(page, "One", "Two", "Three")
        second.wait_for(1)
        handle_of(page, "One").press("Enter")
        act_and_await_move(page, lambda: page.keyboard.press("End"))
        wait_for_order(page, "Two", "Three")
    wait_for_order(page, "Two", "Three", "Four", "Five", "One")
    expect(button(page, "Load more")).to_have_count(0)
    assert order(console, playlist_id) == ["Two", "Three", "Four", "Five", "One"]


def test_hostile_titles_of_a_playlist_run_no_script_and_keep_the_layout(console: Console, unique: str) -> None:
    name = (unique + "W" * 300)[:300]
    playlist_id, _ = playlist(console, *TITLES, name=name, description="<b>W</b>" * 100)
    page = console.open("playlists")
    seek(page, name)
    require_good_layout(page)
    page.goto(f"{console.service.base_url}/console/#/playlists/{playlist_id}")
    wait_for_order(page, *TITLES)
    require_good_layout(page)
    button(page, "Edit").click()
    expect(field(dialog(page, "Edit playlist"), "Title")).to_have_value(name)
    require_good_layout(page)
