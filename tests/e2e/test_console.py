"""The console: its page, its files, signing in, and what happens when a session ends."""

import re
from typing import Literal

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.browser import Console, serious, wait_until
from tests.e2e.conftest import Service

SPOIL = """
(names) => {
  const tokens = JSON.parse(sessionStorage.getItem("tokens"));
  for (const name of names) tokens[name] = tokens[name].slice(0, -8) + "AAAAAAAA";
  sessionStorage.setItem("tokens", JSON.stringify(tokens));
}
"""
"""Makes tokens such as nobody has issued: the service and the issuer then answer as for those that have ended."""


def _with_spoilt(console: Console, *tokens: str) -> Page:
    """A page whose first request of the API comes when its tokens have ended."""
    page = console.open("nowhere")
    page.evaluate(SPOIL, tokens)
    return page


def _go_to_library(page: Page) -> None:
    page.get_by_role("link", name="Library", exact=True).click()


def test_somebody_signs_in_and_out_again(console: Console) -> None:
    page = console.open(user=None)
    console.sign_in(page, "bob")
    expect(page.get_by_role("heading", name="Library")).to_be_visible()
    expect(page.get_by_role("banner")).to_contain_text("bob")
    with page.expect_request(f"{console.issuer}/logout?*"):  # else the issuer might let the next person in as bob
        console.sign_out(page)
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0


def test_no_address_ever_has_a_token_and_none_keeps_the_code(console: Console) -> None:
    asked: list[str] = []
    console.context.on("request", lambda request: asked.append(request.url))
    page = console.open()
    tokens = page.evaluate("Object.values(JSON.parse(sessionStorage.getItem('tokens')))")
    assert len(tokens) == 2
    assert not [url for url in asked if any(token in url for token in tokens)]
    expect(page).to_have_url(re.compile(rf"^{console.service.base_url}/console/(index\.html)?#/$"))


def test_a_reload_keeps_who_is_signed_in_and_where(console: Console) -> None:
    page = console.open("nowhere")
    page.reload()
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_role("banner")).to_contain_text("alice")


