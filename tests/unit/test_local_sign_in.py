"""Sign-in at the development issuer: the standard authorization code flow with PKCE."""

import hashlib
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from local import AUDIENCE, CONSOLE_CLIENT, ROOT
from local.issuer import CODE_SECONDS, LARGEST_FORM, PAGE_SECONDS, SESSION, USERS, Issuer, TokenSigner
from local.testbed.harness import Clock
from tests.polling import LIMIT

API = "http://127.0.0.1:4566"
BACK = f"{API}/console/"
VERIFIER = "a-verifier-of-forty-three-characters-or-more"
ALL = "videos/read videos/write videos/admin"


def challenge(verifier: str) -> str:
    """Return the challenge of a verifier (RFC 7636, section 4.2)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


REQUEST = {
    "client_id": CONSOLE_CLIENT,
    "redirect_uri": BACK,
    "response_type": "code",
    "scope": ALL,
    "code_challenge": challenge(VERIFIER),
    "code_challenge_method": "S256",
    "state": "a&b",
}


class People:
    """Browsers at an issuer."""

    def __init__(self, issuer: Issuer, http: httpx.Client) -> None:
        self.issuer = issuer
        self.http = http

    def authorize(self, **changed: str) -> httpx.Response:
        """Get the issuer's page. A parameter with an empty value is omitted."""
        return self.http.get(f"{self.issuer.url}/authorize", params=_parameters(REQUEST | changed))

    def choose(self, user: str, **changed: str) -> httpx.Response:
        """Click on a user of a fresh page, and return the response."""
        page = self.authorize(**changed)
        assert f'<button name="user" value="{user}"' in page.text
        return self.send({"page": token_of(page), "user": user})

    def send(self, form: dict[str, str], **headers: str) -> httpx.Response:
        """Send the form of a sign-in page, as its browser does."""
        browser_headers = {"Origin": self.issuer.url, "Sec-Fetch-Site": "same-origin"}
        browser_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"{self.issuer.url}/authorize", data=form, headers=browser_headers)

    def code(self, user: str = "alice", **changed: str) -> str:
        """Sign in, and return the authorization code of the redirect."""
        (code,) = parse_qs(urlsplit(self.choose(user, **changed).headers["location"]).query)["code"]
        return code

    def redeem(self, code: str, **changed: str) -> httpx.Response:
        """Redeem the code, and return the response."""
        form = {
            "grant_type": "authorization_code",
            "client_id": CONSOLE_CLIENT,
            "code": code,
            "redirect_uri": BACK,
            "code_verifier": VERIFIER,
        }
        return self.token(form | changed)

    def refresh(self, token: str) -> httpx.Response:
        """Refresh the tokens, and return the response."""
        return self.token({"grant_type": "refresh_token", "client_id": CONSOLE_CLIENT, "refresh_token": token})

    def token(self, form: dict[str, str]) -> httpx.Response:
        """Return the token endpoint's response."""
        return self.http.post(f"{self.issuer.url}/token", data=_parameters(form))


def token_of(page: httpx.Response) -> str:
    """Return the token in a sign-in page, which proves that a form was sent from the page."""
    (token,) = re.findall(r'name="page" value="([^"]+)"', page.text)
    return str(token)


