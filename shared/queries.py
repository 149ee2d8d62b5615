"""Query parameters of operations. Handlers parse requests with these classes, and the OpenAPI document is generated
from them.

A class has the name of its operation. For example, ListVideos declares the parameters of `listVideos`. An operation
without a class has only the parameter `explain`. GetViews is in shared/views/queries.py, because a cold start of the
function `views` must not import this module.
"""

from shared.core.caller import EVERYBODY
from shared.core.change_types import GROUPS, TYPES
from shared.core.errors import BadRequest, InvalidParameter, UnservedQuery
from shared.core.limits import LARGEST_INTEGER, LAST_SEASON, LAST_SECOND, LAST_YEAR, LONGEST_FOLDED_TAG
from shared.core.periods import WINDOWS
from shared.schema import BY_RATING, BY_TITLE, BY_VIEWS
from shared.video_fields import FACETS
from shared.videos.documents import FIELDS, PLAYING_FIELDS, SUMMARY_FIELDS
from shared.videos.tags import normalise_tag
from shared.videos.video import STATUSES
from shared.web.cursors import LONGEST
from shared.web.paging import LONGEST_PAGE, Paged
from shared.web.parameters import (
    LANGUAGE,
    Choice,
    Day,
    Flag,
    Folder,
    Integer,
    Names,
    Order,
    Query,
    Region,
    Schema,
    Text,
    Time,
    UserId,
    language_of,
)

FROM_NOW = "now"
"""Value of the parameter `after` that selects the current end of the feed. The response has no changes, only a cursor
for later changes."""
SECTIONS = ("credits", "releases", "ratings", "tags", "jobs")
"""Values of the parameter `include` of `getVideo`."""
STATS = "stats"
"""Value of the parameter `include` of `listVideos`. This value adds the view count of each video."""
BY_TIME, BY_DURATION = "createdAt", "duration"
"""Values of the parameter `sort` of `listVideos`."""
SORTS = (BY_TIME, BY_DURATION, BY_TITLE, BY_RATING, BY_VIEWS)
"""Values of the parameter `sort` of `listVideos`. Only lists of one owner or one category support other values than
`createdAt`."""
LOCAL_TITLE = "localTitle"
"""Name of the video document's field with the localised title, which the service selects from the video's releases."""

MAX_QUERY_LENGTH = 256
"""Maximum number of characters of a search query."""
LONGEST_LANGUAGE = 35
"""Maximum number of characters of a language tag (BCP 47)."""
MAX_SIMILAR = 50
"""Maximum number of videos that `similarVideos` returns."""
INDEX_WAIT = 2
"""Maximum seconds that a search with the parameter `consistentWith` waits until the index contains the required
changes."""

SELECTORS = ("folder", "tag", "region", "userId", "category", "status")
"""Parameters of `listVideos` that can select an index partition, in order of precedence. If a request has several of
them, the first in this order selects the partition, and the others filter the partition's entries."""
FILTERS = ("userId", "category", "status", "format", "minDuration", "maxDuration", "releaseYear")


class Tag(Text):
    """Parameter with a tag.

    `parse` returns the case-folded tag. The size limit applies to the case-folded tag, which can be longer than the tag
    that the client sent.
    """

    def parse(self, text: str) -> str:
        tag = normalise_tag(super().parse(text))
        if not 1 <= len(tag.encode()) <= LONGEST_FOLDED_TAG:
            raise InvalidParameter.named("tag", f"must be a non-blank tag of at most {LONGEST_FOLDED_TAG} bytes")
        return tag


class ListVideos(Paged):
    """Query parameters of `GET /v1/videos`."""

    tag = Tag(
        "tag",
        "Selector, or with your own `userId` a filter: a tag in any spelling, of at most "
        f"{LONGEST_FOLDED_TAG} bytes in UTF-8 after case folding",
        LONGEST_FOLDED_TAG,
    )
    region = Region("Selector: the region of a release, as an ISO 3166 country or a code such as `XWW`; not with `tag`")
    user_id = UserId("Selector, or with `tag` or `region` a filter: the owner")
    category = Text("category", "Selector, or a filter", 100)
    status = Choice("status", "Selector for admins, or a filter", {status: status for status in STATUSES}, None)
    folder = Folder(
        "Selector: a folder of yours, or for admins of `userId`; sorted by path and time; not with other selectors"
    )
    subfolders = Flag("subfolders", "With `folder`, `true` adds the videos of its subfolders")
    format = Text("format", "Filter: container format", 64)
    min_duration = Integer("minDuration", "At least this many milliseconds", 0, LARGEST_INTEGER, None)
    max_duration = Integer("maxDuration", "At most this many milliseconds", 0, LARGEST_INTEGER, None)
    release_year = Integer("releaseYear", "With `category`, only videos of this release year", 1, LAST_YEAR, None)
    start = Time("from", "Created at or after this time: epoch seconds or RFC 3339")
    end = Time("to", "Created before this time", LAST_SECOND + 1)
    sort = Choice(
        "sort",
        "Orders other than `createdAt` need one `userId` or `category`, and exclude `from`, `to`, `tag` and `region`; "
        "they omit videos that lack the value",
        {name: name for name in SORTS},
        default=BY_TIME,
    )
    ascending = Order("Direction of `sort`; items with equal values are sorted by id")
    limit, cursor = Paged.limit, Paged.cursor
    fields = Names("fields", "Only these fields, comma-separated or as repeated parameters", SUMMARY_FIELDS)
    include = Names(
        "include",
        "`stats` adds the `viewCount` of each video, and costs one more read for each; not with `fields`",
        (STATS,),
    )

    @classmethod
    def unknown(cls, name: str) -> BadRequest:
        if name == "q":
            return unserved(name, "Lists do not search. Use GET /v1/search?q=.")
        if name not in FIELDS or cls.nearest(name):
            return super().unknown(name)
        names = [parameter.name for parameter in cls.parameters]
        return unserved(
            name,
            f"No index serves {name}. Select by {', '.join(SELECTORS)} (admins), from or to; filter by "
            f"{', '.join(FILTERS)}; or use {', '.join(names[names.index('to') + 1 :])}.",
        )