def test_somebody_who_follows_a_link_gets_there_after_signing_in(console: Console) -> None:
    page = console.open("upload?video=1", user=None)
    console.sign_in(page, "alice")
    expect(page.get_by_role("heading", name="Upload", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(r"#/upload\?video=1$"))


def test_a_token_that_has_ended_is_renewed_without_a_word(console: Console) -> None:
    page = _with_spoilt(console, "accessToken")
    spoilt = page.evaluate("sessionStorage.getItem('tokens')")
    with page.expect_response(lambda answer: "/v1/videos?" in answer.url and answer.status == 200):
        _go_to_library(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("sessionStorage.getItem('tokens')") != spoilt


def test_a_session_that_has_ended_goes_on_where_it_was_after_signing_in_beside_it(console: Console) -> None:
    page = _with_spoilt(console, "accessToken", "refreshToken")
    _go_to_library(page)
    dialog = page.get_by_role("dialog", name="Your session has ended")
    with console.context.expect_page() as other:
        dialog.get_by_role("button", name="Sign in again").click()
    beside = other.value
    with page.expect_response(lambda answer: "/v1/videos?" in answer.url and answer.status == 200):
        beside.get_by_role("button", name="alice", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", name="Library")).to_be_visible()


def test_an_issuer_that_fails_for_a_moment_ends_no_session(console: Console) -> None:
    page = _with_spoilt(console, "accessToken")
    page.route(f"{console.issuer}/token", lambda route: route.fulfill(status=503, json={"error": "server_error"}))
    _go_to_library(page)
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.unroute(f"{console.issuer}/token")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_signing_out_while_a_token_is_renewed_stays_so(console: Console) -> None:
    page = _with_spoilt(console, "accessToken")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"{console.issuer}/token", hold)
    with page.expect_request(f"{console.issuer}/token"):
        _go_to_library(page)
    page.route(f"{console.issuer}/logout?*", lambda route: route.fulfill(status=204))  # so that this page stays
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    with page.expect_response(f"{console.issuer}/token"):
        held[0].continue_()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('tokens')") is None


def test_an_answer_that_breaks_off_is_a_lost_connection(console: Console) -> None:
    page = console.open("nowhere")
    cut = "() => { Response.prototype.json = Response.prototype.text = async () => { throw new TypeError('cut') } }"
    page.evaluate(cut)
    _go_to_library(page)
    expect(page.get_by_role("alert").first).to_contain_text("No connection")


def test_signing_in_beside_it_that_is_refused_says_so_there(console: Console) -> None:
    page = _with_spoilt(console, "accessToken", "refreshToken")
    console.context.route(
        "**/authorize?*", lambda route: route.fulfill(status=302, headers={"Location": _denied(route.request.url)})
    )
    _go_to_library(page)
    dialog = page.get_by_role("dialog", name="Your session has ended")
    with console.context.expect_page() as other:
        dialog.get_by_role("button", name="Sign in again").click()
    expect(other.value.get_by_role("alert")).to_contain_text("access_denied")
    expect(dialog).to_be_visible()


def test_signing_out_asks_before_it_drops_what_is_not_saved(console: Console) -> None:
    video = console.service.create(title="Before")
    page = console.open(f"videos/{video['videoId']}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Title").fill("Not saved")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("dialog").get_by_role("button", name="Stay").click()
    expect(page.get_by_role("textbox", name="Title")).to_have_value("Not saved")


def test_nobody_else_takes_over_a_session_that_has_ended(console: Console) -> None:
    page = _with_spoilt(console, "accessToken", "refreshToken")
    _go_to_library(page)
    dialog = page.get_by_role("dialog", name="Your session has ended")
    with console.context.expect_page() as other:
        dialog.get_by_role("button", name="Sign in again").click()
    other.value.get_by_role("button", name="bob", exact=True).click()
    expect(other.value.get_by_role("alert")).to_contain_text("bob")
    expect(dialog).to_be_visible()


def test_files_that_are_refused_at_first_are_asked_for_again(console: Console) -> None:
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if route.request.url in refused:
            route.fallback()
        else:
            refused.append(route.request.url)
            route.fulfill(status=503, json={"message": "Service Unavailable"})

    console.context.route(re.compile(r"/(api|load|preact)\.js$"), refuse_once)
    page = console.open(user=None)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert len(refused) == 3


def test_a_console_whose_files_do_not_come_says_so(console: Console) -> None:
    console.context.route(re.compile(r"/api\.js$"), lambda route: route.abort())
    page = console.open(user=None)
    expect(page.get_by_text("The console cannot be loaded")).to_be_visible()


def test_signing_in_that_is_refused_says_why(console: Console) -> None:
    page = console.open(user=None)
    page.route(
        "**/authorize?*", lambda route: route.fulfill(status=302, headers={"Location": _denied(route.request.url)})
    )
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("access_denied")


def _denied(url: str) -> str:
    back, state = (re.search(rf"{name}=([^&]+)", url) for name in ("redirect_uri", "state"))
    assert back is not None
    assert state is not None
    return f"{back[1].replace('%3A', ':').replace('%2F', '/')}?error=access_denied&state={state[1]}"


def test_a_deployment_without_a_client_for_the_console_says_what_is_missing(console: Console) -> None:
    page = console.open(user=None)
    config = {"issuer": console.issuer, "clientId": None, "scopes": "", "audience": None}
    page.route("**/config.json", lambda route: route.fulfill(json=config))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("consoleClient")


def test_without_a_connection_a_screen_says_so_and_can_be_tried_again(console: Console) -> None:
    page = console.open("upload")
    expect(page.get_by_role("heading", level=1)).to_have_text("Upload")
    console.context.set_offline(True)
    page.get_by_role("link", name="Library", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    console.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_screen_that_cannot_be_loaded_says_why_where_it_is_wanted_only(console: Console) -> None:
    page = console.open("nowhere")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    heading = page.get_by_role("heading", level=1)
    console.context.set_offline(True)
    page.route("**/screens/webhooks.js", lambda route: route.abort())
    page.get_by_role("link", name="Webhooks", exact=True).click()
    expect(heading).to_have_text("Not loaded")
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    page.get_by_role("link", name="Library", exact=True).click()
    expect(heading).to_have_text("Library")
    console.context.set_offline(False)
    refused: list[Route] = []
    page.route("**/screens/upload.js", lambda route: refused.append(route))
    page.get_by_role("link", name="Upload", exact=True).click()
    expect(heading).to_have_count(0)
    page.get_by_role("link", name="Library", exact=True).click()
    expect(heading).to_have_text("Library")
    # It fails only after somebody has gone elsewhere.
    wait_until(page, lambda: refused)
    refused[0].abort()
    page.unroute("**/screens/upload.js")
    page.get_by_role("link", name="Playlists", exact=True).click()
    expect(heading).to_have_text("Playlists")


def test_the_keyboard_gets_past_the_header_at_once(console: Console) -> None:
    page = console.open("nowhere")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_sign_in(console: Console, scheme: Literal["light", "dark"]) -> None:
    page = console.open(user=None)
    page.emulate_media(color_scheme=scheme)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert serious(page) == []


def test_files_are_named_after_their_content_and_kept_for_good(service: Service) -> None:
    page = service.request("GET", "/console/", None, follow_redirects=True)
    assert page.headers["cache-control"] == "no-cache"
    (folder,) = set(re.findall(r"=\"([0-9a-f]{16})/", page.text))
    script = service.request("GET", f"/console/{folder}/app.js", None, headers={"Accept-Encoding": "gzip"})
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    assert script.headers["content-encoding"] == "gzip"
