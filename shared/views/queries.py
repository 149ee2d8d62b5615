"""Query parameters of the operation that returns the view history of a video."""

from shared.core.limits import LAST_SECOND
from shared.web.parameters import Choice, Query, Time, TimeZone


class GetViews(Query):
    """Query parameters of `GET /v1/videos/{videoId}/views`."""

    granularity = Choice("granularity", "Length of the intervals", {"hour": "hour", "day": "day"}, default="hour")
    start = Time("from", "A time in the first hour or day: epoch seconds or RFC 3339")
    end = Time("to", "Views before this time; the current time if omitted", LAST_SECOND + 1)
    tz = TimeZone("tz", "IANA time zone of days, which begin with their first full UTC hour; hours are always in UTC")
