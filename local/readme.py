"""Writes the generated parts of the docs, the JSON Schema of job messages, the console's schema of fields, and the prebuilt models.

With `--check` it writes nothing, and the exit status is 1 if a file is out of date.
"""

import ast
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from local import ROOT
from local.access_patterns import ACCESS_PATTERNS
from local.data_model import COMMON, ITEMS, RELATIONS, STORED_VIDEO_FIELDS, ItemDescription
from local.log_reference import MESSAGES, METRIC_DESCRIPTIONS
from local.prebuilt import prebuilt
from local.workbench import model
from shared.archive_tables import ARCHIVE_TABLES
from shared.core.telemetry import METRICS
from shared.job_kinds import KINDS, MINUTE
from shared.openapi.document import document
from shared.openapi.problems import examples, summary
from shared.processing.messages import JobMessage
from shared.queries import ListVideos
from shared.routes import ROUTES
from shared.schema import AUDIT_ENTITIES, AUDIT_INDEXES, AUDIT_TABLE_NAME, ENTITIES, INDEXES, TABLE_NAME, VIDEO
from shared.video_fields import INTEGERS, PROBED, SENT, VideoField
from shared.videos.models import VideoContent
from shared.web.parameters import Query

ARCHIVE = ROOT / "docs" / "archive.md"
API_REFERENCE = ROOT / "docs" / "api-reference.md"
ERRORS = ROOT / "docs" / "errors.md"
VIDEOS = ROOT / "docs" / "videos.md"
DATA_MODEL = ROOT / "docs" / "data-model.md"
JOBS = ROOT / "docs" / "jobs.md"
LOGS = ROOT / "docs" / "logs-and-metrics.md"
INDEX = ROOT / "docs" / "README.md"
DECISIONS = ROOT / "docs" / "decisions" / "README.md"
PERMISSIONS = ROOT / "docs" / "permissions.md"
MESSAGE_SCHEMA = ROOT / "docs" / "job-message.schema.json"
WORKBENCH = ROOT / "docs" / "video-metadata.workbench.json"
WORKLOAD = ROOT / "bench" / "cost" / "workload-2026-11-21.toml"
CONSOLE_SCHEMA = ROOT / "console" / "video" / "schema.js"

SECONDS_A_MONTH = 30 * 86_400
SCHEDULED_CALLS = {
    "every minute: the sweeper": "sweeps",
    "every five minutes: the rankings": "rankings",
    "every minute: the search index": "index_runs",
}
"""Names of figures in the workload, by request of an access pattern. Each figure is the number of runs of a scheduled
function in a month."""
SAME_PATTERN = {"POST /v1/videos/{videoId}/views (viewerId)": "POST /v1/videos/{videoId}/views (Idempotency-Key)"}
"""Maps requests in the workload to requests of access patterns. Contains only requests for which `pattern_of` has no
other rule."""


def generated() -> dict[Path, str]:
    """Return the content of each generated file, by path.

    Raises ValueError if a page has no marks around a generated section.
    """
    pages = {
        API_REFERENCE: {"endpoints": _endpoints()},
        ARCHIVE: {"tables": _archive_tables()},
        DATA_MODEL: _data_model(),
        ERRORS: {"problem types": _problem_types()},
        JOBS: {"job kinds": _job_kinds()},
        LOGS: {"messages": _messages(), "metrics": _metrics()},
        DECISIONS: {"decisions": _decisions()},
        INDEX: {"runbooks": _runbooks()},
        PERMISSIONS: {"functions": _functions()},
        VIDEOS: {"parameters of listVideos": _parameters(ListVideos)},
    }
    filled_pages = {page: filled(page.read_text(encoding="utf-8"), contents) for page, contents in pages.items()}
    return {
        **filled_pages,
        MESSAGE_SCHEMA: _message_schema(),
        WORKBENCH: model(),
        CONSOLE_SCHEMA: _console_schema(),
        **prebuilt(),
    }


