"""The console: its page, its files, sign-in, and the behaviour when a session or the connection ends."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.browser import Console, HeldRequests, handle_first
from tests.e2e.conftest import Service
from tests.e2e.locators import account, button, dialog, heading, link

INVALIDATE_TOKENS = """
(names) => {
  const tokens = JSON.parse(sessionStorage.getItem("tokens"));
  for (const name of names) tokens[name] = tokens[name].slice(0, -8) + "AAAAAAAA";
  sessionStorage.setItem("tokens", JSON.stringify(tokens));
}
"""
"""Script that replaces tokens by tokens that were never issued. The service and the issuer treat them like expired
tokens."""
NO_RETRY_DELAYS = "const wait = setTimeout; window.setTimeout = (act, _milliseconds, ...rest) => wait(act, 0, ...rest);"
"""Script that removes all waits of the page before retries."""


def _denied(route: Route) -> None:
    """Respond as an issuer that denies access."""
    parameters = parse_qs(urlsplit(route.request.url).query)
    back = f"{parameters['redirect_uri'][0]}?error=access_denied&state={parameters['state'][0]}"
    route.fulfill(status=302, headers={"Location": back})


def _second_window(console: Console, page: Page) -> Page:
    """Return the window that the dialog of an ended session opens."""
    with console.context.expect_page() as opened:
        button(dialog(page, "Your session has ended"), "Sign in again").click()
    return opened.value


def test_user_follows_a_link_signs_in_reloads_and_signs_out(console: Console) -> None:
    urls: list[str] = []
    console.context.on("request", lambda request: urls.append(request.url))
    page = console.open("upload?video=1", user=None)
    expect(button(page, "Sign in")).to_be_visible()
    console.sign_in(page, "alice")
    expect(heading(page, "Upload")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"^{console.service.base_url}/console/(index\.html)?#/upload\?video=1$"))
    tokens = page.evaluate("Object.values(JSON.parse(sessionStorage.getItem('tokens')))")
    assert len(tokens) == 2

    page.reload()
    expect(heading(page, "Upload")).to_be_visible()
    expect(page.get_by_role("banner")).to_contain_text("alice")
    page.keyboard.press("Tab")
    expect(link(page, "Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    with page.expect_request(f"{console.issuer}/logout?*"):  # otherwise the issuer could sign in the next user as alice
        console.sign_out(page)
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0
    assert not [url for url in urls if any(token in url for token in tokens)]


def test_expired_token_is_renewed_except_after_sign_out(console: Console) -> None:
    page = console.open("nowhere")
    page.evaluate(INVALIDATE_TOKENS, ["accessToken"])
    spoilt = page.evaluate("sessionStorage.getItem('tokens')")
    failing = [{"error": "server_error"}]  # for all renewals, because several requests may renew the token

    def renew(route: Route) -> None:
        route.fulfill(status=503, json=failing[0]) if failing else route.fallback()

    page.route(f"{console.issuer}/token", renew)
    link(page, "Library").click()
    expect(page.get_by_role("alert")).to_contain_text("No connection")  # an error of the issuer ends no session
    expect(page.get_by_role("dialog")).to_have_count(0)
    failing.clear()
    with page.expect_response(lambda response: "/v1/videos?" in response.url and response.status == 200):
        button(page, "Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert page.evaluate("sessionStorage.getItem('tokens')") != spoilt

    page.evaluate(INVALIDATE_TOKENS, ["accessToken"])
    renewal = HeldRequests(page, f"{console.issuer}/token")
    link(page, "Playlists").click()
    renewal.wait_for(1)
    page.route(f"{console.issuer}/logout?*", lambda route: route.fulfill(status=204))  # keeps the browser on this page
    account(page).click()
    button(page, "Sign out").click()
    expect(button(page, "Sign in")).to_be_visible()
    with page.expect_response(f"{console.issuer}/token"):
        renewal.release()
    # by then the page has processed the issuer's response
    page.evaluate("fetch('config.json').then((response) => response.text())")
    expect(button(page, "Sign in")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('tokens')") is None


def test_ended_session_resumes_when_the_same_user_signs_in_again(console: Console) -> None:
    page = console.open("nowhere")
    page.evaluate(INVALIDATE_TOKENS, ["accessToken", "refreshToken"])
    link(page, "Playlists").click()
    ended = dialog(page, "Your session has ended")
    expect(ended).to_be_visible()
    refusing = [True]
    console.context.route("**/authorize?*", lambda route: _denied(route) if refusing else route.fallback())
    refused = _second_window(console, page)
    expect(refused.get_by_role("alert")).to_contain_text("access_denied")
    refused.close()
    refusing.clear()

    other = _second_window(console, page)
    console.identify(other, "bob")
    expect(other.get_by_role("alert")).to_contain_text("You signed in as bob, but the other window expects alice.")
    other.close()
    expect(ended).to_be_visible()

    with page.expect_response(lambda response: "/v1/playlists?" in response.url and response.status == 200):
        console.identify(_second_window(console, page), "alice")
    expect(ended).to_have_count(0)
    expect(heading(page, "Playlists")).to_be_visible()


def test_failed_sign_in_shows_the_reason(console: Console) -> None:
    page = console.open(user=None)
    handle_first(page, "**/authorize?*", _denied)
    button(page, "Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("access_denied")
    config = {"issuer": console.issuer, "clientId": None, "scopes": "", "audience": None}
    page.route("**/config.json", lambda route: route.fulfill(json=config))
    button(page, "Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Set consoleClient")


def test_refused_files_are_retried_then_reported(console: Console) -> None:
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if route.request.url in refused:
            route.fallback()
        else:
            refused.append(route.request.url)
            route.fulfill(status=503, json={"message": "Service Unavailable"})

    console.context.add_init_script(NO_RETRY_DELAYS)
    console.context.route(re.compile(r"/(api|load|preact)\.js$"), refuse_once)
    expect(button(console.open(user=None), "Sign in")).to_be_visible()
    assert len(refused) == 3
    console.context.route(re.compile(r"/api\.js$"), lambda route: route.abort())
    expect(console.open(user=None).locator("#app")).to_contain_text("The console cannot be loaded")


def test_each_screen_reports_a_lost_connection_and_can_be_retried(console: Console) -> None:
    page = console.open("nowhere")
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("Not found")
    page.route("**/screens/webhooks.js", lambda route: route.abort())
    console.context.set_offline(True)
    link(page, "Webhooks").click()
    expect(title).to_have_text("Page not loaded")
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    link(page, "Library").click()
    expect(title).to_have_text("Library")
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    console.context.set_offline(False)
    button(page, "Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)

    screen = HeldRequests(page, "**/screens/upload.js")
    link(page, "Upload").click()
    screen.wait_for(1)
    link(page, "Library").click()
    expect(title).to_have_text("Library")
    screen.fail()  # has no effect, because the user has left this screen
    link(page, "Playlists").click()
    expect(title).to_have_text("Playlists")


def test_search_of_the_guide_finds_a_page(console: Console) -> None:
    if console.service.embedded is None:
        pytest.skip("only the embedded AWS serves the guide")
    page = console.context.new_page()
    page.goto(f"{console.service.base_url}/guide/")
    dialog(page, "Search").get_by_role("button").click()
    page.get_by_role("combobox").fill("webvtt")
    page.get_by_role("option").first.click()
    expect(page).to_have_url(re.compile(r"/guide/docs/.+\.html\?h=webvtt"))
    expect(page.get_by_role("main")).to_contain_text("WebVTT")


def test_files_are_named_by_a_content_hash_and_cached_permanently(service: Service) -> None:
    page = service.request("GET", "/console/", None, follow_redirects=True)
    assert page.headers["cache-control"] == "no-cache"
    (folder,) = set(re.findall(r"=\"([0-9a-f]{16})/", page.text))
    script = service.request("GET", f"/console/{folder}/app.js", None, headers={"Accept-Encoding": "gzip"})
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    assert script.headers["content-encoding"] == "gzip"
