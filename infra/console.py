"""The console: the function that serves its files, and its OAuth client."""

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
from infra.settings import DeploymentSettings, Misconfigured, TokenIssuer
from infra.site import CONSOLE, LibraryMissing, bundle_site, require_libraries
from shared import routes

PATH = "/console/"
PAGE = "index.html"
ROUTES = {"getConsole": PATH.rstrip("/"), "getConsoleFile": f"{PATH}{{file+}}"}
"""Paths of the console's routes.

No route is `/console/`, because API Gateway allows no trailing slash in a route. If a gateway does not match the path
`/console/` with the second route, the function `public` redirects to the page.
"""
MEMORY_MB = 256
"""Memory of the function in megabytes. The function only returns files, and the interpreter uses about 40 MB."""
SESSION = cdk.Duration.hours(12)
"""Lifetime of a refresh token. The user must sign in again after this time, or after the browser tab was closed."""


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """OAuth configuration with which the console's page signs users in."""

    issuer: str
    client: str | None
    """OAuth client id. `None` if sign-in is not available."""
    scopes: Sequence[str]
    audience: str | None
    """Audience that the page requests. `None` if the issuer requires none."""
    origins: Sequence[str]
    """Origins to which the page connects for the issuer's metadata and for tokens."""


def site_code() -> lambda_.Code:
    """Return the code asset of the function `console`, with the files of the site. CDK hashes the bundled output.

    Raises Misconfigured if a library is missing. The check runs before the bundling, because CDK would hide an error
    during bundling.
    """
    try:
        require_libraries()
    except LibraryMissing as error:
        raise Misconfigured(f"{error}") from error
    return lambda_.Code.from_asset(
        str(CONSOLE),
        asset_hash_type=cdk.AssetHashType.OUTPUT,
        bundling=cdk.BundlingOptions(
            image=cdk.DockerImage.from_registry(
                "never-used"
            ),  # CDK requires an image; the bundler below always succeeds
            local=_SiteBundler(),
        ),
    )


@jsii.implements(cdk.ILocalBundling)
class _SiteBundler:
    def try_bundle(self, output_dir: str, *_args: object, **_kwargs: object) -> bool:
        bundle_site(Path(output_dir))
        return True


class ConsoleSite(Construct):
    """The function that serves `/console`. The function's role can only write the function's log.

    Gradual deployments exclude this function, because each version lacks the files of the other version.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: DeploymentSettings,
        data: DataStack,
        media: MediaStack,
        issuer: TokenIssuer,
        identity: IdentityStack | None,
        api_url: str,
    ) -> None:
        """Create the console. `identity` is the stack of the user pool; `None` if the deployment has an external
        issuer."""
        super().__init__(scope, id_)
        self.url = f"{api_url}{PATH}"
        self.client_ids: list[str] = []
        """OAuth client ids of the console. The API must also accept these ids as audience of a token."""
        sign_in = self._from_issuer(settings, issuer) if identity is None else self._pool(settings, identity)
        config = {
            "issuer": sign_in.issuer,
            "clientId": sign_in.client,
            "scopes": " ".join(sign_in.scopes),
            "audience": sign_in.audience,
            "media": list(media.origins),
        }
        self.function = ServiceFunction(
            self,
            "Default",  # CDK omits this id, so resources are named like those of other functions
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

    def _from_issuer(self, settings: DeploymentSettings, issuer: TokenIssuer) -> SignIn:
        """Return the sign-in configuration for an external issuer."""
        return SignIn(
            issuer=issuer.url,
            client=settings.console_client,
            scopes=(routes.READ, routes.WRITE, routes.ADMIN),
            audience=issuer.audience[0],
            origins=("/".join(issuer.url.split("/")[:3]),),
        )

    def _pool(self, settings: DeploymentSettings, identity: IdentityStack) -> SignIn:
        """Create the console's client in the user pool, and return the sign-in configuration.

        The client is in this stack, because only this stack has the redirect URL.
        """
        scopes = (routes.READ, routes.WRITE)
        client = cognito.UserPoolClient(
            self,
            "Client",
            user_pool=identity.pool,
            generate_secret=False,  # a page cannot keep a secret; PKCE replaces it
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
