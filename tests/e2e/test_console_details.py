"""The console: displaying and editing the details of a video."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser import HOSTILE, Console, announced, require_good_layout, seek
from tests.e2e.conftest import Service
from tests.e2e.locators import button, dialog, field, form, heading, link, panel, region, tab
from tests.polling import eventually


def details(console: Console, video: dict[str, Any], tab: str = "facts", user: str | None = "alice") -> Page:
    """Open a tab of a video."""
    page = console.open(f"videos/{video['videoId']}?tab={tab}", user)
    expect(page.get_by_role("tab", selected=True)).to_be_visible()
    return page


def edit(page: Page) -> Locator:
    """Open the form of the video, and return it."""
    button(page, "Edit").click()
    return form(page, "Edit video")


def stored(console: Console, video: dict[str, Any]) -> dict[str, Any]:
    """Return the current video from the API."""
    document: dict[str, Any] = console.service.request("GET", f"/v1/videos/{video['videoId']}").json()
    return document


def published(service: Service, **fields: Any) -> dict[str, Any]:
    """Create a published video, visible to everyone."""
    video = service.create(visibility="public", **fields)
    for status in ("processing", "ready"):
        assert service.request("PATCH", f"/v1/videos/{video['videoId']}", json={"status": status}).status_code == 200
    return video


def test_tabs_show_the_facts_and_only_the_owner_can_delete_and_restore(console: Console, unique: str) -> None:
    series = published(
        console.service,
        title="The series",
        category=unique,
        tags=[f"sea-{unique}"],
        duration=61_000,
        language="en-NZ",
        metadata={"camera": "F5", "done": True},
    )
    published(console.service, title="Low tide", seriesId=series["videoId"], season=1, episode=2)
    viewer_page = details(console, series, user="bob")
    expect(viewer_page.get_by_role("tab")).to_have_text(
        ["Details", "Credits", "Regional titles", "Captions and chapters", "Playlists"]
    )
    expect(button(viewer_page, re.compile("^(Edit|Delete)( .*)?$"))).to_have_count(0)
    link(viewer_page, re.compile("^Low tide Season 1 · Episode 2$")).click()
    expect(heading(viewer_page, "Low tide")).to_be_visible()
    link(viewer_page, "The series").click()
    expect(heading(viewer_page, "The series")).to_be_visible()
    viewer_page.close()

    page = details(console, series, "credits")
    tab(page, "Credits").press("ArrowRight")
    expect(tab(page, "Regional titles")).to_be_focused()
    expect(panel(page, "Regional titles")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?tab=titles$"))
    tab(page, "Regional titles").press("Home")
    facts = panel(page, "Details")
    expect(facts).to_contain_text("1:01 edited")
    expect(facts).to_contain_text("English (New Zealand)")
    expect(facts).to_contain_text("camera: F5")
    expect(link(facts, f"sea-{unique}")).to_have_attribute("href", f"#/?tag=sea-{unique}")
    expect(link(facts, unique)).to_have_attribute("href", f"#/?category={unique}")
    tab(page, "Details").press("ArrowLeft")
    expect(tab(page, "History")).to_be_focused()
    tab(page, "Details").click()

    button(page, "Delete").click()
    confirmation = dialog(page, "Delete this video?")
    expect(confirmation).to_contain_text("The series")
    button(confirmation, "Delete").click()
    expect(page.locator(".deleted")).to_contain_text(re.compile("Deleted. You can restore it until"))
    assert stored(console, series)["status"] == "deleted"
    button(page, "Restore").click()
    expect(button(page, "Edit")).to_be_visible()
    assert stored(console, series)["status"] == "ready"


def test_credits_are_added_and_removed(console: Console, unique: str) -> None:
    video = published(console.service, title="Credited", releaseYear=1993)
    page = details(console, video, "credits")
    button(page, "Add credit").click()
    add_dialog = dialog(page, "Add credit")
    field(add_dialog, "Person ID").fill(unique)
    for _ in range(3):  # Escape never discards the input
        page.keyboard.press("Escape")
    button(page, "Keep editing").click()
    field(add_dialog, "Name").fill("Ada Mason")
    field(add_dialog, "Category").fill("actor")
    field(add_dialog, "Characters").fill("George\n\nThe pilot")
    require_good_layout(page)
    button(add_dialog, "Save").click()
    credits_panel = panel(page, "Credits")
    expect(credits_panel.get_by_role("listitem").first).to_contain_text("actor as George, The pilot")

    link(credits_panel, "Ada Mason").click()
    listed = region(page, "Videos of a person")
    expect(link(listed, re.compile("^Credited .*$"))).to_contain_text("1993 actor as George, The pilot")
    button(page, "Remove Ada Mason").click()
    button(dialog(page, "Remove Ada Mason?"), "Remove").click()
    expect(button(page, "Edit Ada Mason")).to_have_count(0)
    path = f"/v1/videos/{video['videoId']}/credits"
    assert console.service.request("GET", path).json()["items"] == []


def test_video_is_rated_and_added_to_playlists(console: Console, unique: str) -> None:
    video = published(console.service, title="Rated")
    page = details(console, video, user="bob")
    rating = page.get_by_role("complementary", name="Rating", exact=True)
    expect(rating).to_contain_text("No ratings yet.")
    button(rating, "8").click()
    announced(page, "You rated it 8 of 10.")
    expect(rating).to_contain_text("8 of 10, 1 vote")
    expect(button(rating, "8")).to_have_attribute("aria-pressed", "true")
    button(rating, "Dislike").click()
    expect(rating).to_contain_text("1 of 10, 1 vote0 likes, 1 dislike")
    button(rating, "Remove my rating").click()
    announced(page, "Rating removed.")
    expect(rating.get_by_role("group")).to_be_focused()  # because the button was removed
    expect(rating).to_contain_text("No ratings yet.")
    assert "own" not in console.service.request("GET", f"/v1/videos/{video['videoId']}/rating", "bob").json()

    old, new = f"Old {unique}", f"New {unique}"
    console.service.request("POST", "/v1/playlists", "bob", json={"title": old})
    tab(page, "Playlists").click()
    playlists = panel(page, "Playlists")
    expect(playlists).to_contain_text("Not in any playlist that you can see.")
    button(page, "Add to playlist").click()
    seek(page, old)
    button(page, f"Add to {old}").click()
    expect(link(playlists, old)).to_have_attribute("href", re.compile("^#/playlists/"))
    button(page, "Add to playlist").click()
    expect(button(page, f"Add to {old}")).to_be_disabled()
    playlist_form = form(page, "New playlist")
    button(playlist_form, "Create and add").click()
    expect(field(playlist_form, "New playlist")).to_have_accessible_description("Must not be empty.")
    field(playlist_form, "New playlist").fill(new)
    button(playlist_form, "Create and add").click()
    expect(playlists.get_by_role("link")).to_have_text([new, old])
    button(page, f"Remove it from {old}").click()
    button(dialog(page, f"Remove it from {old}?"), "Remove").click()
    expect(playlists.get_by_role("link")).to_have_text([new])
    expect(playlists).to_be_focused()  # because the button was removed
    response = console.service.request("GET", f"/v1/videos/{video['videoId']}/playlists", "bob").json()
    assert [playlist["title"] for playlist in response["items"]] == [new]


def test_hostile_texts_of_a_video_run_no_script_and_keep_the_layout(console: Console, unique: str) -> None:
    word = HOSTILE[:64]
    video = console.service.create(
        title=HOSTILE,
        description=HOSTILE,
        category=HOSTILE[:100],
        tags=[word],
        metadata={word: HOSTILE, "__proto__": HOSTILE},
    )
    path = f"/v1/videos/{video['videoId']}"
    credit = {"name": HOSTILE, "ordering": 1, "roles": [{"category": word, "job": HOSTILE, "characters": [HOSTILE]}]}
    title = {"title": HOSTILE, "types": [word], "attributes": [HOSTILE]}
    playlist = console.service.request("POST", "/v1/playlists", json={"title": HOSTILE}).json()
    for response in (
        console.service.request("PUT", f"{path}/credits/{unique}", json=credit),
        console.service.request("PUT", f"{path}/releases/XWW", json={"titles": [title]}),
        console.service.request("PUT", f"{path}/chapters", json={"chapters": [{"start": 0, "title": HOSTILE}]}),
        console.service.request(
            "POST", f"/v1/playlists/{playlist['playlistId']}/entries", json={"videoId": video["videoId"]}
        ),
    ):
        assert response.status_code == 201, response.text
    eventually(lambda: console.service.request("GET", f"{path}/audit").json()["items"])
    page = details(console, video)
    for name in ("Details", "Credits", "Regional titles", "Captions and chapters", "Playlists", "History"):
        tab(page, name).click()
        tab_panel = panel(page, name)
        expect(tab_panel.filter(has_text="onerror")).to_be_visible()
        assert tab_panel.locator("img").count() == 0
        require_good_layout(page, ("dark", 3840), ("light", 360))
    tab(page, "Details").click()
    editing = edit(page)
    field(editing, "Value of __proto__").fill("changed")
    require_good_layout(page)
    patched = console.service.request("PATCH", path, json={"description": "Theirs"})
    assert patched.status_code == 200
    field(editing, "Description").fill(HOSTILE)
    field(editing, "Description").press("Control+End")
    page.keyboard.type(" Mine.")
    button(editing, "Save").click()
    conflict = dialog(page, "Changed by another user")
    expect(button(conflict, "Save")).to_be_disabled()
    require_good_layout(page)
    field(conflict, "Their change: Theirs").check()
    button(conflict, "Save").click()
    expect(panel(page, "Details")).to_contain_text("__proto__: changed")
    expect(button(page, "Edit")).to_be_focused()
    assert stored(console, video)["description"] == "Theirs"
