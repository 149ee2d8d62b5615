"""Webhooks in the console, and lists that update from the change feed."""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from standardwebhooks import Webhook

from shared.routes import CHANGES, READ, WRITE
from tests.e2e.browser import HOSTILE, Console, handle_first, require_good_layout
from tests.e2e.conftest import Service
from tests.e2e.locators import button, dialog, field, group, heading, link, region, text
from tests.e2e.receiving import Receiver
from tests.polling import eventually

WIDTHS: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 360), ("dark", 1280), ("light", 2560))
TITLES = ["release.*"]
"""Event types of the webhooks in these tests. Few other tests change releases of alice's videos."""
FEED = re.compile("/v1/changes")
FIRST_POLL = re.compile(r"/v1/changes\?(.*&)?after=now(&|$)")
"""Pattern of a list's first request to the feed. Later requests, also by the previously opened list, have a
cursor."""


@pytest.fixture
def named(service: Service, unique: str) -> Iterator[str]:
    """Return the description of a test's webhooks. They are deleted at the end, because the number of webhooks per user
    is limited."""
    yield unique
    for user in ("alice", "admin"):
        for hook in service.request("GET", "/v1/webhooks", user).json()["items"]:
            if unique in hook.get("description", ""):
                service.request("DELETE", f"/v1/webhooks/{hook['webhookId']}", user)


def create_webhook(service: Service, url: str, description: str, **fields: Any) -> dict[str, Any]:
    """Create a webhook of alice, and return its document with the secret."""
    webhook = {"url": url, "description": description, "types": TITLES, **fields}
    reply = service.request("POST", "/v1/webhooks", json=webhook)
    assert reply.status_code == 201, reply.text
    hook: dict[str, Any] = reply.json()
    return hook


def create_release(service: Service) -> str:
    """Create a video of alice, add a title in Germany, and return the video's id."""
    video_id = str(service.create()["videoId"])
    reply = service.request("PUT", f"/v1/videos/{video_id}/releases/DE", json={"titles": [{"title": "Der Hafen"}]})
    assert reply.status_code < 300, reply.text
    return video_id


def patched(service: Service, video: dict[str, Any], user: str = "alice", **fields: Any) -> None:
    """Patch a video."""
    reply = service.request("PATCH", f"/v1/videos/{video['videoId']}", user, json=fields)
    assert reply.status_code == 200, reply.text


def opened(console: Console, hook: dict[str, Any]) -> Page:
    """Open a webhook of alice."""
    page = console.open(f"webhooks/{hook['webhookId']}")
    expect(heading(page, "Deliveries")).to_be_visible()
    return page


def state(page: Page) -> Locator:
    """Locate the displayed state of a webhook."""
    return page.locator(".webhook-state")


def delivery_rows(page: Page, video_id: str) -> Locator:
    """Locate the displayed deliveries of changes of a video."""
    its_video = page.locator(f'a[href="#/videos/{video_id}"]')
    return region(page, "Deliveries").get_by_role("listitem").filter(has=its_video)


def click_new_items(page: Page, within: Locator, noun: str) -> None:
    """Click the list's button for new items whenever it appears, because items of other tests may appear first.

    Afterwards the test must not open a dialog, which would block these clicks.
    """
    new_items_button = button(within, re.compile(rf"^Show \d+ new {noun}s?$"))
    page.add_locator_handler(new_items_button, lambda offer: offer.click())


def active_button(page: Page, name: str) -> Locator:
    """Locate a button, in the dialog if one is open."""
    return button(page.locator("dialog[open], :root:not(:has(dialog[open]))"), name)


def card_of(page: Page, name: str) -> Locator:
    """Locate a webhook in the list of webhooks."""
    return page.locator("a.webhook-card").filter(has_text=name)


def test_webhook_is_created_with_a_secret_shown_once_and_delivers(
    console: Console, receiver: Receiver, named: str
) -> None:
    console.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = console.open("webhooks")
    button(page, "New webhook").click()
    making = dialog(page, "New webhook")
    url = field(making, "URL")
    expect(url).to_be_focused()
    url.fill("https://10.0.0.1/changes")
    field(making, "Description").fill(named)
    button(making, "Create").click()
    expect(url).to_be_focused()
    expect(url).to_have_accessible_description(re.compile("private address"))
    field(making, "Selected events").check()
    making.get_by_role("checkbox", name="Videos", exact=True).uncheck()
    button(making, "Create").click()
    expect(group(making, "Events")).to_contain_text("Select at least one event.")
    making.get_by_role("checkbox", name="Titles", exact=True).check()
    url.fill(receiver.url)
    button(making, "Create").click()

    secret_dialog = dialog(page, "Signing secret")
    secret = text(secret_dialog, re.compile("^whsec_.+$")).inner_text()
    button(secret_dialog, "Copy").click()
    expect(secret_dialog).to_contain_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(secret_dialog).to_be_visible()  # the secret is never shown again
    button(secret_dialog, "I stored the secret").click()
    expect(heading(page, named)).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("whsec_")
    expect(page.get_by_role("main")).to_contain_text("Changes of your videos and playlists")
    expect(page.get_by_role("main")).to_contain_text("Titles: all")

    video_id = create_release(console.service)
    (headers, body), *_ = eventually(lambda: receiver.about(video_id))
    assert Webhook(secret).verify(body, headers)["type"] == "release.created"
    click_new_items(page, region(page, "Deliveries"), "attempt")
    delivery = delivery_rows(page, video_id).last  # deliveries can be repeated
    expect(delivery).to_contain_text("Titles: created")
    expect(delivery).to_contain_text(re.compile(r"200.* \d+ ms"))
    expect(state(page)).to_contain_text("Up to date")