def _parameters(parameters: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def claims(response: httpx.Response) -> dict[str, Any]:
    """Return the claims of the access token in a response."""
    return dict(jwt.decode(response.json()["access_token"], options={"verify_signature": False}))


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> TokenSigner:
    """One key for all tests here, because creating one is slow."""
    return TokenSigner(tmp_path_factory.mktemp("issuer") / "key.pem")


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    """One browser for all tests here. It keeps no state between them."""
    with httpx.Client(trust_env=False, timeout=LIMIT) as client:
        yield client


@pytest.fixture
def people(signer: TokenSigner, clock: Clock, http: httpx.Client) -> Iterator[People]:
    """People at the test's own issuer, which uses the test's clock."""
    with Issuer(0, signer, API, clock) as issuer:
        yield People(issuer, http)


def is_refused(response: httpx.Response, error: str) -> bool:
    """Return whether the token request was refused with this error (RFC 6749, section 5.2)."""
    return (response.status_code, response.json()) == (400, {"error": error})


class TestSigningIn:
    def test_the_page_offers_everybody_there_is(self, people: People) -> None:
        page = people.authorize()
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert re.findall(r'<button name="user" value="(\w+)" aria-labelledby="\1"', page.text) == [*USERS]

    def test_the_page_has_the_design_of_the_console_and_its_policy_permits_only_that_style_sheet(
        self, people: People
    ) -> None:
        page = people.authorize()
        (style,) = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
        assert (ROOT / "console" / "design" / "tokens.css").read_text("utf-8") in style
        digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = page.headers["content-security-policy"]
        assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
        assert "style=" not in page.text

    def test_chosen_user_is_redirected_with_a_code_and_the_sent_state(self, people: People) -> None:
        response = people.choose("alice")
        address, _, query = response.headers["location"].partition("?")
        assert (response.status_code, address, parse_qs(query)["state"]) == (303, BACK, ["a&b"])

    def test_a_code_becomes_tokens_that_the_service_accepts(self, people: People) -> None:
        response = people.redeem(people.code("admin"))
        keys = jwt.PyJWKSet.from_dict(people.http.get(f"{people.issuer.url}/.well-known/jwks.json").json())
        token = response.json()["access_token"]
        key = keys[jwt.get_unverified_header(token)["kid"]]
        verified = jwt.decode(token, key, algorithms=["RS256"], audience=AUDIENCE, issuer=people.issuer.url)
        assert (verified["sub"], verified["scope"], verified["client_id"]) == ("admin", ALL, CONSOLE_CLIENT)
        assert (response.json()["token_type"], response.json()["expires_in"]) == ("Bearer", SESSION)

    @pytest.mark.parametrize(
        ("user", "requested", "granted"),
        [
            ("alice", ALL, "videos/read videos/write"),
            ("admin", ALL, ALL),
            ("admin", "videos/read", "videos/read"),
            ("bob", "videos/transcode other", ""),
        ],
    )
    def test_the_scopes_are_those_that_were_asked_for_and_the_user_has(
        self, people: People, user: str, requested: str, granted: str
    ) -> None:
        response = people.redeem(people.code(user, scope=requested))
        assert response.json()["scope"] == claims(response)["scope"] == granted

    def test_tokens_are_not_cached(self, people: People) -> None:
        assert people.redeem(people.code()).headers["cache-control"] == "no-store"


class TestCodes:
    @pytest.mark.parametrize(
        "changed",
        [{"code_verifier": "another"}, {"code_verifier": ""}, {"redirect_uri": f"{BACK}index.html"}],
        ids=str,
    )
    def test_need_their_verifier_and_their_address(self, people: People, changed: dict[str, str]) -> None:
        assert is_refused(people.redeem(people.code(), **changed), "invalid_grant")

    def test_cannot_be_guessed(self, people: People) -> None:
        assert is_refused(people.redeem("guessed"), "invalid_grant")
        assert people.code() != people.code()

    def test_are_good_for_one_use(self, people: People) -> None:
        code = people.code()
        assert people.redeem(code).status_code == 200
        assert is_refused(people.redeem(code), "invalid_grant")

    def test_are_used_up_by_a_wrong_verifier(self, people: People) -> None:
        code = people.code()
        people.redeem(code, code_verifier="guessed")
        assert is_refused(people.redeem(code), "invalid_grant")

    def test_expire(self, people: People, clock: Clock) -> None:
        in_time, late = people.code(), people.code()
        clock.advance(CODE_SECONDS)
        assert people.redeem(in_time).status_code == 200
        clock.advance(1)
        assert is_refused(people.redeem(late), "invalid_grant")

    def test_are_of_one_client(self, people: People) -> None:
        assert is_refused(people.redeem(people.code(), client_id="another"), "invalid_client")

    def test_are_the_only_thing_that_is_redeemed_beside_refresh_tokens(self, people: People) -> None:
        assert is_refused(people.redeem(people.code(), grant_type="password"), "unsupported_grant_type")


class TestRefreshTokens:
    def test_give_new_tokens_of_the_same_user_with_the_same_scopes(self, people: People) -> None:
        first = people.redeem(people.code("bob", scope="videos/read"))
        second = people.refresh(first.json()["refresh_token"])
        assert (claims(second)["sub"], claims(second)["scope"]) == ("bob", "videos/read")
        assert claims(second)["jti"] != claims(first)["jti"]

    def test_are_good_for_one_use(self, people: People) -> None:
        first = people.redeem(people.code()).json()["refresh_token"]
        second = people.refresh(first).json()["refresh_token"]
        assert is_refused(people.refresh(first), "invalid_grant")
        assert people.refresh(second).status_code == 200


class TestRequests:
    @pytest.mark.parametrize(
        "address",
        [
            "https://127.0.0.1/console/",
            "http://evil.example/console/",
            "http://127.0.0.1:3000/console/",
            "http://127.0.0.1:4566/",
            "http://127.0.0.1:4566/console/../v1/videos",
            "http://localhost:4566/console/",
            "http://127.0.0.1.evil.example/",
            "http://127.0.0.1@evil.example/",
            "http://evil.example\\@127.0.0.1/",
            "http://127.0.0.1:4566/\r\nSet-Cookie: a=b",
            "http://127.0.0.1:4566/\n",
            "http://127.0.0.1:4566/?x=y",
            "http://127.0.0.1:4566/#x",
            "//evil.example/",
            "javascript:alert(1)",
            "",
        ],
    )
    def test_redirect_to_no_other_address_than_the_service(self, people: People, address: str) -> None:
        assert people.authorize(redirect_uri=address).text == "invalid_request\n"
        signed_out = people.http.get(f"{people.issuer.url}/logout", params={"post_logout_redirect_uri": address})
        assert (signed_out.status_code, "location" in signed_out.headers) == (400, False)

    @pytest.mark.parametrize("address", [BACK, f"{BACK}index.html", f"{API}/docs"])
    def test_redirect_to_the_console_and_to_the_docs(self, people: People, address: str) -> None:
        assert people.choose("alice", redirect_uri=address).headers["location"].startswith(f"{address}?code=")
        signed_out = people.http.get(f"{people.issuer.url}/logout", params={"post_logout_redirect_uri": address})
        assert (signed_out.status_code, signed_out.headers["location"]) == (302, address)

    @pytest.mark.parametrize(
        ("changed", "error"),
        [
            ({"client_id": "another"}, "unauthorized_client"),
            ({"response_type": "token"}, "unsupported_response_type"),
            ({"code_challenge": ""}, "invalid_request"),
            ({"code_challenge_method": "plain"}, "invalid_request"),
        ],
        ids=str,
    )
    def test_authorization_request_of_another_kind_is_refused(
        self, people: People, changed: dict[str, str], error: str
    ) -> None:
        response = people.authorize(**changed)
        assert (response.status_code, response.text) == (400, f"{error}\n")

    def test_are_shown_as_text_in_the_page(self, people: People) -> None:
        assert '"><script>' not in people.authorize(state='"><script>alert(1)</script>').text


class TestTheSignInPage:
    """Only a person who sees the page can sign in: no other page can send its form (CSRF)."""

    def test_the_page_is_good_for_one_use(self, people: People) -> None:
        form = {"page": token_of(people.authorize()), "user": "alice"}
        assert [people.send(form).status_code for _ in range(2)] == [303, 400]

    def test_the_page_expires(self, people: People, clock: Clock) -> None:
        form = {"page": token_of(people.authorize()), "user": "alice"}
        clock.advance(PAGE_SECONDS + 1)
        assert people.send(form).status_code == 400

    @pytest.mark.parametrize("form", [{"user": "admin"}, {"user": "admin", "page": "guessed"}, {"user": "nobody"}, {}])
    def test_a_form_that_is_not_of_the_page_is_refused(self, people: People, form: dict[str, str]) -> None:
        token = token_of(people.authorize())
        form = form if form.get("user") == "admin" else {"page": token} | form
        response = people.send(form)
        assert (response.status_code, "location" in response.headers) == (400, False)

    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
            {"Origin": "https://evil.example"},
            {"Origin": API},
            {"Origin": "null"},
        ],
        ids=str,
    )
    def test_a_form_that_another_page_sends_is_refused(self, people: People, headers: dict[str, str]) -> None:
        response = people.send({"page": token_of(people.authorize()), "user": "admin"}, **headers)
        assert (response.status_code, "location" in response.headers) == (403, False)

    def test_a_get_signs_nobody_in(self, people: People) -> None:
        """An image or a navigation cannot get a code."""
        for path in ("/authorize/admin", "/authorize"):
            response = people.http.get(f"{people.issuer.url}{path}", params=REQUEST | {"user": "admin"})
            assert "location" not in response.headers

    def test_no_page_can_frame_it_or_run_a_script_in_it(self, people: People) -> None:
        policy = people.authorize().headers["content-security-policy"]
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))


