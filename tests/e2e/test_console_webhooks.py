"""Webhooks in the console, and its lists that change as the feed says."""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from standardwebhooks import Webhook

from shared.routes import CHANGES, READ, WRITE
from tests.e2e.browser import Console, Hold, serious
from tests.e2e.conftest import Service
from tests.e2e.receiving import Receiver
from tests.waiting import eventually

HOSTILE = '<img src=x onerror="window.hit=1">\u202e\u0645\u064a\u0646\u0627\u0621 \U0001f3ac ' + "W" * 150
SHOWN: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 360), ("dark", 1280), ("light", 2560))
TITLES = ["release.*"]
"""What webhooks of these tests follow: few other tests change titles of alice's videos meanwhile."""
FEED = re.compile("/v1/changes")


@pytest.fixture
def named(service: Service, unique: str) -> Iterator[str]:
    """What the webhooks of a test have in their description; they are deleted at its end, as a user may have few."""
    yield unique
    for user in ("alice", "admin"):
        for hook in service.request("GET", "/v1/webhooks", user).json()["items"]:
            if unique in hook.get("description", ""):
                service.request("DELETE", f"/v1/webhooks/{hook['webhookId']}", user)


def hooked(service: Service, url: str, description: str, **fields: Any) -> dict[str, Any]:
    """A webhook of alice's, with its secret."""
    wanted = {"url": url, "description": description, "types": TITLES, **fields}
    reply = service.request("POST", "/v1/webhooks", json=wanted)
    assert reply.status_code == 201, reply.text
    hook: dict[str, Any] = reply.json()
    return hook


def released(service: Service) -> str:
    """A new video of alice's with a title in Germany; its id."""
    video_id = str(service.create()["videoId"])
    reply = service.request("PUT", f"/v1/videos/{video_id}/releases/DE", json={"titles": [{"title": "Der Hafen"}]})
    assert reply.status_code < 300, reply.text
    return video_id


def patched(service: Service, video: dict[str, Any], user: str = "alice", **fields: Any) -> None:
    """Change a video."""
    reply = service.request("PATCH", f"/v1/videos/{video['videoId']}", user, json=fields)
    assert reply.status_code == 200, reply.text


def opened(console: Console, hook: dict[str, Any]) -> Page:
    """A page at a webhook of alice's."""
    page = console.open(f"webhooks/{hook['webhookId']}")
    expect(page.get_by_role("heading", name="Deliveries")).to_be_visible()
    return page


def state(page: Page) -> Locator:
    """What the page says that a webhook does."""
    return page.locator(".webhook-state")


def tries(page: Page, video_id: str) -> Locator:
    """The deliveries that the page shows of changes of a video."""
    link = page.locator(f'a[href="#/videos/{video_id}"]')
    return page.get_by_role("region", name="Deliveries").get_by_role("listitem").filter(has=link)


def show_news(page: Page, within: Locator, noun: str) -> None:
    """From now on show what a list offers as soon as it does; what other tests made may be offered first. Open no dialog after it."""
    page.add_locator_handler(
        within.get_by_role("button", name=re.compile(f"new {noun}s?: show")), lambda button: button.click()
    )


def click(page: Page, name: str) -> None:
    """Press a button, in the dialog if one is open."""
    page.locator("dialog[open], :root:not(:has(dialog[open]))").get_by_role("button", name=name, exact=True).click()