def test_webhook_is_paused_changed_and_deleted_by_keyboard(console: Console, receiver: Receiver, named: str) -> None:
    hook = create_webhook(console.service, receiver.url, named)
    path = f"/v1/webhooks/{hook['webhookId']}"
    new_url, new_description = f"{receiver.url}/moved", f"{named} of mine"
    page = opened(console, hook)
    active_button(page, "Pause").press("Enter")
    expect(state(page)).to_contain_text("Changes are kept for 30 days.")
    assert console.service.request("GET", path).json()["paused"]
    active_button(page, "Resume").press("Enter")
    expect(state(page)).to_contain_text("Up to date")
    active_button(page, "Edit").press("Enter")
    field(page, "URL").fill(new_url)
    field(page, "All events").check()
    field(page, "Description").press("Enter")
    expect(text(page, new_url)).to_be_visible()
    changed = console.service.request("GET", path).json()
    assert (changed["url"], changed["types"], changed["description"]) == (new_url, [], named)

    active_button(page, "Edit").press("Enter")
    field(page, "Description").fill(new_description)
    assert console.service.request("PATCH", path, json={"url": f"{new_url}/theirs"}).status_code == 200
    active_button(page, "Save").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Changed by another user")
    expect(field(page, "URL")).to_have_value(f"{new_url}/theirs")
    active_button(page, "Save").press("Enter")
    expect(heading(page, new_description)).to_be_visible()
    assert console.service.request("GET", path).json()["url"] == f"{new_url}/theirs"

    active_button(page, "Delete …").press("Enter")
    active_button(page, "Cancel").press("Enter")
    expect(heading(page, new_description)).to_be_visible()
    active_button(page, "Delete …").press("Enter")
    active_button(page, "Delete").press("Enter")
    expect(heading(page, "Webhooks")).to_be_visible()
    expect(card_of(page, named)).to_have_count(0)
    assert console.service.request("GET", path).status_code == 404


def test_failing_webhook_shows_the_response_and_the_pause_reason(
    console: Console, receiver: Receiver, named: str
) -> None:
    receiver.status, receiver.body = 503, b"Closed for the night."
    page = opened(console, create_webhook(console.service, receiver.url, named))
    video_id = create_release(console.service)
    expect(state(page)).to_contain_text(re.compile("Delivery failed.*Behind since .*Next attempt: "))
    click_new_items(page, region(page, "Deliveries"), "attempt")
    delivery = delivery_rows(page, video_id).last  # the first attempt is at the end
    expect(delivery).to_contain_text("503")
    text(delivery, "Response body").click()
    expect(text(delivery, "Closed for the night.")).to_be_visible()
    button(page, "Send test").click()
    tested = page.get_by_role("status").filter(has_text="Test failed.")
    expect(tested).to_contain_text("503")

    button(page, "Pause").click()
    expect(button(page, "Resume")).to_be_visible()
    receiver.status = 410  # not earlier, because an attempt with this response pauses the webhook
    button(page, "Resume").click()  # triggers an attempt immediately
    expect(state(page)).to_contain_text("410 Gone")
    link(page.get_by_role("article"), "Webhooks").click()
    expect(card_of(page, named)).to_contain_text(re.compile("Paused.*410 Gone"))
    card_of(page, named).click()
    receiver.status = 200
    button(page, "Resume").click()
    expect(state(page)).to_contain_text("No pending changes.")


