"""What the console knows of a video, and how people change it there."""

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.e2e.browser import Console, announced, seek, serious
from tests.e2e.conftest import Service
from tests.waiting import eventually

HOSTILE = '<img src=x onerror="window.hit=1">\u202e\u0645\u064a\u0646\u0627\u0621 \U0001f3ac ' + "W" * 150


def details(console: Console, video: dict[str, Any], tab: str = "facts", user: str | None = "alice") -> Page:
    """A page at a video."""
    page = console.open(f"videos/{video['videoId']}?tab={tab}", user)
    expect(page.get_by_role("tab", selected=True)).to_be_visible()
    return page


def edit(page: Page) -> Locator:
    """The form of the video."""
    page.get_by_role("button", name="Edit", exact=True).click()
    return page.get_by_role("form", name="Edit the video")


def stored(console: Console, video: dict[str, Any]) -> dict[str, Any]:
    """The video as the API has it now."""
    answer: dict[str, Any] = console.service.request("GET", f"/v1/videos/{video['videoId']}").json()
    return answer


def published(service: Service, **fields: Any) -> dict[str, Any]:
    """A video that everybody sees."""
    video = service.create(visibility="public", **fields)
    for status in ("processing", "ready"):
        assert service.request("PATCH", f"/v1/videos/{video['videoId']}", json={"status": status}).status_code == 200
    return video


def patches(page: Page) -> list[Request]:
    """The patches that the page sends from now on."""
    sent: list[Request] = []

    def note(route: Route) -> None:
        if route.request.method == "PATCH":
            sent.append(route.request)
        route.fallback()

    page.route("**/v1/videos/*", note)  # of a request that is only listened to, the browser does not say the body
    return sent


def test_facts_say_where_they_come_from_and_lead_to_the_library(console: Console, unique: str) -> None:
    video = console.service.create(
        title="Facts",
        category=unique,
        tags=["sea"],
        duration=61_000,
        language="en-NZ",
        metadata={"camera": "F5", "done": True},
    )
    page = details(console, video)
    facts = page.get_by_role("tabpanel", name="Facts")
    expect(facts).to_contain_text("1:01 by a person")
    expect(facts).to_contain_text("English (New Zealand)")
    expect(facts).to_contain_text("camera: F5")
    expect(facts.get_by_role("link", name="sea")).to_have_attribute("href", "#/?tag=sea")
    facts.get_by_role("link", name=unique).click()
    expect(page).to_have_url(re.compile(rf"#/\?category={unique}$"))


def test_tabs_have_addresses_and_follow_the_arrow_keys(console: Console) -> None:
    page = details(console, console.service.create(), "credits")
    page.get_by_role("tab", name="Credits").press("ArrowRight")
    expect(page.get_by_role("tab", name="Titles")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Titles")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?tab=titles$"))
    page.get_by_role("tab", name="Titles").press("Home")
    page.get_by_role("tab", name="Facts").press("ArrowLeft")
    expect(page.get_by_role("tab", name="History")).to_be_focused()


def test_an_edit_sends_what_changed_and_nothing_else(console: Console) -> None:
    video = console.service.create(
        title="Before",
        description="Goes away",
        expiresAt=4_000_000_001,
        tags=["old", "stays"],
        metadata={"a/b": "x", "gone": 1, "kept": True},
        season=None,
    )
    page = details(console, video)
    sent = patches(page)
    form = edit(page)
    form.get_by_label("Title", exact=True).fill("After")
    form.get_by_label("Description").fill("")
    form.get_by_role("button", name="Remove the tag old").click()
    form.get_by_label("Tags", exact=True).last.fill("new")
    form.get_by_label("Release year").fill("1999")
    form.get_by_label("Published from").fill("2030-01-02T03:04")
    form.get_by_label("Value of a/b").fill("y")
    form.get_by_role("button", name="Remove gone").click()
    form.get_by_role("button", name="Add a key").click()
    form.get_by_label("Key of row 3").fill("take")
    form.get_by_label("Kind of take").select_option("number")
    form.get_by_label("Value of take").fill("2.5")
    form.get_by_role("button", name="Save").click()

    expect(page.get_by_role("heading", name="After")).to_be_visible()
    announced(page, "Saved.")
    (patch,) = sent
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.headers["if-match"].startswith('"1.')
    assert json.loads(patch.post_data or "") == {
        "title": "After",
        "description": None,
        "tags": ["stays", "new"],
        "releaseYear": 1999,
        "publishAt": page.evaluate("new Date(2030, 0, 2, 3, 4).getTime() / 1000"),  # where the browser is
        "metadata": {"a/b": "y", "gone": None, "take": 2.5},
    }
    expect(page.get_by_role("button", name="Edit", exact=True)).to_be_focused()


