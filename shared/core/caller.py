"""Who is asking, what that token allows, and for which request something is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from shared.core.attributes import AnyItem, Value, without
from shared.core.errors import Forbidden
from shared.core.text import LARGEST_USER_ID, LONGEST_USER_ID, is_user_id
from shared.routes import ADMIN, CHANGES

UPDATED_FOR: Final = "updatedFor"
"""The attribute that says for which request an item was written last: that request's correlation id.

It is in no index and in no document; the audit trail shows it as `correlationId`.
"""

JOBS = "job:"
"""What the subjects of the service's own background functions and commands begin with."""
IMPORT = f"{JOBS}import"
"""Who writes what the tools import."""
EVERYBODY = "*"
"""Stands for all users in place of a user id: a webhook of an admin subscribes to every owner's changes by it."""


class Caller(NamedTuple):
    """The subject of a token that the gateway has verified, and its scopes."""

    subject: str
    scopes: frozenset[str]
    kind: Literal["person", "job"] = "person"
    """A job is a part of this service; whoever has a token counts as a person."""
    correlation_id: str | None = None
    """The id of the request that all of it is done for; None when no request asked for it."""

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any], correlation_id: str | None = None) -> "Caller":
        """From a JWT's claims; `scope` is a space-separated list (RFC 8693, section 4.2).

        Raises Forbidden for a subject that nothing could be kept under, or that the service itself acts as. Without claims the
        caller is nobody.
        """
        scopes = frozenset(str(claims.get("scope", "")).split())
        subject = str(claims.get("sub", ""))
        if subject and not is_user_id(subject):
            raise Forbidden(
                f"The token's subject (sub) must be one line of at most {LONGEST_USER_ID} characters and "
                f"{LARGEST_USER_ID:,} bytes in UTF-8."
            )
        if subject.startswith(JOBS) or subject == EVERYBODY:
            raise Forbidden(
                f"The token's subject (sub) must not be {EVERYBODY} or begin with {JOBS}, which the service reserves for itself. "
                "Use a token of another subject."
            )
        return cls(subject, scopes, correlation_id=correlation_id)

    @classmethod
    def job(cls, name: str) -> "Caller":
        """One of the service's own background functions, such as `job:probe`."""
        return cls(f"{JOBS}{name}", frozenset({ADMIN}), "job")

    def acting_for(self, correlation_id: str | None) -> "Caller":
        """The same caller, doing something for this request, or for none."""
        return self._replace(correlation_id=correlation_id)

    def signed(self, item: AnyItem) -> AnyItem:
        """The item as this caller writes it: whose write it is, and for which request."""
        written: Any = {**item, "updatedBy": self.subject}
        signed: AnyItem = done_for(written, self.correlation_id)
        return signed

    @property
    def is_admin(self) -> bool:
        """Whether everybody's videos are this caller's to see and change."""
        return ADMIN in self.scopes

    @property
    def follows_all(self) -> bool:
        """Whether the caller may follow the changes of everybody's videos."""
        return self.is_admin or CHANGES in self.scopes

    def owns(self, owner: str) -> bool:
        """Whether the caller may act as this owner."""
        return self.is_admin or self.subject == owner

    def require(self, scope: str) -> None:
        """Raise Forbidden unless the token has the scope, and a subject; `videos/admin` implies the others."""
        if not self.subject:
            raise Forbidden("The token has no subject (sub).")
        if scope not in self.scopes and not self.is_admin:
            raise Forbidden(f"This needs a token with the scope {scope}.")


def done_for(item: AnyItem, correlation_id: str | None) -> AnyItem:
    """The item as it is written for a request; for none, without the id of the write before."""
    kept: Any = without(item, UPDATED_FOR)
    written: AnyItem = kept if correlation_id is None else kept | {UPDATED_FOR: correlation_id}
    return written


def request_of(item: Mapping[str, Value] | None) -> str | None:
    """The correlation id of the request that an item was written for last, if it names one."""
    return item.get(UPDATED_FOR) if item else None


@dataclass(frozen=True)
class Once:
    """A request with an Idempotency-Key: who sent it, what it does, its key and a digest of its content."""

    caller: Caller
    operation: str
    key: str
    fingerprint: str
    now: int
    replays: list[str] = field(default_factory=list)
    """Ids of the requests whose answers were given again."""
