"""Request bodies of the webhook operations."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from shared.core.change_types import GROUPS, TYPES
from shared.core.checks import whole
from shared.core.errors import InvalidParameter
from shared.core.fields import UserId, line
from shared.core.limits import LAST_SECOND
from shared.feed.log import DAYS_KEPT
from shared.web.bodies import Content
from shared.web.parameters import rfc3339
from shared.webhooks.address import LONGEST_URL

LONGEST_DESCRIPTION = 300
"""Maximum characters of a description."""


def _known_type(type_: str) -> str:
    if type_ not in TYPES and type_ not in GROUPS:
        raise ValueError(f"must be one of {', '.join(TYPES)}, or all of one kind: {', '.join(GROUPS)}")
    return type_


def _different(types: list[str]) -> list[str]:
    if len(set(types)) < len(types):
        raise ValueError("types must differ from each other")
    return types


def _time(value: Any) -> Any:
    """Return a time as epoch seconds. RFC 3339 times are rounded down, so that a replay skips nothing."""
    if not isinstance(value, str):
        return whole(value)
    try:
        return rfc3339("from", value, up=False)
    except InvalidParameter as error:
        raise ValueError("must be epoch seconds, or an RFC 3339 time such as 2026-01-31T12:00:00Z") from error


Url = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_URL),
    Field(description="`https://` URL of a public host, port 443 or 8443, in ASCII, without user name and fragment"),
]
Types = Annotated[
    list[Annotated[str, AfterValidator(_known_type), Field(json_schema_extra={"enum": [*TYPES, *GROUPS]})]],
    Field(
        max_length=len(TYPES) + len(GROUPS),
        description="Change types to send, or all types of one entity such as `video.*`; empty for all",
        json_schema_extra={"uniqueItems": True},
    ),
    AfterValidator(_different),
]
Description = Annotated[str, line(LONGEST_DESCRIPTION), Field(description="Purpose of the webhook")]


class NewWebhook(Content):
    """The body of `POST /v1/webhooks`."""

    url: Url
    types: Types = Field(default=[])
    userId: UserId | None = Field(
        default=None,
        description="The owner whose changes are sent, the caller if omitted, or `*` for all owners. Another owner requires "
        "`videos/admin` or `videos/changes`",
    )
    description: Description | None = None
    paused: bool = False


class WebhookPatch(Content):
    """The body of `PATCH /v1/webhooks/{webhookId}`: a JSON Merge Patch (RFC 7396)."""

    refusals: ClassVar[Mapping[str, str]] = {
        "userId": "Whose changes a webhook sends stays as it is; create another one.",
        "secret": "The secret is made by the service; POST .../rotate makes another one.",
    }

    url: Url = ""
    types: Types | None = None
    description: Description | None = None
    paused: bool = False


class Replay(Content):
    """The body of `POST /v1/webhooks/{webhookId}/replay`."""

    start: Annotated[
        int,
        Field(strict=True, ge=0, le=LAST_SECOND),
        BeforeValidator(_time),
        WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "format": "date-time"}]}),
    ] = Field(alias="from", description=f"Time in epoch seconds or RFC 3339, at most {DAYS_KEPT} days ago")
