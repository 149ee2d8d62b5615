"""Tests of the sign-in at the development issuer: the standard authorization code flow with PKCE."""

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
    """Return the code challenge of a verifier (RFC 7636, section 4.2)."""
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


class SignInClient:
    """Browser client of a development issuer."""

    def __init__(self, issuer: Issuer, http: httpx.Client) -> None:
        self.issuer = issuer
        self.http = http

    def authorize(self, **changed: str) -> httpx.Response:
        """Get the sign-in page. A parameter with an empty value is omitted."""
        return self.http.get(f"{self.issuer.url}/authorize", params=_parameters(REQUEST | changed))

    def choose(self, user: str, **changed: str) -> httpx.Response:
        """Choose a user on a new sign-in page, and return the response."""
        page = self.authorize(**changed)
        assert f'<button name="user" value="{user}"' in page.text
        return self.send({"page": token_of(page), "user": user})

    def send(self, form: dict[str, str], **headers: str) -> httpx.Response:
        """Submit the form of a sign-in page, with the headers of its browser."""
        browser_headers = {"Origin": self.issuer.url, "Sec-Fetch-Site": "same-origin"}
        browser_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"{self.issuer.url}/authorize", data=form, headers=browser_headers)

    def code(self, user: str = "alice", **changed: str) -> str:
        """Sign in, and return the authorization code in the redirect."""
        (code,) = parse_qs(urlsplit(self.choose(user, **changed).headers["location"]).query)["code"]
        return code

    def redeem(self, code: str, **changed: str) -> httpx.Response:
        """Redeem a code for tokens, and return the response."""
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
        """Send a form to the token endpoint, and return the response."""
        return self.http.post(f"{self.issuer.url}/token", data=_parameters(form))


def token_of(page: httpx.Response) -> str:
    """Return the token in a sign-in page. A form must contain it as proof that it comes from the page."""
    (token,) = re.findall(r'name="page" value="([^"]+)"', page.text)
    return str(token)