def test_what_is_not_valid_is_said_at_its_field(console: Console) -> None:
    page = details(console, console.service.create(metadata={"camera": "F5"}))
    form = edit(page)
    form.get_by_label("Title", exact=True).fill("")
    form.get_by_label("Language").fill("??")
    form.get_by_label("Release year").fill("soon")
    form.get_by_label("Value of camera").fill("x" * 513)
    form.get_by_role("button", name="Save").click()

    title = form.get_by_label("Title", exact=True)
    expect(title).to_be_focused()
    expect(title).to_have_accessible_description(re.compile("at least 1 character"))
    expect(form.get_by_label("Language")).to_have_accessible_description(re.compile("BCP 47"))
    expect(form.get_by_label("Release year")).to_have_accessible_description(re.compile("integer"))
    expect(form.get_by_label("Value of camera")).to_have_accessible_description(re.compile("512"))
    expect(form.get_by_label("Category")).not_to_have_attribute("aria-invalid", "true")
    form.get_by_label("Kind of camera").select_option("number")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Value of camera")).to_have_accessible_description("This is not a number")
    assert serious(page) == []

    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Throw my changes away").click()
    edit(page).get_by_label("Season").fill("1")
    form.get_by_role("button", name="Save").click()
    expect(form).to_contain_text("season and episode need the seriesId")  # which is not about one field


def test_two_tabs_edit_one_video_and_both_peoples_choices_are_kept(console: Console) -> None:
    video = console.service.create(
        title="The harbour",
        description="A film.",
        category="travel",
        tags=["sea"],
        metadata={"camera": "F5", "take": 1},
    )
    mine, theirs = details(console, video), details(console, video)
    forms = edit(mine), edit(theirs)
    forms[1].get_by_label("Title", exact=True).fill("Their title")
    forms[1].get_by_label("Description").fill("Their description.")
    forms[1].get_by_label("Category").fill("harbours")
    forms[1].get_by_label("Value of camera").fill("their camera")
    forms[1].get_by_role("button", name="Save").click()
    expect(theirs.get_by_role("heading", name="Their title")).to_be_visible()

    mine.bring_to_front()
    forms[0].get_by_label("Title", exact=True).fill("My title")
    forms[0].get_by_label("Description").fill("My description.")
    forms[0].get_by_label("Language").fill("mi")
    forms[0].get_by_label("Value of take").fill("2")
    forms[0].get_by_role("button", name="Save").click()
    dialog = mine.get_by_role("dialog", name="Changed meanwhile")
    expect(dialog.get_by_role("group")).to_have_count(2)  # where both did
    expect(dialog).to_contain_text("travel → harbours")
    expect(dialog).to_contain_text("nothing → mi")
    assert serious(mine) == []

    title = dialog.get_by_role("group", name="Title")
    expect(title).to_contain_text("It was: The harbour")
    title.get_by_label("Keep yours: My title").check()
    dialog.get_by_role("button", name="Save all of this").click()
    expect(dialog.get_by_role("group", name="Description")).to_contain_text("Choose one.")
    dialog.get_by_label("Take theirs: Their description.").check()
    dialog.get_by_role("button", name="Save all of this").click()

    expect(mine.get_by_role("heading", name="My title")).to_be_visible()
    expect(mine.get_by_role("tabpanel", name="Facts")).to_contain_text("Their description.")
    fields = ("title", "description", "category", "language", "metadata", "version")
    assert {name: stored(console, video)[name] for name in fields} == {
        "title": "My title",
        "description": "Their description.",
        "category": "harbours",
        "language": "mi",
        "metadata": {"camera": "their camera", "take": 2},
        "version": 3,
    }