class TestWebhook:
    def test_is_made_with_a_secret_that_is_shown_once_and_delivers(
        self, console: Console, receiver: Receiver, named: str
    ) -> None:
        console.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = console.open("webhooks")
        click(page, "New webhook")
        expect(page.get_by_label("URL")).to_be_focused()
        page.get_by_label("URL").fill(receiver.url)
        page.get_by_label("Description").fill(named)
        page.get_by_label("Only some").check()
        page.get_by_role("checkbox", name="Videos", exact=True).uncheck()
        page.get_by_role("checkbox", name="Titles", exact=True).check()
        click(page, "Create")
        dialog = page.get_by_role("dialog", name="Keep this secret")
        secret = dialog.get_by_text(re.compile("^whsec_")).inner_text()
        click(page, "Copy")
        expect(dialog).to_contain_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == secret
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect(dialog).to_be_visible()  # nobody can see it again
        click(page, "I have kept it")
        expect(page.get_by_role("heading", name=named)).to_be_visible()
        expect(page.get_by_text("whsec_")).to_have_count(0)
        expect(page.get_by_text("Changes of your own videos and playlists")).to_be_visible()
        expect(page.get_by_text("Titles: all")).to_be_visible()

        video_id = released(console.service)
        (headers, body), *_ = eventually(lambda: receiver.about(video_id))
        assert Webhook(secret).verify(body, headers)["type"] == "release.created"
        show_news(page, page.get_by_role("region", name="Deliveries"), "attempt")
        expect(tries(page, video_id)).to_contain_text("Titles: created")
        expect(tries(page, video_id)).to_contain_text(re.compile(r"200.* \d+ ms"))
        expect(state(page)).to_contain_text("delivering")

    def test_says_at_its_field_what_is_wrong(self, console: Console, named: str) -> None:
        page = console.open("webhooks")
        click(page, "New webhook")
        url = page.get_by_label("URL")
        url.fill("https://10.0.0.1/changes")
        page.get_by_label("Description").fill(named)
        click(page, "Create")
        expect(url).to_be_focused()
        expect(url).to_have_accessible_description(re.compile("private address"))
        page.get_by_label("Only some").check()
        page.get_by_role("checkbox", name="Videos", exact=True).uncheck()
        click(page, "Create")
        expect(page.get_by_role("group", name="What it follows")).to_contain_text("Choose at least one kind of change.")
        page.keyboard.press("Escape")
        expect(page.get_by_text(named)).to_have_count(0)

    def test_is_paused_changed_and_deleted_by_keyboard(self, console: Console, receiver: Receiver, named: str) -> None:
        hook = hooked(console.service, receiver.url, named)
        moved = f"{receiver.url}/moved"
        path = f"/v1/webhooks/{hook['webhookId']}"

        def press(name: str) -> None:
            page.locator("dialog[open], :root:not(:has(dialog[open]))").get_by_role(
                "button", name=name, exact=True
            ).press("Enter")

        page = opened(console, hook)
        press("Pause")
        expect(state(page)).to_contain_text("Nothing is sent until somebody resumes it.")
        assert console.service.request("GET", path).json()["paused"]
        press("Resume")
        expect(state(page)).to_contain_text("delivering")
        press("Edit")
        page.get_by_label("URL").fill(moved)
        page.get_by_label("All kinds of changes").check()
        page.get_by_label("Description").press("Enter")
        expect(page.get_by_text(moved)).to_be_visible()
        changed = console.service.request("GET", path).json()
        assert (changed["url"], changed["types"], changed["description"]) == (moved, [], named)
        press("Delete …")
        press("Cancel")
        expect(page.get_by_role("heading", name=named)).to_be_visible()
        press("Delete …")
        press("Delete")
        expect(page.get_by_role("heading", name="Webhooks", exact=True)).to_be_visible()
        expect(page.get_by_text(named)).to_have_count(0)
        assert console.service.request("GET", path).status_code == 404

    def test_keeps_what_somebody_else_changed_meanwhile(self, console: Console, named: str) -> None:
        hook = hooked(console.service, "https://example.com/one", named, paused=True)
        path = f"/v1/webhooks/{hook['webhookId']}"
        page = opened(console, hook)
        click(page, "Edit")
        page.get_by_label("Description").fill(f"{named} of mine")
        console.service.request("PATCH", path, json={"url": "https://example.com/theirs"})
        click(page, "Save")
        expect(page.get_by_role("alert")).to_contain_text("Changed meanwhile")
        expect(page.get_by_label("URL")).to_have_value("https://example.com/theirs")
        click(page, "Save")
        expect(page.get_by_role("heading", name=f"{named} of mine")).to_be_visible()
        assert console.service.request("GET", path).json()["url"] == "https://example.com/theirs"

    def test_that_fails_says_so_with_the_answer(self, console: Console, receiver: Receiver, named: str) -> None:
        receiver.status, receiver.said = 503, b"Closed for the night."
        page = opened(console, hooked(console.service, receiver.url, named))
        video_id = released(console.service)
        expect(state(page)).to_contain_text(re.compile("failing.*Behind since .*The next attempt is on"))
        show_news(page, page.get_by_role("region", name="Deliveries"), "attempt")
        answered = tries(page, video_id).last  # later ones come before it
        expect(answered).to_contain_text("503")
        answered.get_by_text("What it answered").click()
        expect(answered.get_by_text("Closed for the night.")).to_be_visible()
        click(page, "Send a test")
        tested = page.get_by_role("status").filter(has_text="The test was not taken.")
        expect(tested).to_contain_text("503")
        click(page, "Send a test")
        expect(page.get_by_role("alert")).to_contain_text("A webhook can be tested once in 10 seconds. Try again in")
        receiver.status = 200
        click(page, "Pause")
        click(page, "Resume")  # it tries again at once
        expect(state(page)).to_contain_text("Nothing is known to wait.")

    def test_that_its_receiver_gave_up_says_why_it_is_paused(
        self, console: Console, receiver: Receiver, named: str
    ) -> None:
        receiver.status = 410
        hook = hooked(console.service, receiver.url, named)
        released(console.service)
        page = console.open("webhooks")
        card = page.get_by_role("link", name=named)
        expect(card).to_contain_text(re.compile("paused.*410 Gone"))
        card.click()
        expect(page).to_have_url(re.compile(hook["webhookId"]))
        expect(state(page)).to_contain_text("410 Gone")
        expect(page.get_by_role("button", name="Resume")).to_be_visible()

    def test_sends_again_what_there_was_since_a_time(self, console: Console, receiver: Receiver, named: str) -> None:
        page = opened(console, hooked(console.service, receiver.url, named))
        video_id = released(console.service)
        (first, _), *_ = eventually(lambda: receiver.about(video_id))
        expect(state(page)).to_contain_text("delivering")
        receiver.received.clear()
        click(page, "Send again …")
        page.get_by_label("Since").fill("2099-01-01T00:00")
        click(page, "Send again")
        expect(page.get_by_label("Since")).to_have_attribute("aria-invalid", "true")
        page.get_by_label("Since").fill(f"{datetime.now() - timedelta(minutes=5):%Y-%m-%dT%H:%M:%S}")
        click(page, "Send again")
        expect(page.get_by_role("dialog")).to_have_count(0)
        (again, _), *_ = eventually(lambda: receiver.about(video_id))
        assert again["webhook-id"] == first["webhook-id"]

    def test_signs_with_both_secrets_for_a_day(self, console: Console, receiver: Receiver, named: str) -> None:
        hook = hooked(console.service, receiver.url, named)
        page = opened(console, hook)
        click(page, "Another secret …")
        click(page, "Make another secret")
        new = page.get_by_role("dialog").get_by_text(re.compile("^whsec_")).inner_text()
        click(page, "I have kept it")
        expect(page.get_by_text(re.compile("signs as well until"))).to_be_visible()
        click(page, "Send a test")
        expect(page.get_by_text("The test was taken.")).to_be_visible()
        (headers, body), *_ = receiver.about("webhook.test")
        assert new != hook["secret"]
        for secret in (new, hook["secret"]):
            assert Webhook(secret).verify(body, headers)["type"] == "webhook.test"

    def test_of_everybodys_changes_is_for_administrators(
        self, console: Console, receiver: Receiver, named: str
    ) -> None:
        page = console.open("webhooks", "admin")
        click(page, "New webhook")
        page.get_by_label("URL").fill(receiver.url)
        page.get_by_label("Description").fill(named)
        page.get_by_label("Whose changes").select_option("everybody")
        click(page, "Create")
        click(page, "I have kept it")
        expect(page.get_by_text(re.compile("^Everybody.s changes"))).to_be_visible()
        hooked(console.service, receiver.url, f"{named} of alice")
        page.get_by_role("link", name="Webhooks").first.click()
        page.get_by_role("textbox", name="Webhooks of a user").fill("alice")
        click(page, "Show")
        expect(page.get_by_role("link", name=f"{named} of alice")).to_be_visible()
        console.sign_out(page)
        console.sign_in(page, "alice")
        page.goto(f"{console.service.base_url}/console/#/webhooks")
        click(page, "New webhook")
        expect(page.get_by_label("URL")).to_be_visible()
        expect(page.get_by_label("Whose changes")).to_have_count(0)

    def test_of_everybodys_changes_is_for_followers_too(self, console: Console) -> None:
        """Nobody signs in here with just their scope, so the page gets a token of the test's, and the test's answers."""
        sent: list[Any] = []

        def answer(route: Route) -> None:
            if route.request.method == "POST":
                sent.append(route.request.post_data_json)
                route.fulfill(status=503, json={"title": "Unavailable", "status": 503})
            else:
                route.fulfill(json={"items": [], "nextCursor": None})

        page = console.open("webhooks", None)
        page.route("**/v1/webhooks", answer)
        page.evaluate(
            "tokens => sessionStorage.setItem('tokens', JSON.stringify(tokens))", token_of(READ, WRITE, CHANGES)
        )
        page.reload()
        click(page, "New webhook")
        page.get_by_label("URL").fill("https://example.com/all")
        page.get_by_label("Whose changes").select_option("everybody")
        click(page, "Create")
        expect(page.get_by_role("alert")).to_contain_text("Unavailable")
        assert sent[0]["userId"] == "*"
        assert page.get_by_role("search").count() == 0  # the webhooks of others are for administrators

    def test_is_for_everybody_at_any_width(self, console: Console, receiver: Receiver, named: str) -> None:
        receiver.said = HOSTILE.encode()
        hook = hooked(console.service, f"{receiver.url}?{'w' * 300}", f"{HOSTILE} {named}"[:300])
        page = console.open("webhooks")
        expect(page.get_by_role("link", name=named)).to_be_visible()
        looks_well(page)
        click(page, "New webhook")
        page.get_by_label("Only some").check()
        looks_well(page)
        click(page, "Cancel")
        page.goto(f"{console.service.base_url}/console/#/webhooks/{hook['webhookId']}")
        click(page, "Send a test")
        expect(page.get_by_text("The test was taken.")).to_be_visible()
        page.get_by_text("What it answered").first.click()
        looks_well(page)
        click(page, "Another secret …")
        click(page, "Make another secret")
        page.get_by_text("How a receiver checks a change").click()
        looks_well(page)
        assert page.evaluate("window.hit") is None