def test_webhook_replays_and_signs_with_both_secrets_for_a_day(
    console: Console, receiver: Receiver, named: str
) -> None:
    hook = create_webhook(console.service, receiver.url, named)
    page = opened(console, hook)
    video_id = create_release(console.service)
    (first, _), *_ = eventually(lambda: receiver.about(video_id))
    receiver.received.clear()
    button(page, "Replay …").click()
    sending = dialog(page, "Replay")
    field(sending, "Replay from").fill("2099-01-01T00:00")
    button(sending, "Replay").click()
    expect(field(sending, "Replay from")).to_have_attribute("aria-invalid", "true")
    field(sending, "Replay from").fill(f"{datetime.now() - timedelta(minutes=5):%Y-%m-%dT%H:%M:%S}")
    button(sending, "Replay").click()
    expect(sending).to_have_count(0)
    (resent, _), *_ = eventually(lambda: receiver.about(video_id))
    assert resent["webhook-id"] == first["webhook-id"]

    button(page, "Rotate secret …").click()
    button(dialog(page, "Rotate secret?"), "Rotate secret").click()
    secret_dialog = dialog(page, "Signing secret")
    new = text(secret_dialog, re.compile("^whsec_.+$")).inner_text()
    button(secret_dialog, "I stored the secret").click()
    expect(page.get_by_role("main")).to_contain_text("valid until")
    button(page, "Send test").click()
    expect(text(page, "Test delivered.")).to_be_visible()
    (headers, body), *_ = receiver.about("webhook.test")
    assert new != hook["secret"]
    for secret in (new, hook["secret"]):
        assert Webhook(secret).verify(body, headers)["type"] == "webhook.test"


def test_webhooks_for_all_users_require_an_admin_or_the_changes_scope(
    console: Console, receiver: Receiver, named: str
) -> None:
    page = console.open("webhooks", "admin")
    button(page, "New webhook").click()
    field(page, "URL").fill(receiver.url)
    field(page, "Description").fill(named)
    field(page, "Changes of").select_option("all")
    button(page, "Create").click()
    button(page, "I stored the secret").click()
    expect(page.get_by_role("main")).to_contain_text("Changes of all users")
    create_webhook(console.service, receiver.url, f"{named} of alice")
    link(page.get_by_role("article"), "Webhooks").click()
    page.get_by_role("textbox", name="Webhooks of a user", exact=True).fill("alice")
    button(page, "Show").click()
    expect(card_of(page, f"{named} of alice")).to_be_visible()
    page.close()

    page = console.open("webhooks")
    button(page, "New webhook").click()
    expect(field(page, "URL")).to_be_visible()
    expect(field(page, "Changes of")).to_have_count(0)
    page.close()

    # No user of the issuer has only this scope. So the page gets a fake token, and the test responds to its requests.
    sent: list[Any] = []

    def fulfill(route: Route) -> None:
        if route.request.method == "POST":
            sent.append(route.request.post_data_json)
            route.fulfill(status=503, json={"title": "Unavailable", "status": 503})
        else:
            route.fulfill(json={"items": [], "nextCursor": None})

    page = console.open("webhooks", None)
    page.route("**/v1/webhooks", fulfill)
    page.evaluate("tokens => sessionStorage.setItem('tokens', JSON.stringify(tokens))", token_of(READ, WRITE, CHANGES))
    page.reload()
    button(page, "New webhook").click()
    field(page, "URL").fill("https://example.com/all")
    field(page, "Changes of").select_option("all")
    button(page, "Create").click()
    expect(page.get_by_role("alert")).to_contain_text("Unavailable")
    assert sent[0]["userId"] == "*"
    # only administrators can list webhooks of other users
    expect(page.get_by_role("search", name="Webhooks of a user", exact=True)).to_have_count(0)


def token_of(*scopes: str) -> dict[str, str | None]:
    """Return the tokens that a page stores for a user with these scopes. No service accepts them."""
    claims = urlsafe_b64encode(json.dumps({"sub": "follower", "scope": " ".join(scopes)}).encode()).decode().rstrip("=")
    return {"accessToken": f"header.{claims}.signature", "refreshToken": None}


def test_hostile_responses_and_names_of_webhooks_keep_the_layout(
    console: Console, receiver: Receiver, named: str
) -> None:
    receiver.body = HOSTILE.encode()
    hook = create_webhook(console.service, f"{receiver.url}?{'w' * 300}", f"{HOSTILE} {named}"[:300])
    page = console.open("webhooks")
    expect(card_of(page, named)).to_be_visible()
    require_good_layout(page, *WIDTHS)
    button(page, "New webhook").click()
    field(page, "Selected events").check()
    require_good_layout(page)
    button(page, "Cancel").click()
    page.goto(f"{console.service.base_url}/console/#/webhooks/{hook['webhookId']}")
    button(page, "Send test").click()
    expect(text(page, "Test delivered.")).to_be_visible()
    text(page, "Response body").first.click()
    require_good_layout(page)
    button(page, "Rotate secret …").click()
    button(dialog(page, "Rotate secret?"), "Rotate secret").click()
    text(dialog(page, "Signing secret"), "Verify signatures").click()
    require_good_layout(page)


def open_following(console: Console, route: str, user: str = "alice") -> Page:
    """Open a page and wait until it has the current position of the feed. It must display all later changes."""
    console.context.clock.install()
    page = console.open("webhooks", user)
    follow(console, page, route)
    return page


