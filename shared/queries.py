"""Query parameters of all operations: handlers parse them with these classes, and the OpenAPI document lists them.

Each class has the name of its operation: ListVideos declares the parameters of `listVideos`. An operation without a class has none.
"""

from shared.core.caller import EVERYBODY
from shared.core.change_types import GROUPS, TYPES
from shared.core.errors import BadRequest, InvalidParameter, UnservedQuery
from shared.core.limits import LARGEST_INTEGER, LAST_SEASON, LAST_SECOND, LAST_YEAR, LONGEST_FOLDED_TAG
from shared.core.periods import WINDOWS
from shared.video_fields import FACETS
from shared.videos.documents import FIELDS, PLAYING_FIELDS, SUMMARY_FIELDS
from shared.videos.tags import folded
from shared.videos.video import STATUSES
from shared.web.cursors import LONGEST
from shared.web.paging import LONGEST_PAGE, Paged
from shared.web.parameters import (
    LANGUAGE,
    Choice,
    Flag,
    Integer,
    Names,
    Order,
    Query,
    Region,
    Schema,
    Text,
    Time,
    TimeZone,
    UserId,
    language_of,
)

FROM_NOW = "now"
"""Cursor for the end of the feed: only later changes follow it."""
SECTIONS = ("credits", "releases", "ratings", "tags", "jobs")
"""Values of `include` for a video."""
STATS = "stats"
"""Value of `include` for lists of videos: adds the view count of each."""
LOCAL_TITLE = "localTitle"
"""Field of a video document that is computed from the releases."""

LONGEST_QUESTION = 256
"""Maximum length of a search query, in characters."""
LONGEST_LANGUAGE = 35
"""Maximum length of a BCP 47 tag, in characters."""
MOST_SIMILAR = 50
"""Maximum number of similar videos."""
INDEX_WAIT = 2
"""Maximum seconds that a search waits for the index to contain the changes of `consistentWith`."""

SELECTORS = ("tag", "region", "userId", "category", "status")
"""Parameters that select an index partition: the first that is sent selects, the others filter."""
FILTERS = ("userId", "category", "status", "format", "minDuration", "maxDuration")


class Tag(Text):
    """Tag, case-folded while it is parsed. Case folding can lengthen text, so the limit applies to the result."""

    def parse(self, text: str) -> str:
        tag = folded(super().parse(text))
        if not 1 <= len(tag.encode()) <= LONGEST_FOLDED_TAG:
            raise InvalidParameter.named("tag", "must be a tag, not only spaces and not too long")
        return tag


class ListVideos(Paged):
    """GET /v1/videos"""

    tag = Tag(
        "tag",
        f"Selector: a tag in any of its spellings, of at most {LONGEST_FOLDED_TAG} bytes in UTF-8 once folded",
        LONGEST_FOLDED_TAG,
    )
    region = Region(
        "Selector: where videos were released, a country of ISO 3166 or a code such as `XWW`. Not with `tag`"
    )
    user_id = UserId("Selector: the owner; or a filter of a tag or region")
    category = Text("category", "Selector, or a filter", 100)
    status = Choice("status", "Selector for admins, or a filter", {status: status for status in STATUSES}, None)
    format = Text("format", "Filter: container format", 64)
    min_duration = Integer("minDuration", "Filter: at least this many milliseconds", 0, LARGEST_INTEGER, None)
    max_duration = Integer("maxDuration", "Filter: at most this many milliseconds", 0, LARGEST_INTEGER, None)
    start = Time("from", "Created at or after this time: epoch seconds or RFC 3339")
    end = Time("to", "Created before this time", LAST_SECOND + 1)
    ascending = Order("By createdAt, which is in whole seconds: within one second by id")
    limit, cursor = Paged.limit, Paged.cursor
    fields = Names("fields", "Only these fields: a parameter each, or one with commas", SUMMARY_FIELDS)
    include = Names(
        "include", "`stats`: also the `viewCount` of each video, for another read of each; not with `fields`", (STATS,)
    )

    @classmethod
    def unknown(cls, name: str) -> BadRequest:
        if name == "q":
            return unserved(name, "Lists do not search; GET /v1/search?q= does.")
        if name not in FIELDS or cls.nearest(name):
            return super().unknown(name)
        names = [parameter.name for parameter in cls.parameters]
        return unserved(
            name,
            f"No index answers {name}. Select by one of {', '.join(SELECTORS)} (admins), or by none for the feed, and "
            f"by from and to; filter by {', '.join(FILTERS)}; besides these there are "
            f"{', '.join(names[names.index('to') + 1 :])}.",
        )