def test_a_change_of_what_nobody_edits_asks_nothing(console: Console) -> None:
    video = console.service.create(title="Before")
    page = details(console, video)
    form = edit(page)
    console.service.request("PATCH", f"/v1/videos/{video['videoId']}", json={"status": "processing"})
    form.get_by_label("Title", exact=True).fill("After")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="After")).to_be_visible()
    assert stored(console, video)["status"] == "processing"


def test_going_back_from_a_conflict_loses_nothing(console: Console) -> None:
    video = console.service.create(title="Before")
    page = details(console, video)
    form = edit(page)
    console.service.request("PATCH", f"/v1/videos/{video['videoId']}", json={"title": "Theirs"})
    form.get_by_label("Title", exact=True).fill("Mine")
    form.get_by_role("button", name="Save").click()
    page.get_by_role("dialog").get_by_role("button", name="Back to the form").click()
    expect(form.get_by_label("Title", exact=True)).to_have_value("Mine")
    form.get_by_role("button", name="Save").click()
    page.get_by_role("dialog").get_by_label("Take theirs: Theirs").check()
    page.get_by_role("button", name="Save all of this").click()
    expect(page.get_by_role("heading", name="Theirs")).to_be_visible()
    assert stored(console, video)["version"] == 2


def test_nothing_is_typed_into_a_form_that_is_being_saved(console: Console) -> None:
    video = console.service.create(title="Before")
    credit = {"name": "Ada", "ordering": 1, "roles": [{"category": "actor"}]}
    console.service.request("PUT", f"/v1/videos/{video['videoId']}/credits/nm1", json=credit)
    page = details(console, video)
    held: list[Route] = []
    page.route(
        "**/v1/videos/**", lambda route: route.fallback() if route.request.method == "GET" else held.append(route)
    )

    def sent_from(field: Locator) -> None:
        """Save by Enter, and type on until there is an answer."""
        field.fill("Sent")
        with page.expect_request(lambda request: request.method != "GET"):
            field.press("Enter")
        page.keyboard.type(", and lost")
        expect(field).to_have_value("Sent")
        held.pop().continue_()
        expect(field).to_have_count(0)

    edit(page)
    sent_from(page.get_by_label("Title", exact=True))
    page.get_by_role("tab", name="Credits").click()
    page.get_by_role("button", name="Edit Ada").click()
    sent_from(page.get_by_label("Name"))


def test_without_a_connection_an_edit_waits(console: Console) -> None:
    video = console.service.create(title="Before")
    page = details(console, video)
    form = edit(page)
    form.get_by_label("Title", exact=True).fill("Typed offline")
    console.context.set_offline(True)
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("No connection")
    expect(form.get_by_label("Title", exact=True)).to_have_value("Typed offline")
    form.get_by_label("Description").fill("This too.")
    console.context.set_offline(False)
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Typed offline")).to_be_visible()
    assert stored(console, video)["description"] == "This too."


