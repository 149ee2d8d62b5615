"""Cognito user pool that issues tokens, unless another issuer is configured."""

from itertools import groupby
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.nag import accept
from infra.retention import retain
from infra.settings import DeploymentSettings, TokenIssuer
from shared import routes


class IdentityStack(cdk.Stack):
    """A user pool, the API's scopes, and four clients: for people, machines, a transcoder and a consumer of changes.

    The stack is separate, because a deployment may switch to another issuer. The pool and its users then remain until
    an operator deletes the stack.

    Cognito grants a client's allowed scopes to every user who signs in with that client. The client for people
    therefore does not allow `videos/admin`. Administrators use the machine client, which has a secret.
    """

    def __init__(self, scope: Construct, id_: str, *, settings: DeploymentSettings, **kwargs: Any) -> None:
        super().__init__(
            scope,
            id_,
            description="Video metadata: sign-in and API clients",
            termination_protection=settings.deletion_protection,
            **kwargs,
        )
        self.pool = pool = self._pool(settings)
        scopes = _resource_server_scopes(pool)
        # The prefix must be unique in the region, across all AWS accounts.
        domain = pool.add_domain(
            "Domain",
            cognito_domain=cognito.CognitoDomainOptions(
                domain_prefix=f"video-metadata-{settings.env}-{cdk.Aws.ACCOUNT_ID}"
            ),
        )
        self.sign_in_url = domain.base_url()
        people = pool.add_client(
            "People",
            generate_secret=False,
            prevent_user_existence_errors=True,
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            # The client exists without callback URLs, so that its id stays the same when callback URLs are added later.
            disable_o_auth=not settings.callback_urls,
            o_auth=cognito.OAuthSettings(
                # Clients use PKCE, because a page cannot keep a client secret.
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.OPENID, scopes[routes.READ], scopes[routes.WRITE]],
                callback_urls=list(settings.callback_urls),
            )
            if settings.callback_urls
            else None,
        )
        machines = pool.add_client(
            "Machines",
            generate_secret=True,
            prevent_user_existence_errors=True,
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(client_credentials=True), scopes=list(scopes.values())
            ),
        )
        # The transcoder is not part of the service, so its client has only the scope that it needs.
        transcoder = pool.add_client(
            "Transcoder",
            generate_secret=True,
            prevent_user_existence_errors=True,
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(client_credentials=True), scopes=[scopes[routes.TRANSCODE]]
            ),
        )
        # For a search engine, a site or a cache. It can read the feed of all changes and visible videos, and write
        # nothing. It cannot create webhooks, because that requires `videos/write`, which also permits creating videos
        # and uploads.
        follower = pool.add_client(
            "Follower",
            generate_secret=True,
            prevent_user_existence_errors=True,
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(client_credentials=True),
                scopes=[scopes[routes.READ], scopes[routes.CHANGES]],
            ),
        )
        # Cognito's access tokens have no `aud`. API Gateway then compares `client_id` with the audience.
        self.issuer = TokenIssuer(
            url=pool.user_pool_provider_url,
            audience=tuple(client.user_pool_client_id for client in (people, machines, transcoder, follower)),
        )
        outputs = {
            "Issuer": ("Issuer of the tokens that the API accepts", self.issuer.url),
            "UserPoolId": ("User pool to which an administrator adds users", pool.user_pool_id),
            "SignInUrl": (
                "URL at which users sign in (authorization code with PKCE)",
                f"{self.sign_in_url}/oauth2/authorize",
            ),
            "TokenUrl": (
                "URL at which clients exchange codes or client credentials for tokens",
                f"{self.sign_in_url}/oauth2/token",
            ),
            "PeopleClientId": ("Client id for users who sign in", people.user_pool_client_id),
            "MachineClientId": (
                "Client id for programs. To read the secret: aws cognito-idp describe-user-pool-client",
                machines.user_pool_client_id,
            ),
            "TranscoderClientId": (
                "Client id for a transcoder, which may only report on renditions",
                transcoder.user_pool_client_id,
            ),
            "FollowerClientId": (
                "Client id for a program that reads the feed of all changes and changes nothing",
                follower.user_pool_client_id,
            ),
        }
        for name, (description, value) in outputs.items():
            cdk.CfnOutput(self, name, description=description, value=value)

    def _pool(self, settings: DeploymentSettings) -> cognito.UserPool:
        pool = cognito.UserPool(
            self,
            "Pool",
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(email=True),
            sign_in_case_sensitive=False,
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            mfa=cognito.Mfa.REQUIRED,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            password_policy=cognito.PasswordPolicy(
                min_length=12, require_lowercase=True, require_uppercase=True, require_digits=True, require_symbols=True
            ),
            feature_plan=cognito.FeaturePlan.ESSENTIALS,
            deletion_protection=settings.deletion_protection,
        )
        retain(pool, settings)
        accept(
            pool,
            rule="AwsSolutions-COG8",
            reason="The Plus plan is billed per active user. Only administrators add users, and users need "
            "a second factor. To add threat protection, change `feature_plan`.",
        )
        return pool


def _resource_server_scopes(pool: cognito.UserPool) -> dict[str, cognito.OAuthScope]:
    """Add the resource servers of the scopes in shared/routes.py, and return the scopes by full name.

    The first part of a scope names its resource server: `videos` for `videos/read`.
    """
    scopes: dict[str, cognito.OAuthScope] = {}
    for identifier, names in groupby(routes.SCOPES, key=lambda name: name.split("/")[0]):
        by_name = {
            name: cognito.ResourceServerScope(scope_name=name.split("/")[1], scope_description=routes.SCOPES[name])
            for name in names
        }
        server = pool.add_resource_server(f"Scopes-{identifier}", identifier=identifier, scopes=list(by_name.values()))
        scopes |= {name: cognito.OAuthScope.resource_server(server, scope) for name, scope in by_name.items()}
    return scopes
