"""The console's playlists: made, changed, filled, and put into order by hand."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.browser import Console, seek, serious

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
HOSTILE = [
    "<script>window.ran = true</script>",
    '"><img src=x onerror="window.ran = true">',
    "\u202egnihtyreve snrut\u2067 \u05e9\u05dc\u05d5\u05dd",
    "W" * 300,
    "\U0001f3ac" * 150,
    ".",
]


def playlist(console: Console, *titles: str, name: str = "An evening", **fields: Any) -> tuple[str, list[str]]:
    """A playlist of alice's with a new video for each title; its id, and theirs."""
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
    """The titles of a playlist's videos, as the API has them."""
    entries = console.service.request("GET", f"/v1/playlists/{playlist_id}/entries?limit=100").json()["items"]
    return [entry["video"]["title"] for entry in entries]


def rows(page: Page) -> Locator:
    """The entries that the page shows."""
    return page.get_by_role("article").get_by_role("list").get_by_role("listitem")


def handle_of(page: Page, title: str) -> Locator:
    """What a video is moved by."""
    return page.get_by_role("button", name=f"Move {title}", exact=True)


def place_of(page: Page, title: str) -> tuple[float, float]:
    """Where its handle is, from the left and from the top."""
    box = handle_of(page, title).bounding_box()
    assert box
    return box["x"] + 10, box["y"] + 10


def shown(page: Page, *titles: str) -> None:
    """Wait until the page shows these videos in this order."""
    expect(rows(page).locator(".title")).to_have_text(list(titles))


def moves(page: Page, act: Callable[[], object]) -> None:
    """Do what moves an entry, and wait until the service has moved it."""
    with page.expect_response(lambda answer: answer.request.method == "PATCH") as answer:
        act()
    assert answer.value.status == 200, answer.value.text()


def drag(page: Page, title: str, onto: str) -> None:
    """Drag a video by its handle to the place of another one."""
    (x, start), (_, end) = place_of(page, title), place_of(page, onto)
    page.mouse.move(x, start)
    page.mouse.down()
    page.mouse.move(x, end, steps=5)
    page.mouse.up()


def test_a_playlist_is_created_and_filled(console: Console, unique: str) -> None:
    video_id = console.service.create(title=f"Film {unique}")["videoId"]
    page = console.open("playlists")
    page.get_by_role("button", name="New playlist").click()
    page.get_by_label("Title").fill(f"Evening {unique}")
    page.get_by_label("Who may see it").select_option("public")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=f"Evening {unique}")).to_be_visible()
    expect(page).to_have_url(re.compile(r"#/playlists/[0-9a-f-]{36}$"))
    playlist_id = page.url.rpartition("/")[2]

    field = page.get_by_label("Add a video")
    field.fill("not a video")
    page.get_by_role("button", name="Add").click()
    expect(field).to_have_accessible_description(re.compile("neither the address of a video nor its id"))
    field.fill(f"{console.service.base_url}/console/#/videos/{video_id}?tab=history")
    page.get_by_role("button", name="Add").click()
    shown(page, f"Film {unique}")
    expect(page.get_by_role("link", name=f"Film {unique}")).to_have_attribute("href", f"#/videos/{video_id}")
    field.fill(video_id.upper())
    page.get_by_role("button", name="Add").click()
    expect(field).to_have_accessible_description(re.compile("already contains"))
    field.fill("00000000-0000-4000-8000-000000000000")
    page.get_by_role("button", name="Add").click()
    expect(field).to_have_accessible_description(re.compile("There is no such video"))
    assert order(console, playlist_id) == [f"Film {unique}"]
    page.get_by_role("button", name=f"Remove Film {unique}").click()
    expect(rows(page)).to_have_count(0)
    field.fill(video_id)
    page.get_by_role("button", name="Add").click()
    shown(page, f"Film {unique}")
    assert order(console, playlist_id) == [f"Film {unique}"]