def _endpoints() -> str:
    """Return a table of all endpoints, with scopes, query parameters and headers."""
    paths = document()["paths"]
    rows = []
    for route in ROUTES:
        operation = paths[route.path][route.method.lower()]
        parameters = [parameter for parameter in operation.get("parameters", ()) if "name" in parameter]
        query, headers = (
            ", ".join(f"`{parameter['name']}`" for parameter in parameters if parameter["in"] == place)
            for place in ("query", "header")
        )
        scope = f"`{route.scope}`" if route.scope else "none"
        rows.append((f"`{route.method} {route.path}`", operation["summary"], scope, query, headers))
    return table(("Request", "Does", "Scope", "Query parameters", "Headers"), rows)


def _messages() -> str:
    """Return the table of all log messages."""
    rows = ((f"`{message.text}`", message.functions, message.meaning) for message in MESSAGES)
    return table(("Message", "Functions", "Meaning"), rows)


def _metrics() -> str:
    """Return the table of all metrics."""
    rows = []
    for name, described in METRIC_DESCRIPTIONS.items():
        unit, dimension = METRICS[name]
        rows.append((f"`{name}`", unit, f"`{dimension}`" if dimension else "", described.functions, described.value))
    return table(("Metric", "Unit", "Second dimension", "From", "Value"), rows)


def _decisions() -> str:
    """Return the table of all decisions, with links to their pages."""
    rows = []
    for page in sorted(DECISIONS.parent.glob("[0-9]*.md")):
        number, _, title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(". ")
        rows.append((number, f"[{title}]({page.name})"))
    return table(("", "Decision"), rows)


def _archive_tables() -> str:
    """Return a section with the columns of each SQL table."""
    return "\n".join(
        f"### {described.name}\n\n{described.meaning}.\n\n"
        + table(
            ("Column", "Type", "Meaning"),
            (
                (f"`{column.name}`", column.type, column.meaning)
                for column in (*described.partitions, *described.columns)
            ),
        )
        for described in ARCHIVE_TABLES
    )


def _runbooks() -> str:
    """Return the list of all runbooks by title, with links to their pages."""
    titles = {
        page.name: page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for page in (INDEX.parent / "runbooks").glob("*.md")
    }
    lines = (f"- [{title}](runbooks/{name})\n" for name, title in sorted(titles.items(), key=lambda found: found[1]))
    return "".join(lines)


def _problem_types() -> str:
    """Return a section per problem type, with status, cause, advice to the client, and an example."""
    found = sorted(examples().items(), key=lambda found: found[0].status)
    return "\n" + "".join(
        f"## {kind.slug}\n\n**{kind.status} {kind.title}.** {summary(kind)}.\n\n**What to do:** {kind.advice}\n\n"
        f"```json\n{json.dumps(example, indent=2)}\n```\n\n"
        for kind, example in found
    )


def _data_model() -> dict[str, str]:
    """Return the generated sections of the data model by name, in Markdown."""
    calls = calls_a_month()
    return {
        "access patterns": table(
            ("Purpose", "Request", "DynamoDB", "Index", "Key", "Cost", "Calls a second", "p99 goal"),
            (
                (
                    pattern.purpose,
                    f"`{pattern.request}`",
                    _operations(pattern.operations),
                    _code(pattern.index),
                    pattern.key,
                    pattern.cost,
                    f"{calls[pattern.request] / SECONDS_A_MONTH:.2g}" if pattern.request in calls else "",
                    f"{pattern.p99_goal} ms" if pattern.p99_goal else "",
                )
                for pattern in ACCESS_PATTERNS
            ),
        ),
        "items": table(
            ("Item", "Table", "Partition key", "Sort key"),
            (
                (f"[{entity.name}](#{_anchor(entity.name)})", f"`{table}`", f"`{entity.pk}`", f"`{entity.sk}`")
                for table, entities in ((TABLE_NAME, ENTITIES), (AUDIT_TABLE_NAME, AUDIT_ENTITIES))
                for entity in entities
            ),
        ),
        "indexes": table(
            ("Index", "Table", "Partition key", "Sort key", "Answers"),
            (
                (
                    f"`{index.name}`",
                    f"`{table}`",
                    ", ".join(f"`{key.name}`" for key in index.partition),
                    ", ".join(f"`{key.name}`" for key in index.sort),
                    index.purpose,
                )
                for table, indexes in ((TABLE_NAME, INDEXES), (AUDIT_TABLE_NAME, AUDIT_INDEXES))
                for index in indexes
            ),
        ),
        "relations": table(
            ("`rel`", "`relSort`", "`relId`", "Shard by", "Items"),
            ((f"`{each.rel}`", each.sort, each.id, each.sharded_by, each.items) for each in RELATIONS),
        ),
        "attributes": _described("Attribute", COMMON) + "".join(map(_item_section, ITEMS)),
    }