class Language(Text):
    """Language, a BCP 47 tag in any case."""

    def parse(self, text: str) -> str:
        return language_of(self.name, text)

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{LANGUAGE}$"}


class SearchVideos(Paged):
    """GET /v1/search"""

    q = Text(
        "q",
        "What to look for: words, the last of which may still be typed; phrases in quotes; `-` before what a video must not have. "
        "When left out, all videos, the newest first",
        LONGEST_QUESTION,
    )
    category = Text("category", "Only videos of this category", 100)
    tag = Tag("tag", "Only videos with this tag, in any of its spellings", LONGEST_FOLDED_TAG)
    user_id = UserId("Only this user's videos; one's own also while nobody else sees them")
    language = Language(
        "language", "Only videos in this language: a BCP 47 tag. `en` also finds `en-NZ`", LONGEST_LANGUAGE
    )
    start = Time("from", "Created at or after this time: epoch seconds or RFC 3339")
    end = Time("to", "Created before this time", LAST_SECOND + 1)
    facets = Names("facets", "How many of all that is found have each category, tag, or release year", tuple(FACETS))
    consistent_with = Text(
        "consistentWith",
        f"`nextCursor` of `GET /v1/changes` without `types`, of everybody's changes or of your own: answer only once the index has "
        f"all changes before it. Waits {INDEX_WAIT} seconds at most, then 503",
        LONGEST,
    )


class SimilarVideos(Query):
    """GET /v1/videos/{videoId}/similar"""

    limit = Integer("limit", "The largest number of videos", 1, MOST_SIMILAR, default=10)


class BatchVideos(Query):
    """POST /v1/videos/batch"""

    dry_run = Flag(
        "dryRun",
        "`true`: only say what each operation would return and change. Nothing is written; each operation sees what "
        "the ones before it would leave",
    )


class GetVideo(Query):
    """GET /v1/videos/{videoId}"""

    fields = Names(
        "fields", "Only these fields: a parameter each, or one with commas", (*FIELDS, *PLAYING_FIELDS, LOCAL_TITLE)
    )
    include = Names(
        "include",
        "What else to return with the video: a parameter each, or one with commas; not with `fields`",
        SECTIONS,
    )
    region = Region("Where the reader is")
    version = Integer(
        "version", "The video as it was at this version, for its owner and admins", 1, LARGEST_INTEGER, None
    )
    as_of = Time(
        "asOf",
        "The video as it was at the end of this second, for its owner and admins: epoch seconds or RFC 3339. Not in the future, "
        "nor with `version`",
        up=False,
    )


class GetDiff(Query):
    """GET /v1/videos/{videoId}/diff"""

    start = Integer("from", "The version to compare", 1, LARGEST_INTEGER, 1, required=True)
    end = Integer(
        "to",
        "The version to compare it with, which may be an earlier one; the present one when left out",
        1,
        LARGEST_INTEGER,
        None,
    )


class ListEpisodes(Paged):
    """GET /v1/videos/{videoId}/episodes"""

    season = Integer("season", "Only this season", 0, LAST_SEASON, None)


class ListCredits(Paged):
    """GET /v1/videos/{videoId}/credits"""


class ListReleases(Paged):
    """GET /v1/videos/{videoId}/releases"""


class ListRegionReleases(Paged):
    """GET /v1/videos/{videoId}/releases/{region}"""


class ListCaptions(Paged):
    """GET /v1/videos/{videoId}/captions"""


class ListTags(Paged):
    """GET /v1/tags"""


class ListEntries(Paged):
    """GET /v1/playlists/{playlistId}/entries"""


class GetViews(Query):
    """GET /v1/videos/{videoId}/views"""

    granularity = Choice("granularity", "What to count by", {"hour": "hour", "day": "day"}, default="hour")
    start = Time("from", "The first hour or day is the one with this time: epoch seconds or RFC 3339")
    end = Time("to", "Before this time; now when left out", LAST_SECOND + 1)
    tz = TimeZone("tz", "Whose days: a name of the IANA time zone database. Hours are those of UTC anyway")


