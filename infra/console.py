"""The console: a function of its own that serves its files, and the client by which people sign in there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.identity import IdentityStack
from infra.media_stack import MediaStack
from infra.settings import Issuer, Misconfigured, Settings
from infra.site import CONSOLE, LibraryMissing, bundle_site, require_libraries
from shared import routes

PATH = "/console/"
PAGE = "index.html"
ROUTES = {"getConsole": PATH.rstrip("/"), "getConsoleFile": f"{PATH}{{file+}}"}
"""The paths of its routes; none may end with a slash. Where the gateway takes `/console/` for neither, the function `public`
leads on to the page by its name."""
MEMORY_MB = 256
"""It reads a file and hands it on; the interpreter alone takes about 40 MB."""
SESSION = cdk.Duration.hours(12)
"""For how long somebody who signed in stays so, as long as the tab is open."""


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """Where and as what the console lets people sign in."""

    issuer: str
    client: str | None
    """None: nobody can."""
    scopes: Sequence[str]
    audience: str | None
    """Whom tokens should be meant for, if the issuer has to be told."""
    origins: Sequence[str]
    """Where its page finds out about the issuer, and gets tokens."""


def site_code() -> lambda_.Code:
    """The function `console` with the files that it serves, identified by their content.

    Raises Misconfigured when a library is missing: at once, as the CDK turns what a bundler raises into an error of its own.
    """
    try:
        require_libraries()
    except LibraryMissing as error:
        raise Misconfigured(f"{error}") from error
    return lambda_.Code.from_asset(
        str(CONSOLE),
        asset_hash_type=cdk.AssetHashType.OUTPUT,
        bundling=cdk.BundlingOptions(
            image=cdk.DockerImage.from_registry("never-used"),  # CDK asks for one; the bundler below always succeeds
            local=_Bundler(),
        ),
    )


@jsii.implements(cdk.ILocalBundling)
class _Bundler:
    def try_bundle(self, output_dir: str, *_args: object, **_kwargs: object) -> bool:
        bundle_site(Path(output_dir))
        return True


class Console(Construct):
    """What answers below `/console`. Its role can do nothing but write a log.

    It does not shift gradually: of two versions each would answer for files that only the other has.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        data: DataStack,
        media: MediaStack,
        issuer: Issuer,
        identity: IdentityStack | None,
        api_url: str,
    ) -> None:
        """`identity`: the user pool, if there is one."""
        super().__init__(scope, id_)
        self.url = f"{api_url}{PATH}"
        self.client_ids: list[str] = []
        """Whose tokens the API has to accept besides."""
        sign_in = self._given(settings, issuer) if identity is None else self._pool(settings, identity)
        config = {
            "issuer": sign_in.issuer,
            "clientId": sign_in.client,
            "scopes": " ".join(sign_in.scopes),
            "audience": sign_in.audience,
            "media": list(media.origins),
        }
        self.function = ServiceFunction(
            self,
            "Default",  # a name that CDK leaves out, so that its resources have theirs as those of other functions do
            folder="console",
            settings=settings,
            code=site_code(),
            table=data.table,
            encryption=data.encryption,
            memory_mb=MEMORY_MB,
            environment={
                "CONFIG": cdk.Stack.of(self).to_json_string(config),
                "CONNECT_ORIGINS": " ".join(sign_in.origins),
            },
        )

    def _given(self, settings: Settings, issuer: Issuer) -> SignIn:
        """At an issuer that the deployment was given."""
        return SignIn(
            issuer=issuer.url,
            client=settings.console_client,
            scopes=(routes.READ, routes.WRITE, routes.ADMIN),
            audience=issuer.audience[0],
            origins=("/".join(issuer.url.split("/")[:3]),),
        )

    def _pool(self, settings: Settings, identity: IdentityStack) -> SignIn:
        """At the user pool, with a client of the console's own: only here is the address known that it sends people back to."""
        scopes = (routes.READ, routes.WRITE)
        client = cognito.UserPoolClient(
            self,
            "Client",
            user_pool=identity.pool,
            generate_secret=False,  # a page can keep none: it proves itself by PKCE
            prevent_user_existence_errors=True,
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            refresh_token_validity=SESSION,
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.custom(scope) for scope in scopes],
                logout_urls=[self.url, f"{self.url}{PAGE}", *settings.callback_urls],
                callback_urls=[self.url, f"{self.url}{PAGE}", *settings.callback_urls],
            ),
        )
        self.client_ids.append(client.user_pool_client_id)
        region = cdk.Stack.of(self).region
        return SignIn(
            issuer=identity.issuer.url,
            client=client.user_pool_client_id,
            scopes=scopes,
            audience=None,
            origins=(f"https://cognito-idp.{region}.{cdk.Aws.URL_SUFFIX}", identity.sign_in_url),
        )
