"""Who is asking, and what that token allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.errors import Forbidden
from shared.routes import ADMIN


@dataclass(frozen=True)
class Caller:
    """The subject of a token that the gateway has verified, and its scopes."""

    subject: str
    scopes: frozenset[str]
    kind: Literal["person", "job"] = "person"
    """A job is a part of this service; whoever has a token counts as a person."""

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any]) -> "Caller":
        """From a JWT's claims; `scope` is a space-separated list (RFC 8693, section 4.2)."""
        return cls(str(claims.get("sub", "")), frozenset(str(claims.get("scope", "")).split()))

    @classmethod
    def job(cls, name: str) -> "Caller":
        """One of the service's own background functions, such as `job:probe`."""
        return cls(f"job:{name}", frozenset({ADMIN}), "job")

    @property
    def is_admin(self) -> bool:
        """Whether everybody's videos are this caller's to see and change."""
        return ADMIN in self.scopes

    def owns(self, owner: str) -> bool:
        """Whether the caller may act as this owner."""
        return self.is_admin or self.subject == owner

    def require(self, scope: str) -> None:
        """Raise Forbidden unless the token has the scope, and a subject; `videos/admin` implies the others."""
        if not self.subject:
            raise Forbidden("The token names no subject (sub).")
        if scope not in self.scopes and not self.is_admin:
            raise Forbidden(f"This needs a token with the scope {scope}.")