class Language(Text):
    """Parameter with a language: a BCP 47 tag in upper, lower or mixed case. `parse` returns the tag in conventional
    case, such as `en-NZ`."""

    def parse(self, text: str) -> str:
        return language_of(self.name, text)

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{LANGUAGE}$"}


class SearchVideos(Paged):
    """Query parameters of `GET /v1/search`."""

    q = Text(
        "q",
        "Words, the last of which may be incomplete; quotes enclose phrases, `-` excludes; omitted: all videos, "
        "newest first",
        MAX_QUERY_LENGTH,
    )
    category = Text("category", "Only videos of this category", 100)
    tag = Tag("tag", "Only videos with this tag, in any spelling", LONGEST_FOLDED_TAG)
    user_id = UserId("Only this user's videos, including unpublished ones for the user and admins")
    language = Language(
        "language", "Only videos in this language: a BCP 47 tag, where `en` also matches `en-NZ`", LONGEST_LANGUAGE
    )
    start = Time("from", "Created at or after this time: epoch seconds or RFC 3339")
    end = Time("to", "Created before this time", LAST_SECOND + 1)
    facets = Names("facets", "Facets to count over all matches: category, tag or release year", tuple(FACETS))
    consistent_with = Text(
        "consistentWith",
        "`nextCursor` of a list of your own changes or of all changes, without `types`; the result includes the changes "
        f"before it, or is 503 if the index lacks them after {INDEX_WAIT} seconds",
        LONGEST,
    )


class SimilarVideos(Query):
    """Query parameters of `GET /v1/videos/{videoId}/similar`."""

    limit = Integer("limit", "Maximum number of videos", 1, MAX_SIMILAR, default=10)


class BatchVideos(Query):
    """Query parameters of `POST /v1/videos/batch`."""

    dry_run = Flag(
        "dryRun",
        "`true` returns the results and changes without writing; each operation sees the effects of previous ones",
    )


class GetVideo(Query):
    """Query parameters of `GET /v1/videos/{videoId}`."""

    fields = Names(
        "fields",
        "Only these fields, comma-separated or as repeated parameters",
        (*FIELDS, *PLAYING_FIELDS, LOCAL_TITLE),
    )
    include = Names(
        "include",
        "Sections to add, comma-separated or as repeated parameters; not with `fields`",
        SECTIONS,
    )
    region = Region("The caller's region, for `localTitle`")
    version = Integer("version", "The video at this version, for its owner and admins", 1, LARGEST_INTEGER, None)
    as_of = Time(
        "asOf",
        "The video at the end of this second (epoch seconds or RFC 3339, not in the future), for its owner and "
        "admins; not with `version`",
        up=False,
    )


class GetVideoByExternalId(Query):
    """Query parameters of `GET /v1/external-ids/{externalId}`."""

    user_id = UserId("The owner, for admins; you if omitted")


class GetVideoBySlug(Query):
    """Query parameters of `GET /v1/slugs/{slug}`."""

    user_id = UserId("The owner; you if omitted")


class GetDiff(Query):
    """Query parameters of `GET /v1/videos/{videoId}/diff`."""

    start = Integer("from", "The first version", 1, LARGEST_INTEGER, 1, required=True)
    end = Integer(
        "to",
        "The second version, which may be an earlier one; the current version if omitted",
        1,
        LARGEST_INTEGER,
        None,
    )


class ListEpisodes(Paged):
    """Query parameters of `GET /v1/videos/{videoId}/episodes`."""

    season = Integer("season", "Only this season", 0, LAST_SEASON, None)


class ListCredits(Paged):
    """Query parameters of `GET /v1/videos/{videoId}/credits`."""


class ListReleases(Paged):
    """Query parameters of `GET /v1/videos/{videoId}/releases`."""


class ListRegionReleases(Paged):
    """Query parameters of `GET /v1/videos/{videoId}/releases/{region}`."""


class ListCaptions(Paged):
    """Query parameters of `GET /v1/videos/{videoId}/captions`."""