def test_a_video_that_was_added_is_listed_though_it_could_not_be_read(console: Console) -> None:
    playlist_id, _ = playlist(console, "One")
    video_id = console.service.create(title="Two")["videoId"]
    page = console.open(f"playlists/{playlist_id}")
    shown(page, "One")
    page.route(f"**/v1/videos/{video_id}", lambda route: route.abort("connectionfailed"))
    page.get_by_label("Add a video").fill(video_id)
    page.get_by_role("button", name="Add").click()
    shown(page, "One", "Two")
    expect(page.get_by_text("2 videos")).to_be_visible()
    expect(page.get_by_label("Add a video")).to_have_value("")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_nothing_can_be_typed_that_would_be_lost_once_it_is_saved(console: Console, unique: str) -> None:
    playlist_id, _ = playlist(console, name=f"Old {unique}")
    video_id = console.service.create(title="One")["videoId"]
    page = console.open(f"playlists/{playlist_id}")
    held: list[Route] = []
    page.route(
        f"**/v1/playlists/{playlist_id}**",
        lambda route: route.continue_() if route.request.method == "GET" else held.append(route),
    )
    field = page.get_by_label("Add a video")
    field.fill(video_id)
    field.press("Enter")
    expect(field).to_be_editable(editable=False)
    expect(field).to_be_focused()
    held.pop().continue_()
    shown(page, "One")
    expect(field).to_be_editable()
    expect(field).to_have_value("")

    page.get_by_role("button", name="Edit").click()
    title = page.get_by_label("Title")
    title.fill(f"New {unique}")
    title.press("Enter")
    for label in ("Title", "Description", "Who may see it"):
        expect(page.get_by_label(label)).to_be_editable(editable=False)
    held.pop().continue_()
    expect(page.get_by_role("heading", name=f"New {unique}")).to_be_visible()


def test_what_is_wrong_with_a_new_playlist_is_shown_at_its_field(console: Console) -> None:
    page = console.open("playlists")
    page.get_by_role("button", name="New playlist").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Title")).to_have_accessible_description(re.compile("at least 1 character"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_playlist_is_deleted_when_that_is_confirmed(console: Console, unique: str) -> None:
    playlist_id, _ = playlist(console, name=f"Short-lived {unique}")
    page = console.open(f"playlists/{playlist_id}")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Playlists", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=f"Short-lived {unique}")).to_have_count(0)
    assert console.service.request("GET", f"/v1/playlists/{playlist_id}").status_code == 404