def _parameters(parameters: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def claims(response: httpx.Response) -> dict[str, Any]:
    """Return the claims of the access token in a response, without verification."""
    return dict(jwt.decode(response.json()["access_token"], options={"verify_signature": False}))


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> TokenSigner:
    """Return a signer for all tests of this module, because creating a key is slow."""
    return TokenSigner(tmp_path_factory.mktemp("issuer") / "key.pem")


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    """Yield an HTTP client for all tests of this module. It keeps no state between tests."""
    with httpx.Client(trust_env=False, timeout=LIMIT) as client:
        yield client


@pytest.fixture
def client(signer: TokenSigner, clock: Clock, http: httpx.Client) -> Iterator[SignInClient]:
    """Yield a client of an issuer that uses the test clock."""
    with Issuer(0, signer, API, clock) as issuer:
        yield SignInClient(issuer, http)


def is_refused(response: httpx.Response, error: str) -> bool:
    """Return whether a token request was refused with the given error (RFC 6749, section 5.2)."""
    return (response.status_code, response.json()) == (400, {"error": error})


class TestSigningIn:
    def test_page_offers_every_user(self, client: SignInClient) -> None:
        page = client.authorize()
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert re.findall(r'<button name="user" value="(\w+)" aria-labelledby="\1"', page.text) == [*USERS]

    def test_page_contains_the_design_tokens_of_the_console_and_permits_only_that_style_sheet(
        self, client: SignInClient
    ) -> None:
        page = client.authorize()
        (style,) = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
        assert (ROOT / "console" / "design" / "tokens.css").read_text("utf-8") in style
        digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = page.headers["content-security-policy"]
        assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
        assert "style=" not in page.text

    def test_chosen_user_is_redirected_with_a_code_and_the_sent_state(self, client: SignInClient) -> None:
        response = client.choose("alice")
        address, _, query = response.headers["location"].partition("?")
        assert (response.status_code, address, parse_qs(query)["state"]) == (303, BACK, ["a&b"])

    def test_code_is_redeemed_for_tokens_that_the_service_accepts(self, client: SignInClient) -> None:
        response = client.redeem(client.code("admin"))
        keys = jwt.PyJWKSet.from_dict(client.http.get(f"{client.issuer.url}/.well-known/jwks.json").json())
        token = response.json()["access_token"]
        key = keys[jwt.get_unverified_header(token)["kid"]]
        verified = jwt.decode(token, key, algorithms=["RS256"], audience=AUDIENCE, issuer=client.issuer.url)
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
    def test_granted_scopes_are_the_requested_ones_that_the_user_has(
        self, client: SignInClient, user: str, requested: str, granted: str
    ) -> None:
        response = client.redeem(client.code(user, scope=requested))
        assert response.json()["scope"] == claims(response)["scope"] == granted

    def test_tokens_are_not_cached(self, client: SignInClient) -> None:
        assert client.redeem(client.code()).headers["cache-control"] == "no-store"


class TestCodes:
    @pytest.mark.parametrize(
        "changed",
        [{"code_verifier": "another"}, {"code_verifier": ""}, {"redirect_uri": f"{BACK}index.html"}],
        ids=str,
    )
    def test_code_needs_its_verifier_and_redirect_uri(self, client: SignInClient, changed: dict[str, str]) -> None:
        assert is_refused(client.redeem(client.code(), **changed), "invalid_grant")

    def test_code_cannot_be_guessed(self, client: SignInClient) -> None:
        assert is_refused(client.redeem("guessed"), "invalid_grant")
        assert client.code() != client.code()

    def test_code_can_be_redeemed_once(self, client: SignInClient) -> None:
        code = client.code()
        assert client.redeem(code).status_code == 200
        assert is_refused(client.redeem(code), "invalid_grant")

    def test_code_is_invalid_after_a_wrong_verifier(self, client: SignInClient) -> None:
        code = client.code()
        client.redeem(code, code_verifier="guessed")
        assert is_refused(client.redeem(code), "invalid_grant")

    def test_code_expires(self, client: SignInClient, clock: Clock) -> None:
        in_time, late = client.code(), client.code()
        clock.advance(CODE_SECONDS)
        assert client.redeem(in_time).status_code == 200
        clock.advance(1)
        assert is_refused(client.redeem(late), "invalid_grant")

    def test_code_belongs_to_one_client(self, client: SignInClient) -> None:
        assert is_refused(client.redeem(client.code(), client_id="another"), "invalid_client")

    def test_other_grant_types_are_refused(self, client: SignInClient) -> None:
        assert is_refused(client.redeem(client.code(), grant_type="password"), "unsupported_grant_type")


class TestRefreshTokens:
    def test_refreshed_tokens_have_the_same_user_and_scopes(self, client: SignInClient) -> None:
        first = client.redeem(client.code("bob", scope="videos/read"))
        second = client.refresh(first.json()["refresh_token"])
        assert (claims(second)["sub"], claims(second)["scope"]) == ("bob", "videos/read")
        assert claims(second)["jti"] != claims(first)["jti"]

    def test_refresh_token_can_be_used_once(self, client: SignInClient) -> None:
        first = client.redeem(client.code()).json()["refresh_token"]
        second = client.refresh(first).json()["refresh_token"]
        assert is_refused(client.refresh(first), "invalid_grant")
        assert client.refresh(second).status_code == 200


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
    def test_redirect_to_an_address_outside_the_service_is_refused(self, client: SignInClient, address: str) -> None:
        assert client.authorize(redirect_uri=address).text == "invalid_request\n"
        signed_out = client.http.get(f"{client.issuer.url}/logout", params={"post_logout_redirect_uri": address})
        assert (signed_out.status_code, "location" in signed_out.headers) == (400, False)

    @pytest.mark.parametrize("address", [BACK, f"{BACK}index.html", f"{API}/docs"])
    def test_redirect_to_the_console_and_the_docs_is_accepted(self, client: SignInClient, address: str) -> None:
        assert client.choose("alice", redirect_uri=address).headers["location"].startswith(f"{address}?code=")
        signed_out = client.http.get(f"{client.issuer.url}/logout", params={"post_logout_redirect_uri": address})
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
    def test_unsupported_authorization_request_is_refused(
        self, client: SignInClient, changed: dict[str, str], error: str
    ) -> None:
        response = client.authorize(**changed)
        assert (response.status_code, response.text) == (400, f"{error}\n")

    def test_request_parameters_are_escaped_in_the_page(self, client: SignInClient) -> None:
        assert '"><script>' not in client.authorize(state='"><script>alert(1)</script>').text


class TestSignInPage:
    """Only a user of the sign-in page can sign in. Other pages cannot submit its form (CSRF)."""

    def test_page_can_be_submitted_once(self, client: SignInClient) -> None:
        form = {"page": token_of(client.authorize()), "user": "alice"}
        assert [client.send(form).status_code for _ in range(2)] == [303, 400]

    def test_page_expires(self, client: SignInClient, clock: Clock) -> None:
        form = {"page": token_of(client.authorize()), "user": "alice"}
        clock.advance(PAGE_SECONDS + 1)
        assert client.send(form).status_code == 400

    @pytest.mark.parametrize("form", [{"user": "admin"}, {"user": "admin", "page": "guessed"}, {"user": "nobody"}, {}])
    def test_form_without_the_token_or_a_known_user_is_refused(
        self, client: SignInClient, form: dict[str, str]
    ) -> None:
        token = token_of(client.authorize())
        form = form if form.get("user") == "admin" else {"page": token} | form
        response = client.send(form)
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
    def test_form_that_another_page_submits_is_refused(self, client: SignInClient, headers: dict[str, str]) -> None:
        response = client.send({"page": token_of(client.authorize()), "user": "admin"}, **headers)
        assert (response.status_code, "location" in response.headers) == (403, False)

    def test_get_request_does_not_sign_in(self, client: SignInClient) -> None:
        """Test that images and links of other sites, which send GET requests, cannot obtain a code."""
        for path in ("/authorize/admin", "/authorize"):
            response = client.http.get(f"{client.issuer.url}{path}", params=REQUEST | {"user": "admin"})
            assert "location" not in response.headers

    def test_page_cannot_be_framed_and_runs_no_script(self, client: SignInClient) -> None:
        policy = client.authorize().headers["content-security-policy"]
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))