class ListTags(Paged):
    """Query parameters of `GET /v1/tags`."""


class ListFolders(Paged):
    """Query parameters of `GET /v1/folders`."""

    user_id = UserId("The owner, for admins; you if omitted")


class GetFolder(ListFolders):
    """Query parameters of `GET /v1/folders/{folder}`."""


class GetFolderMove(Paged):
    """Query parameters of `GET /v1/folder-moves/{moveId}`."""


class ListEntries(Paged):
    """Query parameters of `GET /v1/playlists/{playlistId}/entries`."""


class ListAudit(Paged):
    """Query parameters of `GET /v1/videos/{videoId}/audit`."""

    start = Time("from", "Changes at or after this time: epoch seconds or RFC 3339")
    end = Time("to", "Changes before this time", LAST_SECOND + 1)
    ascending = Order("By time, and in the order of the writes")


class ListPlaylistAudit(ListAudit):
    """Query parameters of `GET /v1/playlists/{playlistId}/audit`."""


class GetChangeset(Paged):
    """Query parameters of `GET /v1/changesets/{changesetId}`."""


class ListChanges(Query):
    """Query parameters of `GET /v1/changes`."""

    after = Text(
        "after",
        f"`nextCursor` of the previous page with the same query, or `{FROM_NOW}` for later changes only; omitted: "
        "all retained changes",
        LONGEST,
    )
    types = Names(
        "types",
        "Only changes of these types, such as `video.created`, or `video.*` for all changes of videos",
        (*TYPES, *GROUPS),
    )
    user_id = UserId("Only changes of this owner's items; if omitted, of all owners")
    limit = Paged.limit


class GetRevert(Paged):
    """Query parameters of `GET /v1/changesets/{changesetId}/reverts/{revertId}`."""


class RevertVideo(Query):
    """Query parameters of `POST /v1/videos/{videoId}/revert`."""

    dry_run = Flag(
        "dryRun",
        "`true` returns the changes without writing",
    )


class RevertChangeset(Query):
    """Query parameters of `POST /v1/changesets/{changesetId}/revert`."""

    dry_run = RevertVideo.dry_run


class RunQuestion(Query):
    """Query parameters of `POST /v1/questions/{question}/runs`."""

    start = Day("from", "The first day, in UTC")
    end = Day("to", "The last day, which is included; today if omitted. Required with an `Idempotency-Key`")


class ListTop(Query):
    """Query parameters of `GET /v1/top`."""

    window = Choice("window", "Period in which views count", {window: window for window in WINDOWS}, default="day")
    category = Text("category", "Only videos of this category", 100)
    limit = Integer("limit", "Maximum number of videos", 1, LONGEST_PAGE, default=25)
    sort = Choice(
        "sort",
        "Descending order: views in the window, increase over the preceding window, or all views",
        {"-views": "views", "-rise": "rise", "-viewCount": "viewCount"},
        default="views",
    )


class ListPersonVideos(Paged):
    """Query parameters of `GET /v1/people/{personId}/videos`."""

    first_year = Integer("fromYear", "This year and later", 1, LAST_YEAR, None)
    last_year = Integer("toYear", "This year and earlier", 1, LAST_YEAR, None)
    ascending = Order("By releaseYear")

    def years(self) -> tuple[int, int]:
        """Return the requested range of release years: the first year, and the year after the last one.

        Without `fromYear` and `toYear`, the range includes 0, the sort value of videos without a release year. Raises
        InvalidParameter if `fromYear` is after `toYear`.
        """
        if self.first_year is None and self.last_year is None:
            return 0, LAST_YEAR + 1
        start, end = self.first_year or 1, (self.last_year or LAST_YEAR) + 1
        if start >= end:
            raise InvalidParameter.named("fromYear", "must not be after `toYear`, which is part of the range")
        return start, end


class ListPlaylists(Paged):
    """Query parameters of `GET /v1/playlists`."""

    user_id = UserId("The owner; the caller if omitted")
    ascending = Order("By `createdAt`, and by id within one second")


class Follows(UserId):
    """Parameter `follows`: the user to whose changes a webhook subscribes. A userId, or `*` for all users."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.name = "follows"


class ListWebhooks(Paged):
    """Query parameters of `GET /v1/webhooks`."""

    user_id = UserId("The owner, the caller if omitted; only admins may send another user")
    follows = Follows(
        f"For admins, instead of `userId`: unpaused webhooks that subscribe to this user or to all (`{EVERYBODY}`)"
    )


class ListDeliveries(Paged):
    """Query parameters of `GET /v1/webhooks/{webhookId}/deliveries`."""


class ListVideoPlaylists(Paged):
    """Query parameters of `GET /v1/videos/{videoId}/playlists`."""

    ascending = Order("By the time at which the video was added")


def unserved(name: str, detail: str) -> UnservedQuery:
    """Return an UnservedQuery error for a parameter, or a combination of parameters, that no index supports."""
    return UnservedQuery(detail, errors=[{"parameter": name, "detail": "is not served by an index"}])