def follow(console: Console, page: Page, route: str) -> None:
    """Open a route in a page, and wait until the page has its position in the feed."""
    with page.expect_response(FIRST_POLL) as first_poll:
        page.goto(f"{console.service.base_url}/console/#/{route}")
    assert first_poll.value.status == 200
    first_poll.value.finished()
    if route != "operations":  # the operations screen loads its rows when they become visible
        expect(page.locator(".loading, .skeleton")).to_have_count(0)


def poll_now(page: Page) -> None:
    """Advance the page's clock, so that the page polls the feed immediately."""
    page.clock.fast_forward(6000)


def cards(page: Page) -> Locator:
    """Locate the displayed videos of a library."""
    return page.get_by_role("list", name="Videos", exact=True).locator("a.card")


def test_library_updates_in_place_and_offers_new_items(console: Console, unique: str) -> None:
    service = console.service
    page = open_following(console, f"?userId=me&category={unique}")
    expect(page.get_by_role("main")).to_contain_text("No videos match these filters.")
    created = [service.create(title="Film 0", category=unique)]
    poll_now(page)
    expect(cards(page)).to_contain_text(["Film 0"])  # an empty list shows new videos immediately

    created += [service.create(title=f"Film {number}", category=unique) for number in range(1, 8)]
    with page.expect_response(FIRST_POLL) as first_poll:
        page.reload()
    first_poll.value.finished()
    expect(cards(page)).to_have_count(8)
    cards(page).filter(has_text="Film 3").focus()
    before = cards(page).filter(has_text="Film 3").bounding_box()
    # Not the last card, which could disappear immediately. Cards of the same second are in any order.
    removed_title = cards(page).locator(".title").filter(has_not_text="Film 3").first.inner_text()
    (removed_video,) = (video for video in created if video["title"] == removed_title)
    service.create(title="New", category=unique)
    service.request("DELETE", f"/v1/videos/{removed_video['videoId']}")
    patched(service, created[3], title="Renamed")
    poll_now(page)
    renamed = cards(page).filter(has_text="Renamed")
    expect(renamed).to_be_focused()
    shows = button(page, "Show 2 new changes")
    expect(shows).to_be_visible()
    assert renamed.bounding_box() == before
    shows.click()
    expect(cards(page).filter(has_text="New")).to_have_count(1)
    expect(cards(page).filter(has_text=removed_title)).to_have_count(0)
    expect(shows).to_have_count(0)
    page.keyboard.press("Tab")  # the focus moves to the start of the list, where the button was
    expect(cards(page).and_(page.locator(":focus"))).to_have_count(1)

    cards(page).filter(has_text="New").click()
    expect(heading(page, "New")).to_be_visible()
    service.create(title="Came meanwhile", category=unique)
    page.go_back()
    poll_now(page)
    button(page, "Show 1 new change").click()
    expect(cards(page).filter(has_text="Came meanwhile")).to_have_count(1)

    # The feed no longer has the missed changes, so the page reads the list again.
    handle_first(page, FEED, lambda route: route.fulfill(status=410, json={"title": "Gone", "status": 410}))
    service.create(title="Missed", category=unique)
    poll_now(page)
    button(page, "Show 1 new change").click()
    expect(cards(page).filter(has_text="Missed")).to_have_count(1)


def test_open_video_shows_changes_by_other_users(console: Console) -> None:
    video = console.service.create(title="Before")
    page = open_following(console, f"videos/{video['videoId']}")
    expect(heading(page, "Before")).to_be_visible()
    patched(console.service, video, "admin", title="After", status="failed")
    poll_now(page)
    expect(heading(page, "After")).to_be_visible()
    expect(page.locator(".facts .status").first).to_have_text("Failed")


def test_administrators_see_changes_of_all_users_and_failed_videos(console: Console, unique: str) -> None:
    fields = {"userId": "bob", "category": unique, "status": "ready", "visibility": "public"}
    video = console.service.create("admin", title="Old", **fields)
    page = open_following(console, f"?category={unique}", "admin")
    patched(console.service, video, "bob", title="By bob")
    poll_now(page)
    expect(cards(page)).to_contain_text(["By bob"])

    console.service.create("admin", title="Failed before", status="failed")
    # In a short list, failed videos of other tests could displace the test's video.
    page.route(
        "**/v1/videos?status=failed*",
        lambda route: route.continue_(url=route.request.url.replace("limit=12", "limit=100")),
    )
    follow(console, page, "operations")
    failures = region(page, "Failed videos")
    expect(failures.get_by_role("listitem").first).to_be_visible()
    console.service.create("admin", title=unique, status="failed")
    click_new_items(page, failures, "change")
    poll_now(page)
    expect(link(failures, unique)).to_be_visible()
