"""Caller of an operation: the verified subject and scopes of a token, and the id of the request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from shared.core.attributes import AnyItem, Value, without
from shared.core.errors import Forbidden
from shared.core.text import LARGEST_USER_ID, LONGEST_USER_ID, is_user_id
from shared.routes import ADMIN, CHANGES

UPDATED_FOR: Final = "updatedFor"
"""Name of the attribute that stores the correlation id of the last request that wrote the item.

Indexes and documents do not contain it. The audit trail shows it as `correlationId`.
"""

JOBS = "job:"
"""Prefix of the subjects of the service's background functions and commands."""
IMPORT = f"{JOBS}import"
"""Subject recorded as the author of imported items."""
EVERYBODY = "*"
"""Wildcard in place of a userId. An admin's webhook uses it to subscribe to the changes of all owners."""


class Caller(NamedTuple):
    """Caller of an operation: a job of the service, or a user with the subject and scopes of a token. The gateway has
    verified the token."""

    subject: str
    scopes: frozenset[str]
    kind: Literal["person", "job"] = "person"
    """Kind of author: `job` for the service's own functions and commands, `person` for every holder of a token."""
    correlation_id: str | None = None
    """Id of the HTTP request or, for a job, of the request that caused the job. `None` if no request caused the job."""

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any], correlation_id: str | None = None) -> "Caller":
        """Return the caller with the subject and the scopes in a JWT's claims.

        The claim `scope` is a space-separated list (RFC 8693, section 4.2). Raises Forbidden for a subject that is not a valid
        userId or is reserved for the service. If there are no claims, the subject is empty and `require` raises Forbidden.
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
                f"The token's subject (sub) must not be {EVERYBODY} or begin with {JOBS}, which the service reserves. "
                "Use a token of another subject."
            )
        return cls(subject, scopes, correlation_id=correlation_id)

    @classmethod
    def job(cls, name: str) -> "Caller":
        """Return the caller for a background function or command, such as `probe`. The caller has the scope `videos/admin`."""
        return cls(f"{JOBS}{name}", frozenset({ADMIN}), "job")

    def acting_for(self, correlation_id: str | None) -> "Caller":
        """Return this caller with another request id, or without a request id if `correlation_id` is `None`."""
        return self._replace(correlation_id=correlation_id)

    def signed(self, item: AnyItem) -> AnyItem:
        """Return the item with this caller's subject as `updatedBy`, and with the id of the request as `updatedFor`."""
        written: Any = {**item, "updatedBy": self.subject}
        signed: AnyItem = with_request_id(written, self.correlation_id)
        return signed

    @property
    def is_admin(self) -> bool:
        """Whether the caller may read and write the videos of all users."""
        return ADMIN in self.scopes

    @property
    def may_follow_all(self) -> bool:
        """Whether the caller may read the changes of all owners in the feed and by webhooks."""
        return self.is_admin or CHANGES in self.scopes

    def owns(self, owner: str) -> bool:
        """Return whether the caller is this owner or an admin."""
        return self.is_admin or self.subject == owner

    def require(self, scope: str) -> None:
        """Raise Forbidden unless the caller has a subject and the scope. `videos/admin` implies all scopes."""
        if not self.subject:
            raise Forbidden("The token has no subject (sub). Use a token with one.")
        if scope not in self.scopes and not self.is_admin:
            raise Forbidden.scopes(scope)


def with_request_id(item: AnyItem, correlation_id: str | None) -> AnyItem:
    """Return the item with `correlation_id` as the id of the request that writes it.

    If `correlation_id` is `None`, the returned item has no request id, even if `item` has one.
    """
    result: Any = without(item, UPDATED_FOR)
    written: AnyItem = result if correlation_id is None else result | {UPDATED_FOR: correlation_id}
    return written


def request_id_of(item: Mapping[str, Value] | None) -> str | None:
    """Return the correlation id of the last request that wrote the item; `None` if the item is `None` or has no id."""
    return item.get(UPDATED_FOR) if item else None


@dataclass(frozen=True)
class IdempotentRequest:
    """Request with an Idempotency-Key."""

    caller: Caller
    operation: str
    key: str
    """Value of the Idempotency-Key header."""
    fingerprint: str
    """Digest of the request's content. All requests with the same Idempotency-Key must have the same digest."""
    now: int
    """Time of the request in epoch seconds."""
    replays: list[str] = field(default_factory=list)
    """Ids of earlier requests with the same Idempotency-Key. If a store returns the stored response of an earlier
    request, it adds that request's id to this list."""