def token_of(*scopes: str) -> dict[str, str | None]:
    """What a page keeps of somebody who signed in with these scopes; no service takes the token."""
    claims = urlsafe_b64encode(json.dumps({"sub": "follower", "scope": " ".join(scopes)}).encode()).decode().rstrip("=")
    return {"accessToken": f"header.{claims}.signature", "refreshToken": None}


def looks_well(page: Page) -> None:
    """See that nothing on a page is a serious fault, or wider than the window."""
    for scheme, width in SHOWN:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


class TestListsThatFollowTheFeed:
    def test_the_library_changes_in_place_and_offers_what_would_move_it(self, console: Console, unique: str) -> None:
        films = [console.service.create(title=f"Film {n}", category=unique) for n in range(8)]
        page = followed(console, f"?userId=me&category={unique}")
        card = page.get_by_role("link", name="Film 3")
        card.focus()
        before = card.bounding_box()
        # Not the last of them, which may leave at once. Those of one second are in any order.
        first = (
            page.get_by_role("list", name="Videos").locator(".title").filter(has_not_text="Film 3").first.inner_text()
        )
        (gone,) = (film for film in films if film["title"] == first)
        console.service.create(title="New", category=unique)
        console.service.request("DELETE", f"/v1/videos/{gone['videoId']}")
        patched(console.service, films[3], title="Renamed")
        expect(page.get_by_role("link", name="Renamed")).to_be_focused()
        shows = page.get_by_role("button", name="2 new changes: show")
        expect(shows).to_be_visible()
        assert page.get_by_role("link", name="Renamed").bounding_box() == before
        shows.click()
        expect(page.get_by_role("link", name="New")).to_be_visible()
        expect(page.get_by_role("link", name=first)).to_have_count(0)
        expect(shows).to_have_count(0)
        page.keyboard.press("Tab")  # the list begins where the button was
        expect(page.get_by_role("list", name="Videos").locator("a:focus")).to_have_count(1)

    def test_an_empty_library_begins_by_itself(self, console: Console, unique: str) -> None:
        page = followed(console, f"?userId=me&category={unique}")
        expect(page.get_by_text("No video here fits all the filters.")).to_be_visible()
        console.service.create(title="The first", category=unique)
        expect(page.get_by_role("link", name="The first")).to_be_visible()

    def test_what_came_while_somebody_was_away_is_offered_on_coming_back(self, console: Console, unique: str) -> None:
        console.service.create(title="One", category=unique)
        page = followed(console, f"?userId=me&category={unique}")
        page.get_by_role("link", name="One").click()
        expect(page.get_by_role("heading", name="One")).to_be_visible()
        console.service.create(title="Two", category=unique)
        page.go_back()
        page.get_by_role("button", name="1 new change: show").click()
        expect(page.get_by_role("link", name="Two")).to_be_visible()

    def test_an_administrator_sees_the_changes_of_everybody(self, console: Console, unique: str) -> None:
        fields = {"userId": "bob", "category": unique, "status": "ready", "visibility": "public"}
        film = console.service.create("admin", title="Old", **fields)
        page = followed(console, f"?category={unique}", "admin")
        patched(console.service, film, "bob", title="By bob")
        expect(page.get_by_role("link", name="By bob")).to_be_visible()

    def test_a_video_shows_its_title_and_status_as_they_are(self, console: Console) -> None:
        film = console.service.create(title="Before")
        page = followed(console, f"videos/{film['videoId']}")
        expect(page.get_by_role("heading", name="Before")).to_be_visible()
        patched(console.service, film, "admin", title="After", status="failed")
        expect(page.get_by_role("heading", name="After")).to_be_visible()
        expect(page.locator(".facts .status")).to_have_text("failed")

    def test_what_is_typed_stays_while_others_change_the_video(self, console: Console) -> None:
        film = console.service.create(title="Before")
        page = followed(console, f"videos/{film['videoId']}")
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Description").fill("Mine")
        patched(console.service, film, "admin", title="After")
        expect(page.get_by_role("heading", name="After")).to_be_visible()
        expect(page.get_by_label("Description")).to_have_value("Mine")
        expect(page.get_by_label("Description")).to_be_focused()

    def test_operations_offer_what_has_failed(self, console: Console, unique: str) -> None:
        console.service.create("admin", title="Failed before", status="failed")
        page = followed(console, "operations", "admin")
        failures = page.get_by_role("region", name="Failed videos")
        expect(failures.get_by_role("listitem").first).to_be_visible()
        console.service.create("admin", title=unique, status="failed")
        show_news(page, failures, "change")
        expect(failures.get_by_role("link", name=unique)).to_be_visible()