def test_videos_are_reordered_by_dragging(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three", "Four")
    page = console.open(f"playlists/{playlist_id}")
    shown(page, "One", "Two", "Three", "Four")
    moves(page, lambda: drag(page, "One", onto="Three"))
    shown(page, "Two", "Three", "One", "Four")
    assert order(console, playlist_id) == ["Two", "Three", "One", "Four"]
    moves(page, lambda: drag(page, "Four", onto="Two"))
    assert order(console, playlist_id) == ["Four", "Two", "Three", "One"]
    page.reload()
    shown(page, "Four", "Two", "Three", "One")


def test_a_drag_to_the_edge_of_the_window_rolls_the_page(console: Console) -> None:
    titles = ["One", "Two", "Three", "Four", "Five", "Six", "Seven"]
    playlist_id, _ = playlist(console, *titles)
    page = console.open(f"playlists/{playlist_id}")
    shown(page, *titles)
    page.set_viewport_size({"width": 800, "height": 500})
    handle_of(page, "One").scroll_into_view_if_needed()

    def pull() -> None:
        x, start = place_of(page, "One")
        page.mouse.move(x, start)
        page.mouse.down()
        page.mouse.move(x, 495, steps=3)
        expect(rows(page).last).to_be_in_viewport(ratio=1)
        page.mouse.up()

    moves(page, pull)
    assert order(console, playlist_id) == [*titles[1:], "One"]


def test_escape_ends_a_drag(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two")
    page = console.open(f"playlists/{playlist_id}")
    shown(page, "One", "Two")
    (x, start), (_, end) = place_of(page, "One"), place_of(page, "Two")
    page.mouse.move(x, start)
    page.mouse.down()
    page.mouse.move(x, end, steps=3)
    expect(page.locator("[data-shift=dragged]")).to_contain_text("One")
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page.locator("[data-shift]")).to_have_count(0)
    shown(page, "One", "Two")
    assert order(console, playlist_id) == ["One", "Two"]


def test_videos_are_reordered_by_touch(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three")
    page = console.open(f"playlists/{playlist_id}")
    shown(page, "One", "Two", "Three")
    (x, start), (_, end) = place_of(page, "Three"), place_of(page, "One")
    device = console.context.new_cdp_session(page)

    def touch(kind: str, *heights: float) -> None:
        points = [{"x": x, "y": height} for height in heights]
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def swipe() -> None:
        touch("touchStart", start)
        for part in (0.3, 0.6, 1):
            touch("touchMove", start + part * (end - start))
        touch("touchEnd")

    moves(page, swipe)
    shown(page, "Three", "One", "Two")
    assert order(console, playlist_id) == ["Three", "One", "Two"]


def test_videos_are_reordered_by_keyboard(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three")
    page = console.open(f"playlists/{playlist_id}")
    handle = handle_of(page, "One")
    said = page.locator("[aria-live=assertive]")
    handle.press("Enter")
    expect(said).to_contain_text("Lifted, at place 1 of 3")
    page.keyboard.press("ArrowDown")
    expect(said).to_have_text("Place 2.")
    page.keyboard.press("ArrowDown")
    shown(page, "Two", "Three", "One")
    expect(handle).to_be_focused()
    page.keyboard.press("Escape")
    expect(said).to_have_text("Put back at place 1.")
    shown(page, "One", "Two", "Three")
    expect(handle).to_be_focused()

    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    moves(page, lambda: page.keyboard.press("Enter"))
    expect(said).to_have_text("Dropped at place 2.")
    expect(handle).to_be_focused()
    assert order(console, playlist_id) == ["Two", "One", "Three"]

    page.keyboard.press("Enter")
    moves(page, lambda: page.keyboard.press("End"))
    assert order(console, playlist_id) == ["Two", "Three", "One"]


def test_a_lifted_video_is_moved_by_buttons(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three")
    page = console.open(f"playlists/{playlist_id}")
    handle_of(page, "Three").click()
    page.get_by_role("button", name="Up").click()
    page.get_by_role("button", name="Up").click()
    shown(page, "Three", "One", "Two")
    moves(page, page.get_by_role("button", name="Drop here").click)
    assert order(console, playlist_id) == ["Three", "One", "Two"]


def test_a_refused_move_is_put_back_and_can_be_tried_again(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three")
    page = console.open(f"playlists/{playlist_id}")
    shown(page, "One", "Two", "Three")
    console.context.set_offline(True)
    drag(page, "One", onto="Three")
    expect(page.get_by_text("“One” is back in its place.")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    shown(page, "One", "Two", "Three")
    console.context.set_offline(False)
    moves(page, page.get_by_role("button", name="Try again").click)
    shown(page, "Two", "Three", "One")
    assert order(console, playlist_id) == ["Two", "Three", "One"]


def test_a_move_beside_a_video_that_is_gone_shows_the_list_as_it_is(console: Console) -> None:
    playlist_id, (_, two, _) = playlist(console, "One", "Two", "Three")
    page = console.open(f"playlists/{playlist_id}")
    shown(page, "One", "Two", "Three")
    console.service.request("DELETE", f"/v1/playlists/{playlist_id}/entries/{two}")
    drag(page, "One", onto="Two")
    expect(page.get_by_text("“One” is back in its place.")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    shown(page, "One", "Three")


def test_a_video_is_removed(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two")
    page = console.open(f"playlists/{playlist_id}")
    expect(page.get_by_text("2 videos")).to_be_visible()
    page.get_by_role("button", name="Remove One").click()
    shown(page, "Two")
    expect(page.get_by_text("1 video", exact=True)).to_be_visible()
    assert order(console, playlist_id) == ["Two"]


def test_videos_that_are_gone_are_counted_but_not_shown(console: Console) -> None:
    playlist_id, (one, _) = playlist(console, "One", "Two")
    assert console.service.request("DELETE", f"/v1/videos/{one}").status_code == 204
    page = console.open(f"playlists/{playlist_id}")
    shown(page, "Two")
    expect(page.get_by_text("1 more video is in the playlist, but deleted, or hidden from you.")).to_be_visible()


def test_two_tabs_change_a_playlist_and_nothing_typed_is_lost(console: Console, unique: str) -> None:
    playlist_id, _ = playlist(console, name=f"Old {unique}", description="As it was")
    first = console.open(f"playlists/{playlist_id}")
    second = console.open(f"playlists/{playlist_id}")
    for page in (first, second):
        page.get_by_role("button", name="Edit").click()
    second.get_by_label("Title").fill(f"Theirs {unique}")
    second.get_by_label("Description").fill("As they want it")
    second.get_by_role("button", name="Save").click()
    expect(second.get_by_role("heading", name=f"Theirs {unique}")).to_be_visible()

    first.bring_to_front()
    first.get_by_label("Title").fill(f"Mine {unique}")
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_role("alert")).to_contain_text("Changed meanwhile")
    expect(first.get_by_role("alert")).to_contain_text(f"Theirs {unique}")
    expect(first.get_by_label("Title")).to_have_value(f"Mine {unique}")
    expect(first.get_by_label("Description")).to_have_value("As they want it")
    first.get_by_role("button", name="Keep mine").click()
    expect(first.get_by_role("heading", name=f"Mine {unique}")).to_be_visible()
    now = console.service.request("GET", f"/v1/playlists/{playlist_id}").json()
    assert (now["title"], now["description"]) == (f"Mine {unique}", "As they want it")


def test_entries_that_came_meanwhile_are_no_reason_to_ask(console: Console, unique: str) -> None:
    playlist_id, _ = playlist(console, name=f"Old {unique}")
    page = console.open(f"playlists/{playlist_id}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Title").fill(f"New {unique}")
    video = {"videoId": console.service.create()["videoId"]}
    console.service.request("POST", f"/v1/playlists/{playlist_id}/entries", json=video)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name=f"New {unique}")).to_be_visible()


def test_others_see_what_is_public_and_change_nothing(console: Console, unique: str) -> None:
    playlist(console, name=f"Open {unique}", visibility="public")
    hidden_id, _ = playlist(console, name=f"Hidden {unique}")
    page = console.open("playlists", "bob")
    page.get_by_role("textbox", name="Playlists of a user").fill("alice")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="Playlists of alice")).to_be_visible()
    seek(page, f"Open {unique}")
    page.get_by_role("link", name=f"Open {unique}").click()
    expect(page.get_by_role("heading", name=f"Open {unique}")).to_be_visible()
    expect(page.get_by_text("There are no videos in it")).to_be_visible()
    for action in ("Edit", "Delete", "Add"):
        expect(page.get_by_role("button", name=action, exact=True)).to_have_count(0)
    page.goto(f"{console.service.base_url}/console/#/playlists/{hidden_id}")
    expect(page.get_by_role("alert")).to_contain_text("There is no such playlist")


def test_a_long_playlist_goes_on_and_its_end_is_where_end_puts_a_video(console: Console) -> None:
    playlist_id, _ = playlist(console, "One", "Two", "Three", "Four", "Five")
    page = console.open("playlists")
    more = page.get_by_role("button", name="More")
    held: list[Route] = []

    def by_threes(route: Route) -> None:
        """Pages of three, the second of them when the test wants it."""
        if "cursor=" in route.request.url and not held:
            held.append(route)
        else:
            route.continue_(url=route.request.url.replace("limit=50", "limit=3"))

    page.route(f"**/v1/playlists/{playlist_id}/entries?*", by_threes)
    page.goto(f"{console.service.base_url}/console/#/playlists/{playlist_id}")
    shown(page, "One", "Two", "Three")
    expect(page.get_by_text("Loading")).to_be_visible()
    handle_of(page, "One").press("Enter")
    moves(page, lambda: page.keyboard.press("End"))
    shown(page, "Two", "Three")
    held[0].continue_(url=held[0].request.url.replace("limit=50", "limit=3"))
    shown(page, "Two", "Three", "Four", "Five", "One")
    expect(more).to_have_count(0)
    assert order(console, playlist_id) == ["Two", "Three", "Four", "Five", "One"]


def test_hostile_titles_run_nothing_and_break_no_layout(console: Console, unique: str) -> None:
    name = (unique + "W" * 300)[:300]
    playlist_id, _ = playlist(console, *HOSTILE, name=name, description="<b>W</b>" * 100)
    page = console.open(f"playlists/{playlist_id}")
    shown(page, *HOSTILE)
    for place in (f"playlists/{playlist_id}", "playlists"):
        page.goto(f"{console.service.base_url}/console/#/{place}")
        seek(page, name)
        expect(page.get_by_text(name).first).to_be_visible()
        for width in (360, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("[document.documentElement.scrollWidth, window.ran]") == [width, None]


def test_everybody_can_use_them(console: Console, unique: str) -> None:
    playlist_id, _ = playlist(console, "One", "Two", name=f"An evening {unique}", description="For everybody")
    page = console.open("playlists")

    def accessible() -> None:
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert serious(page) == []

    seek(page, unique)
    accessible()
    page.goto(f"{console.service.base_url}/console/#/playlists/{playlist_id}")
    handle_of(page, "Two").click()
    expect(page.get_by_role("button", name="Drop here")).to_be_visible()
    accessible()
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Title")).to_have_value(f"An evening {unique}")
    accessible()