class TestOtherPages:
    """Pages of other sites cannot use the issuer on a developer's machine."""

    @pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/authorize", "/logout", "/token"])
    @pytest.mark.parametrize(
        "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Sec-Fetch-Site": "cross-site"}], ids=str
    )
    def test_a_page_of_another_site_is_refused(self, people: People, path: str, headers: dict[str, str]) -> None:
        """Such requests arrive by DNS rebinding, or are cross-site."""
        for method in ("GET", "POST"):
            response = people.http.request(method, f"{people.issuer.url}{path}", params=REQUEST, headers=headers)
            assert (response.status_code, response.content) == (403, b"")

    def test_published_configuration_and_tokens_are_readable_by_the_console_only(self, people: People) -> None:
        responses = [people.http.get(f"{people.issuer.url}/.well-known/openid-configuration"), people.redeem("x")]
        assert [response.headers["access-control-allow-origin"] for response in responses] == [API, API]

    def test_no_page_may_read_the_sign_in_page_or_a_code(self, people: People) -> None:
        for response in (people.authorize(), people.choose("alice")):
            assert "access-control-allow-origin" not in response.headers


class TestForms:
    def test_form_that_is_too_large_is_not_read(self, people: People) -> None:
        response = people.redeem("x" * LARGEST_FORM)
        assert (response.status_code, response.content, response.headers["connection"]) == (400, b"", "close")

    def test_without_a_length_are_not_read(self, people: People) -> None:
        response = people.http.post(f"{people.issuer.url}/token", content=iter([b"grant_type=x"]))
        assert (response.status_code, response.headers["connection"]) == (400, "close")

    def test_elsewhere_are_not_read(self, people: People) -> None:
        response = people.http.post(f"{people.issuer.url}/logout", data=REQUEST)
        assert (response.status_code, response.headers["connection"]) == (404, "close")


def test_discovery_says_all_that_a_client_needs(people: People) -> None:
    """https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata"""
    document = people.http.get(f"{people.issuer.url}/.well-known/openid-configuration").json()
    assert document["authorization_endpoint"] == f"{people.issuer.url}/authorize"
    assert document["token_endpoint"] == f"{people.issuer.url}/token"
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["token_endpoint_auth_methods_supported"] == ["none"]