def followed(console: Console, place: str, user: str = "alice") -> Page:
    """A page at a place, once it knows where the feed is: what happens from now on, it has to show."""
    page = console.open("webhooks", user)
    with page.expect_response(FEED) as begun:
        page.goto(f"{console.service.base_url}/console/#/{place}")
    assert begun.value.status == 200
    begun.value.finished()
    if place != "operations":  # whose rows load when they are seen
        expect(page.locator(".loading, .skeleton")).to_have_count(0)
    return page


class TestWhatFollowingCosts:
    """Of a page whose clock the test moves, with a feed that the test answers."""

    def test_is_a_request_each_five_seconds_while_somebody_looks(self, console: Console) -> None:
        page, asked = watched(console, lambda route: route.fulfill(json=quiet()))
        known = looks(page, asked, 5500)
        page.clock.run_for(3000)
        assert len(asked) == known
        assert looks(page, asked, 3000) == known + 1
        hide(page, True)
        page.clock.run_for(60_000)
        assert len(asked) == known + 1
        hide(page, False)
        known = looks(page, asked, 1000)  # what was missed comes soon
        page.get_by_role("link", name="Playlists").click()
        page.clock.run_for(60_000)
        assert len(asked) == known
        assert asked == ["now", *["here"] * (known - 1)]

    def test_is_nothing_behind_a_dialog(self, console: Console) -> None:
        film = console.service.create()
        page, asked = watched(console, lambda route: route.fulfill(json=quiet()), f"videos/{film['videoId']}")
        known = looks(page, asked, 5500)
        click(page, "Delete")
        page.clock.run_for(60_000)
        expect(page.get_by_role("dialog", name="Delete this video?")).to_be_visible()
        assert len(asked) == known
        page.keyboard.press("Escape")
        looks(page, asked, 1000)

    def test_is_less_while_the_service_is_busy_or_fails(self, console: Console) -> None:
        answers: list[dict[str, Any]] = [
            {"status": 429, "headers": {"Retry-After": "60"}, "json": {"title": "Too many requests", "status": 429}},
            {"status": 503, "json": {"title": "Unavailable", "status": 503}},
        ]
        page, asked = watched(console, lambda route: route.fulfill(**(answers or [{"json": quiet()}]).pop(0)))
        page.clock.run_for(30_000)
        assert len(asked) == 1
        looks(page, asked, 40_000)
        page.clock.run_for(15_000)
        assert len(asked) == 2
        looks(page, asked, 8000)
        looks(page, asked, 5500)  # it is well again
        assert asked == ["now", "now", "now", "here"]

    def test_is_nothing_where_there_is_no_feed_or_nobody_is_signed_in(self, console: Console) -> None:
        answers: list[dict[str, Any]] = [{"status": 403, "json": {"title": "Forbidden", "status": 403}}]
        page, asked = watched(console, lambda route: route.fulfill(**(answers or [{"json": quiet()}]).pop(0)))
        page.clock.run_for(60_000)
        assert asked == ["now"]
        page.clock.resume()
        with page.expect_response(FEED):
            page.reload()
        console.sign_out(page)
        before = [*asked]
        page.clock.fast_forward(60_000)
        expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
        assert asked == before

    def test_is_one_more_request_when_too_much_was_missed(self, console: Console, unique: str) -> None:
        answers: list[dict[str, Any]] = [{"json": quiet()}, {"status": 410, "json": {"title": "Gone", "status": 410}}]
        page, asked = watched(
            console,
            lambda route: route.fulfill(**(answers or [{"json": quiet()}]).pop(0)),
            f"?userId=me&category={unique}",
        )
        console.service.create(title="Missed", category=unique)
        looks(page, asked, 5500)
        page.clock.resume()
        expect(page.get_by_role("link", name="Missed")).to_be_visible()
        assert asked[:3] == ["now", "here", "now"]