class ListAudit(Paged):
    """GET /v1/videos/{videoId}/audit"""

    start = Time("from", "Changes at or after this time: epoch seconds or RFC 3339")
    end = Time("to", "Changes before this time", LAST_SECOND + 1)
    ascending = Order("By time, and in the order in which they were made")


class ListPlaylistAudit(ListAudit):
    """GET /v1/playlists/{playlistId}/audit"""


class GetChangeset(Paged):
    """GET /v1/changesets/{changesetId}"""


class ListChanges(Query):
    """GET /v1/changes"""

    after = Text(
        "after",
        f"`nextCursor` of the page before, with the same query; `{FROM_NOW}`: only what comes from now on. When left out, all that "
        "is kept",
        LONGEST,
    )
    types = Names("types", "Only changes of these types; `video.*`: all that happens to videos", (*TYPES, *GROUPS))
    user_id = UserId("Only changes of what this user owns. When left out, everybody's: for admins and followers")
    limit = Paged.limit


class GetRevert(Paged):
    """GET /v1/changesets/{changesetId}/reverts/{revertId}"""


class RevertVideo(Query):
    """POST /v1/videos/{videoId}/revert"""

    dry_run = Flag(
        "dryRun",
        "`true`: only say what would change; nothing is written",
    )


class RevertChangeset(Query):
    """POST /v1/changesets/{changesetId}/revert"""

    dry_run = RevertVideo.dry_run


class ListTop(Query):
    """GET /v1/top"""

    window = Choice("window", "How far back views count", {window: window for window in WINDOWS}, default="day")
    category = Text("category", "Only videos of this category", 100)
    limit = Integer("limit", "The largest number of videos", 1, LONGEST_PAGE, default=25)
    sort = Choice(
        "sort",
        "The largest first: views in the window, how many more than in the window before, or all views ever",
        {"-views": "views", "-rise": "rise", "-viewCount": "viewCount"},
        default="views",
    )


class ListPersonVideos(Paged):
    """GET /v1/people/{personId}/videos"""

    first_year = Integer("fromYear", "This year and later", 1, LAST_YEAR, None)
    last_year = Integer("toYear", "This year and earlier", 1, LAST_YEAR, None)
    ascending = Order("By releaseYear")

    def years(self) -> tuple[int, int]:
        """Return the half-open range of years: [first, second). Without bounds it includes 0, the year of videos without one."""
        if self.first_year is None and self.last_year is None:
            return 0, LAST_YEAR + 1
        start, end = self.first_year or 1, (self.last_year or LAST_YEAR) + 1
        if start >= end:
            raise InvalidParameter.named("fromYear", "must not be after `toYear`, which is part of the range")
        return start, end


class ListPlaylists(Paged):
    """GET /v1/playlists"""

    user_id = UserId("The owner; the caller when left out")
    ascending = Order("By createdAt, which is in whole seconds: within one second by id")


class Follows(UserId):
    """Owner whose changes webhooks subscribe to: a userId, or `*` for all owners."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.name = "follows"


class ListWebhooks(Paged):
    """GET /v1/webhooks"""

    user_id = UserId("Whose; the caller's when left out, another user's for admins")
    follows = Follows(
        f"For admins, in place of `userId`: all that send this user's changes, or everybody's (`{EVERYBODY}`), and are not paused"
    )


class ListDeliveries(Paged):
    """GET /v1/webhooks/{webhookId}/deliveries"""


class ListVideoPlaylists(Paged):
    """GET /v1/videos/{videoId}/playlists"""

    ascending = Order("By the time at which the video was added")


def unserved(name: str, detail: str) -> UnservedQuery:
    """Return the error for a parameter, or a combination of parameters, that no index serves."""
    return UnservedQuery(detail, errors=[{"parameter": name, "detail": "no index answers this"}])


def query_of(operation: str) -> type[Query]:
    """Return the query class of an operation; `Query` if it declares no parameters."""
    declared: type[Query] = globals().get(operation[0].upper() + operation[1:], Query)
    return declared