def test_leaving_with_unsaved_changes_asks_first(console: Console) -> None:
    video = console.service.create(title="Before")
    page = details(console, video)
    form = edit(page)
    form.get_by_label("Title", exact=True).fill("Typed")
    page.get_by_role("tab", name="Credits").click()  # the form stays behind the other tabs
    expect(page.get_by_role("tabpanel", name="Credits")).to_be_visible()
    page.get_by_role("link", name="Playlists").click()
    page.get_by_role("dialog", name="Leave without saving?").get_by_role("button", name="Stay and go on").click()
    expect(form.get_by_label("Title", exact=True)).to_have_value("Typed")

    page.go_back()
    page.get_by_role("button", name="Stay and go on").click()
    expect(form.get_by_label("Title", exact=True)).to_have_value("Typed")

    with page.expect_event("dialog") as opened:
        page.close(run_before_unload=True)
    assert opened.value.type == "beforeunload"
    opened.value.dismiss()

    page.get_by_role("link", name="Playlists").click()
    leave = page.get_by_role("button", name="Throw my changes away")
    expect(leave).to_be_visible()
    places = page.evaluate("history.length")
    leave.click()
    expect(page.get_by_role("heading", name="Playlists")).to_be_visible()
    assert stored(console, video)["title"] == "Before"
    assert page.evaluate("history.length") == places  # it is the place that was left, not another one like it


def test_a_deleted_video_can_be_restored(console: Console) -> None:
    video = console.service.create(title="Short-lived")
    page = details(console, video)
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete this video?")
    expect(dialog).to_contain_text("Short-lived")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text(re.compile("Deleted. It can be restored until"))).to_be_visible()
    assert stored(console, video)["status"] == "deleted"
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("button", name="Edit", exact=True)).to_be_visible()
    assert stored(console, video)["status"] == "uploaded"


def test_others_see_facts_but_change_nothing(console: Console) -> None:
    page = details(console, published(console.service, title="Seen by bob"), user="bob")
    expect(page.get_by_role("heading", name="Seen by bob")).to_be_visible()
    expect(page.get_by_role("tab")).to_have_text(["Facts", "Credits", "Titles", "Captions and chapters", "Playlists"])
    expect(page.get_by_role("button", name=re.compile("Edit|Delete"))).to_have_count(0)


def test_credits_are_added_changed_and_removed(console: Console, unique: str) -> None:
    video = published(console.service, title="Credited", releaseYear=1993)
    page = details(console, video, "credits")
    page.get_by_role("button", name="Add a credit").click()
    form = page.get_by_role("form", name="Add a credit")
    form.get_by_label("Person").fill("not an id")
    for _ in range(3):  # what was typed stays, however often somebody escapes
        page.keyboard.press("Escape")
    page.get_by_role("button", name="Stay and go on").click()
    form.get_by_label("Name").fill("Ada Mason")
    form.get_by_label("Category").fill("actor")
    form.get_by_label("Characters").fill("George\n\nThe pilot")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Person")).to_have_accessible_description(re.compile("letters, digits"))
    form.get_by_label("Person").fill(unique)
    form.get_by_role("button", name="Save").click()
    panel = page.get_by_role("tabpanel", name="Credits")
    expect(panel.get_by_role("listitem").first).to_contain_text("actor as George, The pilot")

    path = f"/v1/videos/{video['videoId']}/credits"
    first = {"name": "First", "ordering": 1, "roles": [{"category": "director"}]}
    console.service.request("PUT", f"{path}/zz{unique}", json=first)
    page.get_by_role("button", name="Edit Ada Mason").click()
    form = page.get_by_role("form", name="Edit a credit")
    form.get_by_label("Place").fill("0")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Place")).to_be_focused()
    form.get_by_label("Place").fill("2")
    form.get_by_role("button", name="Save").click()
    expect(panel.get_by_role("link", name=re.compile("First|Ada Mason"))).to_have_text(["First", "Ada Mason"])

    panel.get_by_role("link", name="Ada Mason").click()
    films = page.get_by_role("region", name="Films of a person")
    expect(films.get_by_role("link", name="Credited")).to_contain_text("1993 actor as George, The pilot")
    page.get_by_role("button", name="Remove Ada Mason").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("button", name="Edit Ada Mason")).to_have_count(0)
    assert [credit["name"] for credit in console.service.request("GET", path).json()["items"]] == ["First"]


