"""What a deployment can choose, from CDK's context: `-c name=value` or cdk.json."""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from constructs import Node

from shared import schema

Target = Literal["aws", "local"]
DEFAULT_ENV = "dev"
DEFAULT_RENDITIONS: dict[Target, str] = {
    "aws": "1080p,720p,480p,240p",
    "local": "240p",  # a laptop makes them itself
}


LADDER = ("1080p", "720p", "480p", "360p", "240p")
"""The renditions that there are; tests/unit/test_infra.py holds it to shared/media/ladder.py."""


class Misconfigured(Exception):
    """A sentence for whoever deploys; `app.py` shows it without a traceback."""


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Whose tokens the API accepts: an OpenID Connect issuer, and for whom the tokens must be meant."""

    url: str
    audience: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices of one deployment, checked."""

    target: Target
    """`aws`, or `local`: an embedded AWS whose functions run on this machine's interpreter."""
    env: str
    """Tells several deployments in one account apart, in the names of the stacks and of the table."""
    issuer: Issuer | None
    """None: a Cognito user pool is made."""
    allow_origins: tuple[str, ...]
    callback_urls: tuple[str, ...]
    throttle_rate: int
    throttle_burst: int
    endpoint: str | None
    """Where the embedded AWS answers, for what a client gets to see of it; None on AWS."""
    jobs_per_day: int
    """How many jobs one owner may start on one day."""
    renditions: tuple[str, ...]
    """Which of the ladder's renditions are made of every film that is large enough."""
    audit_days: int
    """How long the audit trail can be asked; the archive in S3 is kept for good."""

    @classmethod
    def from_context(cls, node: Node) -> "Settings":
        """Read the context; what is wrong with it is said by Misconfigured."""
        target: Target = node.try_get_context("target") or "aws"
        if target not in get_args(Target):
            raise Misconfigured(f"Context 'target' is one of {', '.join(get_args(Target))}, not {target!r}.")
        env = node.try_get_context("env") or DEFAULT_ENV
        if not re.fullmatch(r"[a-z][a-z0-9]{0,15}", env):
            raise Misconfigured(f"Context 'env' is up to 16 lower-case letters and digits, not {env!r}.")
        issuer = _issuer(node.try_get_context("issuer"), node.try_get_context("audience"))
        if target == "local" and issuer is None:
            raise Misconfigured("The local target has no Cognito: give its issuer by '-c issuer=... -c audience=...'.")
        endpoint = node.try_get_context("endpoint") or None
        if (target == "local") != (endpoint is not None):
            raise Misconfigured(
                "The local target, and it alone, needs '-c endpoint=http://...', where MiniStack answers."
            )
        return cls(
            target=target,
            env=env,
            issuer=issuer,
            allow_origins=_several(node.try_get_context("allowOrigins") or "*"),
            callback_urls=_several(node.try_get_context("callbackUrls") or "http://localhost:3000/callback"),
            throttle_rate=int(node.try_get_context("throttleRate") or 200),
            throttle_burst=int(node.try_get_context("throttleBurst") or 400),
            endpoint=endpoint.rstrip("/") if endpoint else None,
            jobs_per_day=_count(node, "jobsPerDay", 500),
            renditions=_renditions(node.try_get_context("renditions") or DEFAULT_RENDITIONS[target]),
            audit_days=_count(node, "auditDays", 400),
        )

    @property
    def disposable(self) -> bool:
        """Whether `cdk destroy` takes the data too."""
        return self.target == "local"

    @property
    def table_name(self) -> str:
        """The product's own name in the default environment, so that others can stand beside it."""
        return schema.TABLE_NAME if self.env == DEFAULT_ENV else f"{schema.TABLE_NAME}-{self.env}"

    @property
    def audit_table_name(self) -> str:
        """Named like the table beside it."""
        return self.table_name.replace(schema.TABLE_NAME, schema.AUDIT_TABLE_NAME)

    def stack_name(self, part: str) -> str:
        """Such as `VideoMetadata-dev-Api`."""
        return f"{schema.TABLE_NAME}-{self.env}-{part}"


def _issuer(url: str | None, audience: Any) -> Issuer | None:
    if bool(url) != bool(audience):
        raise Misconfigured(
            "Context 'issuer' and 'audience' go together: give both, or neither for a Cognito user pool."
        )
    return Issuer(url=url, audience=_several(audience)) if url else None


def _count(node: Node, name: str, default: int) -> int:
    given = node.try_get_context(name)
    text = str(default if given is None else given)
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise Misconfigured(f"Context '{name}' is a whole number from 1, not {given!r}.")
    return int(text)


def _renditions(value: Any) -> tuple[str, ...]:
    names = _several(value)
    if not set(names) <= set(LADDER) or len(set(names)) < len(names):
        raise Misconfigured(f"Context 'renditions' is some of {', '.join(LADDER)}, each once, not {value!r}.")
    return names


def _several(value: Any) -> tuple[str, ...]:
    """A list in cdk.json, or separated by commas on the command line."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts)