def calls_a_month() -> Counter[str]:
    """Return how often each request is called in a month of the reference workload. The keys are the requests of the
    access patterns."""
    workload = tomllib.loads(WORKLOAD.read_text(encoding="utf-8"))
    calls = Counter({request: workload[figure] for request, figure in SCHEDULED_CALLS.items()})
    for request, times in workload["calls"].items():
        calls[pattern_of(request)] += times
    return calls


def pattern_of(request: str) -> str:
    """Return the request of the access pattern to which a request in the workload belongs."""
    if any(pattern.request == request for pattern in ACCESS_PATTERNS):
        return request
    return SAME_PATTERN.get(request, request.rpartition(" (")[0])


def _item_section(item: ItemDescription) -> str:
    """Return the section of the data model about an entity: keys, purpose and attributes."""
    entity = item.entity
    if entity is VIDEO:
        attributes = table(
            ("Attribute", "Set by", "Shown", "Description"),
            ((f"`{field.name}`", _writers(field), _places(field), field.description) for field in STORED_VIDEO_FIELDS),
        )
    else:
        attributes = _described("Attribute", item.attributes) if item.attributes else ""
    return f"\n### {entity.name}\n\n`{entity.pk}` / `{entity.sk}`: {item.about}\n" + (attributes and f"\n{attributes}")


def _described(what: str, descriptions: Mapping[str, str]) -> str:
    """Return a table of names and descriptions. A key of `descriptions` may be several names, separated by commas."""
    return table(
        (what, "Description"),
        ((", ".join(f"`{name}`" for name in names.split(", ")), text) for names, text in descriptions.items()),
    )


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub derives it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _writers(field: VideoField) -> str:
    """Return the writers of a field, such as `client, probe`, for the table of fields."""
    client = {"client": "client", "admin": "server, admin"}[field.create] if field.type else "server"
    return ", ".join([client, *(["probe"] if field.is_probed else [])])


def _places(field: VideoField) -> str:
    """Return the value of the column `Shown` for a field: `to its owner`, `in lists`, `yes` (only outside lists) or
    `no`."""
    places = {"to its owner": field.is_private, "in lists": field.projected and not field.is_private}
    shown = [place for place, holds in places.items() if holds]
    return ", ".join(shown) or ("yes" if field.is_shown else "no")


