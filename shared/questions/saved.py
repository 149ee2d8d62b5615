"""Saved questions about the archive. Each is an SQL query with a name, result columns and, for some, a chart.

`python -m tools query --saved` and the API run them on Athena. The local service runs them on DuckDB instead.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

DEFAULT_DAYS = 30
"""Number of days, including the last day, that a question covers if the caller gives no first day."""
LARGEST_QUESTION = 1000
"""Maximum number of rows that a question returns. A question that lists changes returns the newest rows."""

TYPES = ("string", "bigint", "timestamp", "date")
"""Types of columns."""
STATES = ("queued", "running", "succeeded", "failed")
"""States of a run. The last two are final."""


class SavedQuestion(NamedTuple):
    """SQL query with a name. `sql` contains `{days}`, which `covering` replaces by a condition on the partitions."""

    meaning: str
    sql: str
    columns: Mapping[str, str]
    """Type of each column of the result, by name: `string`, `bigint`, `timestamp` or `date`."""
    chart: tuple[str, str] | None = None
    """Names of the two columns for a chart: labels, and numbers. `None` if the result has no chart."""

    def covering(self, first: date, last: date) -> str:
        """Return the SQL for the days from `first` to `last` (both included)."""
        return self.sql.format(days=f"day BETWEEN date '{first}' AND date '{last}'")

    def document(self, name: str) -> dict[str, Any]:
        """Return this question in the form of API responses. `name` is the question's key in QUESTIONS."""
        return {
            "question": name,
            "title": self.meaning,
            "columns": [{"name": column, "type": type_} for column, type_ in self.columns.items()],
            "chart": dict(zip(("labels", "numbers"), self.chart, strict=True)) if self.chart else None,
        }


_VALUES: Mapping[str, str] = {
    "changed_at": "timestamp",
    "video_id": "string",
    "author": "string",
    "old_value": "string",
    "new_value": "string",
}
"""Types of the columns, by name, for the questions that return the old and new values of changes."""

QUESTIONS: Mapping[str, SavedQuestion] = {
    "top-editors": SavedQuestion(
        "users with most changes",
        "SELECT author, count(*) AS changes, count(DISTINCT video_id) AS videos FROM changes "
        "WHERE {days} AND author_kind = 'person' GROUP BY author ORDER BY changes DESC, author LIMIT 20",
        {"author": "string", "changes": "bigint", "videos": "bigint"},
        ("author", "changes"),
    ),
    "deletions": SavedQuestion(
        "deleted and removed items, with their author",
        "SELECT changed_at, entity, video_id, playlist_id, action, author FROM changes "
        "WHERE {days} AND action IN ('deleted', 'removed', 'expired') ORDER BY changed_at DESC, change_id LIMIT 1000",
        {
            "changed_at": "timestamp",
            "entity": "string",
            "video_id": "string",
            "playlist_id": "string",
            "action": "string",
            "author": "string",
        },
    ),
    "release-editors": SavedQuestion(
        "users who changed most releases",
        "SELECT author, count(*) AS changes, count(DISTINCT video_id) AS videos FROM changes "
        "WHERE {days} AND entity = 'release' AND author_kind = 'person' GROUP BY author "
        "ORDER BY changes DESC, author LIMIT 20",
        {"author": "string", "changes": "bigint", "videos": "bigint"},
        ("author", "changes"),
    ),
    "changes-by-day": SavedQuestion(
        "number of changes by day and kind of item",
        "SELECT day, entity, count(*) AS changes FROM changes WHERE {days} GROUP BY day, entity ORDER BY day, entity",
        {"day": "date", "entity": "string", "changes": "bigint"},
    ),
    "changes-by-week": SavedQuestion(
        "number of changes and of authors by week",
        "SELECT CAST(date_trunc('week', day) AS date) AS week, count(*) AS changes, count(DISTINCT author) AS authors FROM changes "
        "WHERE {days} GROUP BY CAST(date_trunc('week', day) AS date) ORDER BY week",
        {"week": "date", "changes": "bigint", "authors": "bigint"},
        ("week", "changes"),
    ),
    "changed-fields": SavedQuestion(
        "fields of videos that change most",
        "SELECT field, count(*) AS changes FROM changed_fields WHERE {days} AND entity = 'video' "
        "AND action = 'changed' GROUP BY field ORDER BY changes DESC, field LIMIT 50",
        {"field": "string", "changes": "bigint"},
        ("field", "changes"),
    ),
    "most-edited": SavedQuestion(
        "videos with most changes by users",
        "SELECT video_id, count(*) AS changes, count(DISTINCT author) AS authors FROM changes "
        "WHERE {days} AND video_id IS NOT NULL AND author_kind = 'person' GROUP BY video_id "
        "ORDER BY changes DESC, video_id LIMIT 20",
        {"video_id": "string", "changes": "bigint", "authors": "bigint"},
        ("video_id", "changes"),
    ),
    "new-titles": SavedQuestion(
        "changed titles of videos",
        "SELECT changed_at, video_id, author, old_value, new_value FROM changed_fields WHERE {days} "
        "AND entity = 'video' AND field = '/title' AND action = 'changed' ORDER BY changed_at DESC, change_id LIMIT 1000",
        _VALUES,
    ),
    "published": SavedQuestion(
        "changes of the visibility of videos",
        "SELECT changed_at, video_id, author, old_value, new_value FROM changed_fields WHERE {days} "
        "AND entity = 'video' AND field = '/visibility' ORDER BY changed_at DESC, change_id LIMIT 1000",
        _VALUES,
    ),
    "failed-jobs": SavedQuestion(
        "failed jobs by kind and day",
        "SELECT day, kind, count(*) AS failures FROM changes WHERE {days} AND entity = 'job' AND action = 'failed' "
        "GROUP BY day, kind ORDER BY day, kind",
        {"day": "date", "kind": "string", "failures": "bigint"},
    ),
    "views-by-category": SavedQuestion(
        "views by week and category",
        "SELECT CAST(date_trunc('week', day) AS date) AS week, category, CAST(sum(views) AS bigint) AS views FROM views "
        "WHERE {days} GROUP BY CAST(date_trunc('week', day) AS date), category ORDER BY week, views DESC, category",
        {"week": "date", "category": "string", "views": "bigint"},
    ),
    "videos-by-status": SavedQuestion(
        "videos by status and category in the newest snapshot of these days",
        "SELECT status, category, count(*) AS videos, CAST(sum(view_count) AS bigint) AS views FROM videos WHERE {days} "
        "AND day = (SELECT max(day) FROM videos WHERE {days}) GROUP BY status, category "
        "ORDER BY videos DESC, status, category LIMIT 1000",
        {"status": "string", "category": "string", "videos": "bigint", "views": "bigint"},
    ),
}
"""Saved questions by name. Their SQL returns the same results on Athena and on DuckDB."""


def days_of(first: date | None, last: date | None, now: float) -> tuple[date, date]:
    """Return the first and the last day of a question. By default, the last day is today in UTC, and the question covers
    DEFAULT_DAYS days.

    `now` is in epoch seconds.
    """
    last = last or datetime.fromtimestamp(now, UTC).date()
    return first or last - min(timedelta(days=DEFAULT_DAYS - 1), last - date.min), last


def days_in(sql: str) -> tuple[date, date] | None:
    """Return the days for which `SavedQuestion.covering` returned this SQL; `None` if the SQL names no such days."""
    found = re.search(r"day BETWEEN date '([0-9-]{10})' AND date '([0-9-]{10})'", sql)
    try:
        return (date.fromisoformat(found[1]), date.fromisoformat(found[2])) if found else None
    except ValueError:
        return None
