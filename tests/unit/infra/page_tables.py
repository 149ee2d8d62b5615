"""Tables of the documentation that are generated from templates and settings. Tests compare the pages with them.

`python -m tests.unit.infra.page_tables` writes them into the pages.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.settings import LOCAL as LOCAL_VALUES
from infra.settings import VALUES
from local.readme import filled, table
from shared.routes import ROUTES
from tests.unit.infra.templates import ROOT, Json, Templates, synthesized, synthesized_cluster

OPERATIONS, PERMISSIONS, ENVIRONMENTS, REQUESTS, CHANGES, OPENSEARCH = (
    ROOT / "docs" / f"{page}.md"
    for page in ("operations", "permissions", "environments", "path-of-a-request", "path-of-a-change", "opensearch")
)
HINT = "run: python -m tests.unit.infra.page_tables"

WILDCARDS = {
    "Sources/*": "the key of a source file contains its video's id, and a role cannot know ids",
    "Media/thumbnails/*": "as above",
    "Media/renditions/*": "as above",
    "Media/captions/*": "as above",
    "Media/index/*": "the search engine names the files of the index",
    "Archive/audit/*": "an object is named after its first entry",
    **dict.fromkeys(
        (f"Analytics/{folder}/*" for folder in ("changes", "changed_fields", "manifests")),
        "the key of a file contains the entity and the day of its changes",
    ),
    "Analytics/results/*": "Athena names the results of queries",
    **dict.fromkeys(
        (f"Analytics/{folder}/*" for folder in ("exports", "staged", "videos", "views")),
        "DynamoDB names the files of an export, and the keys of SQL tables' files contain the day",
    ),
    "Archive/aws/lambda/*": "Lambda names the records that it discards",
}
"""Resources with a final `*` in roles, each with the reason. Actions and all other resources have no wildcards."""
LABELS = {
    "Table": '[("VideoMetadata, eight indexes")]',
    "AuditTable": '[("VideoAudit: audit trail, change feed")]',
    "Archive": '[/"archive: audit trail, discarded records"/]',
    "Analytics": '[/"analytics: SQL tables over the archive"/]',
    "Stream": '["stream of the table"]',
    "CursorSecret": '["secret for cursors"]',
    "WebhookSecret": '["secret for webhooks"]',
    "Sources": '[/"sources: uploaded files"/]',
    "Media": '[/"media: thumbnails, renditions"/]',
}
"""Shapes and labels of resources in the flowcharts of permissions."""
UNITS = {
    "Latency": " ms",
    "IteratorAge": " ms",
    "OldestJobSeconds": " s",
    "DeliveryWait": " s",
    "IndexLag": " s",
    "ArchiveLag": " s",
    "IndexBytes": " bytes",
    "ApproximateAgeOfOldestMessage": " s",
    "Count": " %",
    "CPUUtilization": " %",
    "JVMMemoryPressure": " %",
    "FreeStorageSpace": " MB",
}
SIGNS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": "≥",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "≤",
}


def operations(templates: Templates) -> Json:
    """Return the template of the operations stack."""
    template = templates.operations
    assert template is not None
    return template


def alarms(templates: Templates) -> dict[str, Json]:
    """Return the alarms of the operations stack by name, as in the template."""
    properties = [alarm["Properties"] for alarm in of_type(templates, "AWS::CloudWatch::Alarm")]
    return {alarm["AlarmName"]: alarm for alarm in properties}


def of_type(templates: Templates, type_: str, *, part: str = "Operations") -> list[Json]:
    """Return the resources of a type in the operations stack or the given one."""
    return [resource for resource in templates.parts()[part]["Resources"].values() if resource["Type"] == type_]


def metrics_of(alarm: Json) -> list[Json]:
    """Return the metrics of an alarm."""
    if "Metrics" in alarm:
        return [metric["MetricStat"] for metric in alarm["Metrics"] if "MetricStat" in metric]
    return [
        {
            "Metric": {name: alarm[name] for name in ("Namespace", "MetricName", "Dimensions")},
            "Period": alarm["Period"],
            "Stat": alarm.get("Statistic") or alarm.get("ExtendedStatistic"),
        }
    ]


def is_current(page: Path, contents: Mapping[str, str]) -> bool:
    """Return whether a page has these contents between the marks of each section."""
    text = page.read_text(encoding="utf-8")
    return filled(text, contents) == text


def permissions(templates: Templates) -> dict[str, str]:
    """Return the sections of docs/permissions.md: all wildcards, and the permissions of each function."""
    folders = sorted(
        function["Properties"]["Handler"].split(".")[1] for function in templates.all("AWS::Lambda::Function").values()
    )
    return {
        "wildcards": table(("Resource", "Reason"), ((f"`{name}`", reason) for name, reason in WILDCARDS.items())),
        "roles": "\n".join(_role_section(templates, folder) for folder in folders),
    }


def _role_section(templates: Templates, folder: str) -> str:
    """Return the section about a function's role. Actions on one resource share a row if the limits of keys, attributes
    and return values are the same."""
    rows = defaultdict(list)
    for line in sorted(templates.allowed(folder)):
        if not line.startswith("logs:"):
            line, _, returning = line.partition(" -> ")
            request, _, attributes = line.partition(": ")
            action, resource, *named = request.split()
            rows[resource, " ".join(named), attributes, returning].append(f"`{action}`")
    may = []
    for (resource, keys, attributes, returning), actions in rows.items():
        parts = (("below", keys), ("attributes", attributes), ("returns", returning))
        may.append(
            (", ".join(actions), f"`{resource}`", "; ".join(f"{label} `{names}`" for label, names in parts if names))
        )
    return f"### {folder}\n\n" + (table(("Actions", "Resource", "Only"), may) if may else "No permissions.\n")


def picture(templates: Templates) -> dict[str, str]:
    """Return the flowchart of docs/path-of-a-request.md with the permissions of the functions that serve requests."""
    functions = [*dict.fromkeys(route.function for route in ROUTES), "console"]
    users: dict[str, list[str]] = {}
    for function in functions:
        excluded = ("logs:", "sqs:GetQueueAttributes", "athena:", "glue:")
        lines = [line.split() for line in sorted(templates.allowed(function)) if not line.startswith(excluded)]
        for resource in dict.fromkeys(resource.partition("/")[0] for _, resource, *_ in lines):
            users.setdefault(resource, []).append(function)
    arrows = [
        'Client --> Gateway["HTTP API: checks the token, throttles"]',
        f"Gateway --> {' & '.join(functions)}",
        *(f"{' & '.join(names)} --> {resource}{LABELS.get(resource, '')}" for resource, names in users.items()),
        'webhooks --> Receiver["a receiver: a test"]',
        'totals --> Queues["all queues: numbers of messages"]',
        'history --> Athena["Athena: saved questions"]',
        "Client --> Sources",
        'Client --> Pictures["CloudFront: thumbnails/*"]',
        "Pictures --> Media",
    ]
    return {"picture": "```mermaid\nflowchart LR\n" + "".join(f"  {arrow}\n" for arrow in arrows) + "```\n"}


def background_picture(templates: Templates) -> dict[str, str]:
    """Return the flowchart of docs/path-of-a-change.md with the permissions of stream, queue and scheduled functions."""
    handlers = sorted(
        function["Properties"]["Handler"].split(".")[1] for function in templates.all("AWS::Lambda::Function").values()
    )
    users: dict[str, dict[str, None]] = {}
    readers: dict[str, list[str]] = {}
    for function in sorted({*handlers} - {"console", *(route.function for route in ROUTES)}):
        for line in sorted(templates.allowed(function)):
            action, resource = line.split()[:2]
            resource = resource.partition("/")[0]
            if action in ("sqs:ReceiveMessage", "dynamodb:GetRecords"):
                source = "Stream" if action == "dynamodb:GetRecords" else resource
                readers.setdefault(source, []).append(function)
            elif action == "sqs:SendMessage" or (
                action.startswith(("dynamodb:", "s3:", "secretsmanager:")) and not resource.endswith(".StreamArn")
            ):
                users.setdefault(resource, {})[function] = None
    arrows = [
        *(f"{source}{LABELS.get(source, '')} --> {' & '.join(names)}" for source, names in readers.items()),
        *(f"{' & '.join(names)} --> {resource}{LABELS.get(resource, '')}" for resource, names in users.items()),
        "Sources --> ArrivalsQueue",
        'Schedule["every minute"] --> sweeper',
        'RankingsSchedule["every five minutes"] --> rankings',
        'IndexSchedule["every minute"] --> indexer',
        'CompactorSchedule["every hour"] --> compactor',
        'TranscodeQueue --> Transcoder["your transcoder"]',
        "Transcoder --> Media",
        'deliveries --> Receiver["receivers"] & EventBus["your event bus"]',
    ]
    return {"picture": "```mermaid\nflowchart LR\n" + "".join(f"  {arrow}\n" for arrow in arrows) + "```\n"}


def alarm_table(templates: Templates) -> dict[str, str]:
    """Return the table of docs/operations.md with the alarms of a deployment."""
    header = ("Alarm", "Threshold", "Periods", "No data is", "Runbook")
    return {"alarms": table(header, (_alarm_row(name, alarm) for name, alarm in alarms(templates).items()))}


def cluster_alarm_table(clusters: Mapping[str, Mapping[str, Json]]) -> dict[str, str]:
    """Return the table of docs/opensearch.md with the alarms of a domain and of a collection."""
    rows: dict[str, tuple[str, str, str]] = {}
    for kind, parts in clusters.items():
        for alarm in cluster_alarms(parts):
            name, threshold, periods, *_ = _alarm_row(alarm["AlarmName"], alarm)
            kinds, _, _ = rows.get(name, ("", "", ""))
            rows[name] = (f"{kinds}, {kind}" if kinds else kind, threshold, periods)
    header = ("Alarm", "Cluster", "Threshold", "Periods")
    return {"alarms": table(header, ((name, *cells) for name, cells in rows.items()))}


def cluster_alarms(parts: Mapping[str, Json]) -> list[Json]:
    """Return the alarms in the templates of an OpenSearch cluster."""
    resources = parts["Operations"]["Resources"].values()
    return [resource["Properties"] for resource in resources if resource["Type"] == "AWS::CloudWatch::Alarm"]


def _alarm_row(name: str, alarm: Json) -> tuple[str, ...]:
    metric = metrics_of(alarm)[0]
    runbook = Path(alarm["AlarmDescription"].rpartition("/")[2]).stem
    unit = UNITS.get(metric["Metric"]["MetricName"], "")
    return (
        name.partition(" ")[2],
        f"{SIGNS[alarm['ComparisonOperator']]} {alarm['Threshold']:,}{unit}",
        f"{alarm['DatapointsToAlarm']} of {alarm['EvaluationPeriods']}, {metric['Period'] // 60} min each",
        "good" if alarm["TreatMissingData"] == "notBreaching" else "bad",
        f"[{runbook}](runbooks/{runbook}.md)",
    )


def setting_table() -> dict[str, str]:
    """Return the table of docs/environments.md with all context values, and each environment's values from cdk.json."""
    environments = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]["environments"]
    columns = {**environments, "`make run`": LOCAL_VALUES}
    return {
        "values": table(
            ("Value", "Meaning", "Default", *columns),
            (
                (
                    f"`{name}`",
                    value.description,
                    value.otherwise if value.default is None else f"`{as_text(value.default)}`",
                    *(as_text(column[name]) if name in column else "" for column in columns.values()),
                )
                for name, value in VALUES.items()
            ),
        )
    }


def as_text(value: object) -> str:
    """Return a value as written in the context."""
    return value if isinstance(value, str) else json.dumps(value)


def main() -> None:
    """Write the tables into the pages."""
    with TemporaryDirectory() as folder:
        dev, prod = (Templates(synthesized({"env": env}, Path(folder, env))) for env in ("dev", "prod"))
        contents = {
            PERMISSIONS: permissions(dev),
            REQUESTS: picture(dev),
            CHANGES: background_picture(dev),
            OPERATIONS: alarm_table(prod),
            ENVIRONMENTS: setting_table(),
            OPENSEARCH: cluster_alarm_table(
                {
                    kind: synthesized_cluster({"searchEngine": "opensearch", "openSearch": kind}, Path(folder, kind))
                    for kind in ("domain", "collection")
                }
            ),
        }
    for page, sections in contents.items():
        page.write_text(filled(page.read_text(encoding="utf-8"), sections), encoding="utf-8")


if __name__ == "__main__":
    main()