def quiet() -> dict[str, Any]:
    """What a feed answers in which nothing happens."""
    return {"items": [], "nextCursor": "here", "caughtUp": True}


def watched(
    console: Console, answer: Callable[[Route], object], place: str = "?userId=me&category=none"
) -> tuple[Page, list[str]]:
    """A page of alice's whose clock stands still, and from where on it has asked the feed."""
    asked: list[str] = []

    def note(route: Route) -> None:
        asked.extend(re.findall("after=([^&]+)", route.request.url))
        answer(route)

    page = console.context.new_page()
    page.clock.install()
    page.route(FEED, note)
    hold = Hold(page, FEED)
    page.goto(f"{console.service.base_url}/console/#/{place}")
    console.sign_in(page, "alice")
    hold.wait_for(1)
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".loading, .skeleton")).to_have_count(0)
    # It waits for its first answer until its clock stands still, however long that takes: nothing is due by then.
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 60"))
    answer_taken(page, hold.let_go)
    return page, asked


def looks(page: Page, asked: list[str], within: int) -> int:
    """Let time go on until the page asks the feed, within milliseconds, and takes what it answers; how often it has asked."""
    before = len(asked)

    def go_on() -> None:
        for _ in range(within // 500):
            if len(asked) == before:
                page.clock.run_for(500)

    answer_taken(page, go_on)
    return len(asked)


def answer_taken(page: Page, act: Callable[[], object]) -> None:
    """Do what lets the page ask the feed, and wait until it has taken the answer."""
    with page.expect_response(FEED) as answer:
        act()
    answer.value.finished()
    page.evaluate("fetch('config.json').then((answer) => answer.text())")  # its answer comes after the feed's


def hide(page: Page, is_hidden: bool) -> None:
    """Let the page believe that nobody sees it, or somebody."""
    page.evaluate(
        "hidden => Object.defineProperty(document, 'hidden', { value: hidden, configurable: true })", is_hidden
    )