def test_a_credit_that_somebody_else_changed_is_kept_or_taken(console: Console) -> None:
    video = console.service.create(title="Credited twice")
    path = f"/v1/videos/{video['videoId']}/credits/nm1"
    credit = {"name": "Before", "ordering": 1, "roles": [{"category": "actor"}]}
    console.service.request("PUT", path, json=credit)
    page = details(console, video, "credits")
    page.get_by_role("button", name="Edit Before").click()
    console.service.request("PUT", path, json=credit | {"name": "Theirs"})
    form = page.get_by_role("form")
    form.get_by_label("Name").fill("Mine")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("Changed meanwhile")
    expect(form.get_by_label("Name")).to_have_value("Mine")
    form.get_by_role("button", name="Keep yours").click()
    expect(page.get_by_role("link", name="Mine")).to_be_visible()
    assert console.service.request("GET", path).json()["version"] == 3


def test_titles_of_regions_are_added_changed_and_removed(console: Console) -> None:
    video = console.service.create(title="Released")
    page = details(console, video, "titles")
    page.get_by_role("button", name="Add titles").click()
    form = page.get_by_role("form", name="Add titles")
    form.get_by_label("Region").fill("Q1")
    form.get_by_label("Title", exact=True).fill("Te whanga")
    form.get_by_label("Types").fill("working")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Region")).to_have_accessible_description(re.compile("must be a country of ISO 3166"))
    form.get_by_label("Region").fill("nz")
    form.get_by_label("Language").fill("mi")
    form.get_by_role("button", name="Save").click()
    panel = page.get_by_role("tabpanel", name="Titles")
    expect(panel).to_contain_text("New Zealand, Māori NZ mi")
    expect(panel).to_contain_text("Te whanga working")

    page.get_by_role("button", name="Edit the titles of New Zealand").click()
    form = page.get_by_role("form", name=re.compile("Titles of New Zealand"))
    form.get_by_role("button", name="Add a title").click()
    form.get_by_role("button", name="Save").click()
    second = form.get_by_role("group", name="Title 2").get_by_label("Title", exact=True)
    expect(second).to_have_accessible_description(re.compile("at least 1 character"))
    second.fill("Second title")
    form.get_by_role("button", name="Save").click()
    expect(panel).to_contain_text("Second title")
    page.get_by_role("button", name="Remove the titles of New Zealand").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(panel).to_contain_text("There are no titles for any region yet.")


def test_a_rating_is_given_changed_and_removed(console: Console) -> None:
    video = published(console.service, title="Rated")
    page = details(console, video, user="bob")
    rating = page.get_by_role("complementary", name="Rating")
    expect(rating).to_contain_text("Nobody has rated it yet.")
    rating.get_by_role("button", name="8").click()
    announced(page, "You rated it 8 of 10.")
    expect(rating).to_contain_text("8 of 10, 1 vote")
    expect(rating.get_by_role("button", name="8")).to_have_attribute("aria-pressed", "true")
    rating.get_by_role("button", name="Dislike").click()
    expect(rating).to_contain_text("1 of 10, 1 vote0 likes, 1 dislike")
    rating.get_by_role("button", name="Remove my rating").click()
    announced(page, "Your rating is removed.")
    expect(rating.get_by_role("group")).to_be_focused()  # for the button is gone
    expect(rating).to_contain_text("Nobody has rated it yet.")
    assert "own" not in console.service.request("GET", f"/v1/videos/{video['videoId']}/rating", "bob").json()