def _console_schema() -> str:
    """Return the source code of the console's generated module.

    It declares the input type and the maximum length of each editable video field. It also lists the fields that the job
    `probe` sets, and the kinds of jobs.
    """
    schemas = VideoContent.model_json_schema()["properties"]

    def kind_of(field: VideoField) -> str:
        schema = schemas[field.name]
        if field.type == "Seconds":
            return "time"
        is_list = any(option.get("type") == "array" for option in schema.get("anyOf", [schema]))
        return "list" if is_list else "number" if field.name in INTEGERS else "text"

    def longest(field: VideoField) -> int | None:
        schema = schemas[field.name]
        found: list[int] = [option["maxLength"] for option in schema.get("anyOf", [schema]) if "maxLength" in option]
        return max(found, default=None)

    edited = [field for field in SENT if field.create == "client" and not field.is_probed and not field.is_map]
    limits = {field.name: limit for field in edited if (limit := longest(field)) is not None}
    jobs = {kind.name: {"isAlways": kind.needs is None and not kind.per_rendition} for kind in KINDS.values()}
    return (
        "// Video fields and job kinds, generated from shared/video_fields.py and shared/job_kinds.py by\n"
        "// `python -m local.readme`.\n\n"
        "/** Input types of editable fields, by name.\n"
        ' * @type {Record<string, "text" | "number" | "time" | "list">} */\n'
        f"export const INPUTS = {json.dumps({field.name: kind_of(field) for field in edited}, indent=2)};\n\n"
        "/** Maximum numbers of characters, by name of the field. @type {Record<string, number>} */\n"
        f"export const LIMITS = {json.dumps(limits, indent=2)};\n\n"
        "/** Fields that the job `probe` sets. */\n"
        f"export const PROBED = /** @type {{const}} */ ({json.dumps(PROBED)});\n\n"
        "/** Job kinds in the order of their execution. `isAlways`: whether every source file has this job.\n"
        " * @type {Record<string, { isAlways: boolean }>} */\n"
        f"export const JOBS = {json.dumps(jobs, indent=2)};\n"
    )


def filled(text: str, contents: Mapping[str, str]) -> str:
    """Return the page `text` with new contents of its generated sections. `contents` has the contents by section name.

    Raises ValueError if the marks of a section are missing.
    """
    for name, content in contents.items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->\n"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"The page has no marks for the section {name!r}.")
        text = before + begin + content + end + after
    return text


def _job_kinds() -> str:
    about = ("Kind", "Queue", "Created after", "Fields of the video that it sets", "Folder of its objects")
    rows = (
        (
            f"`{kind.name}.<name>`" if kind.per_rendition else f"`{kind.name}`",
            kind.queue,
            f"`probe`, if the file has `{kind.needs}`"
            if kind.needs
            else "`probe`"
            if kind.after_probe
            else "the upload",
            ", ".join(f"`{name}`" for name in kind.writes)
            + "".join(f"{name} of the video" for name in kind.extra_entities),
            ", ".join(f"`{folder}/`" for folder in kind.stores),
            f"{kind.lease // MINUTE} min",
            f"{kind.patience // MINUTE} min",
            "yes" if kind.needed else "no",
        )
        for kind in KINDS.values()
    )
    return table((*about, "Lease", "Message sent again after", "Required for `ready`"), rows)


def _functions() -> str:
    """Return a table of all functions. Each row has the first paragraph of the docstring of the function's handler."""
    handlers = sorted((ROOT / "functions").glob("*/handler.py"))
    return table(
        ("Function", "Purpose"),
        (
            (
                f"[{file.parent.name}](#{file.parent.name})",
                (ast.get_docstring(ast.parse(file.read_bytes())) or "").partition("\n\n")[0].replace("\n", " "),
            )
            for file in handlers
        ),
    )


def _parameters(query: type[Query]) -> str:
    """Return a table of an operation's query parameters, with their descriptions in the OpenAPI document."""
    return _described("Parameter", {each.name: each.description for each in query.parameters})


def _message_schema() -> str:
    """Return the JSON Schema of job messages, for transcoders."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **JobMessage.model_json_schema()}
    return json.dumps(schema, indent=2) + "\n"


def main(arguments: list[str]) -> int:
    """Write the generated files. With `--check`, only compare them with their new contents. Returns the exit status."""
    files = generated()
    if arguments == ["--check"]:
        return int(any(file.read_text(encoding="utf-8") != text for file, text in files.items()))
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return 0


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _operations(names: tuple[str, ...]) -> str:
    counted = dict.fromkeys(names, 0)
    for name in names:
        counted[name] += 1
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counted.items())


def _code(index: object) -> str:
    name = getattr(index, "name", None)
    return f"`{name}`" if name else "table"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