class TestOtherPages:
    """Pages of other sites cannot use the issuer on a developer's machine."""

    @pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/authorize", "/logout", "/token"])
    @pytest.mark.parametrize(
        "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Sec-Fetch-Site": "cross-site"}], ids=str
    )
    def test_request_of_another_site_is_refused(self, client: SignInClient, path: str, headers: dict[str, str]) -> None:
        """Test a foreign Host header, which shows DNS rebinding, and a foreign Sec-Fetch-Site header, which shows a
        request of another site."""
        for method in ("GET", "POST"):
            response = client.http.request(method, f"{client.issuer.url}{path}", params=REQUEST, headers=headers)
            assert (response.status_code, response.content) == (403, b"")

    def test_discovery_and_tokens_are_readable_only_by_the_console(self, client: SignInClient) -> None:
        responses = [client.http.get(f"{client.issuer.url}/.well-known/openid-configuration"), client.redeem("x")]
        assert [response.headers["access-control-allow-origin"] for response in responses] == [API, API]

    def test_sign_in_page_and_code_are_readable_by_no_page(self, client: SignInClient) -> None:
        for response in (client.authorize(), client.choose("alice")):
            assert "access-control-allow-origin" not in response.headers


class TestForms:
    def test_form_that_is_too_large_is_not_read(self, client: SignInClient) -> None:
        response = client.redeem("x" * LARGEST_FORM)
        assert (response.status_code, response.content, response.headers["connection"]) == (400, b"", "close")

    def test_form_without_a_length_is_not_read(self, client: SignInClient) -> None:
        response = client.http.post(f"{client.issuer.url}/token", content=iter([b"grant_type=x"]))
        assert (response.status_code, response.headers["connection"]) == (400, "close")

    def test_form_for_another_endpoint_is_not_read(self, client: SignInClient) -> None:
        response = client.http.post(f"{client.issuer.url}/logout", data=REQUEST)
        assert (response.status_code, response.headers["connection"]) == (404, "close")


def test_discovery_contains_the_required_metadata(client: SignInClient) -> None:
    """Test the metadata that OpenID requires.

    https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata
    """
    document = client.http.get(f"{client.issuer.url}/.well-known/openid-configuration").json()
    assert document["authorization_endpoint"] == f"{client.issuer.url}/authorize"
    assert document["token_endpoint"] == f"{client.issuer.url}/token"
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["token_endpoint_auth_methods_supported"] == ["none"]