def test_a_video_is_put_into_playlists_old_and_new(console: Console, unique: str) -> None:
    video = console.service.create(title="Collected")
    console.service.request("POST", "/v1/playlists", json={"title": f"Old {unique}"})
    page = details(console, video, "playlists")
    panel = page.get_by_role("tabpanel", name="Playlists")
    expect(panel).to_contain_text("It is in no playlist that you may see.")
    page.get_by_role("button", name="Add to a playlist").click()
    seek(page, f"Old {unique}")
    page.get_by_role("button", name=f"Add to Old {unique}").click()
    expect(panel.get_by_role("link", name=f"Old {unique}")).to_have_attribute("href", re.compile("^#/playlists/"))
    page.get_by_role("button", name="Add to a playlist").click()
    expect(page.get_by_role("button", name=f"Add to Old {unique}")).to_be_disabled()
    form = page.get_by_role("form", name="A new playlist")
    form.get_by_role("button", name="Create and add").click()
    expect(form.get_by_label("Or a new playlist")).to_have_accessible_description(re.compile("at least 1 character"))
    form.get_by_label("Or a new playlist").fill(f"New {unique}")
    form.get_by_role("button", name="Create and add").click()
    expect(panel.get_by_role("link")).to_have_text([f"New {unique}", f"Old {unique}"])
    page.get_by_role("button", name=f"Remove it from Old {unique}").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(panel.get_by_role("link")).to_have_text([f"New {unique}"])
    expect(panel).to_be_focused()  # for the button is gone
    answer = console.service.request("GET", f"/v1/videos/{video['videoId']}/playlists").json()
    assert [playlist["title"] for playlist in answer["items"]] == [f"New {unique}"]


def test_a_series_lists_its_episodes_and_each_leads_back(console: Console) -> None:
    series = published(console.service, title="The series")
    published(console.service, title="Low tide", seriesId=series["videoId"], season=1, episode=2)
    page = details(console, series)
    page.get_by_role("link", name="Low tide Season 1 · Episode 2").click()
    expect(page.get_by_role("heading", name="Low tide")).to_be_visible()
    page.get_by_role("link", name="The series").click()
    expect(page.get_by_role("heading", name="The series")).to_be_visible()


def test_hostile_texts_run_nothing_and_break_no_layout(console: Console, unique: str) -> None:
    tag = HOSTILE[:64]
    video = console.service.create(
        title=HOSTILE,
        description=HOSTILE,
        category=HOSTILE[:100],
        tags=[tag],
        metadata={tag: HOSTILE, "__proto__": HOSTILE},
    )
    path = f"/v1/videos/{video['videoId']}"
    credit = {"name": HOSTILE, "ordering": 1, "roles": [{"category": tag, "job": HOSTILE, "characters": [HOSTILE]}]}
    title = {"title": HOSTILE, "types": [tag], "attributes": [HOSTILE]}
    playlist = console.service.request("POST", "/v1/playlists", json={"title": HOSTILE}).json()
    for answer in (
        console.service.request("PUT", f"{path}/credits/{unique}", json=credit),
        console.service.request("PUT", f"{path}/releases/XWW", json={"titles": [title]}),
        console.service.request("PUT", f"{path}/chapters", json={"chapters": [{"start": 0, "title": HOSTILE}]}),
        console.service.request(
            "POST", f"/v1/playlists/{playlist['playlistId']}/entries", json={"videoId": video["videoId"]}
        ),
    ):
        assert answer.status_code == 201, answer.text
    eventually(lambda: console.service.request("GET", f"{path}/audit").json()["items"])
    page = details(console, video)
    for tab in ("Facts", "Credits", "Titles", "Captions and chapters", "Playlists", "History"):
        page.get_by_role("tab", name=tab).click()
        panel = page.get_by_role("tabpanel", name=tab)
        expect(panel.get_by_text("onerror").first).to_be_visible()
        assert panel.locator("img").count() == 0
        for width in (3840, 360):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == []
    page.get_by_role("tab", name="Facts").click()
    form = edit(page)
    form.get_by_label("Value of __proto__").fill("changed")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert serious(page) == []
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("tabpanel", name="Facts")).to_contain_text("__proto__: changed")
    assert page.evaluate("window.hit ?? null") is None
