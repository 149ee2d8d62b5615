"""Each function has the intended configuration and exactly its required permissions."""

import json
import re
from importlib import import_module

from shared.archive_tables import ARCHIVE_TABLES
from shared.core.settings import Settings
from tests.unit.infra.templates import EXISTING_BUS, FUNCTIONS, ROOT, Json, Templates, as_list, to_text

READS_THE_STREAM = {
    "dynamodb:DescribeStream Table.StreamArn",
    "dynamodb:GetRecords Table.StreamArn",
    "dynamodb:GetShardIterator Table.StreamArn",
    "dynamodb:ListStreams Table.StreamArn",
    "s3:ListBucket Archive",
    "s3:PutObject Archive/aws/lambda/*",
}


def _consumes(queue: str) -> set[str]:
    return {f"sqs:{action} {queue}" for action in ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")}


def _only(line: str, *attributes: str, returning: str = "") -> str:
    """Return the line of a permission with the attributes that requests may name and the values that they may
    return."""
    named = " ".join(sorted({name for names in attributes for name in names.split()}))
    return f"{line}: {named}" + (f" -> {returning}" if returning else "")


VISIBILITY_FIELDS = "expiresAt publishAt purgeAt schemaVersion status userId visibility"
SUMMARY = f"{VISIBILITY_FIELDS} category createdAt duration format poster title videoId"
STAMP = "schemaVersion updatedAt updatedBy updatedFor"
RELATION = "rel relId relShard relSort"
LEDGER = "seen seenUpTo tally"
QUOTA = "jobs last purgeAt schemaVersion"
VIDEO_COUNTS = "bytes deleted failed milliseconds processing ready uploaded"
JOB = f"""
    {RELATION} attempt error finishedAt inputHash lease leaseUntil output progress queuedAt sends sentAt startedAt state
    updatedAs updatedAt updatedBy updatedFor worker writeId
"""
VIDEO_VERSION = f"{STAMP} {RELATION} categoryShard orderBy orderValue poster purgeAt updatedAs version writeId"
FACTS = "audioCodec duration fileSize format frameRate origins resolution videoCodec"
"""Attributes that several roles may write.

A role that may not write whole videos must not name a title or an owner in a write."""

UNDO = {
    "dynamodb:BatchGetItem AuditTable PLAYLIST#* VIDEO#*",
    "dynamodb:Query AuditTable PLAYLIST#* VIDEO#*",
    "dynamodb:Query AuditTable/index/ChangesetIndex",
    *(f"dynamodb:{action}Item Table PLAYLIST#* VIDEO#*" for action in ("BatchGet", "Delete", "Get", "Put", "Update")),
    "dynamodb:Query Table PLAYLIST#* VIDEO#*",
    "dynamodb:Query Table/index/RelationIndex",
    *(f"dynamodb:{action}Item Table UNIQUE#*" for action in ("Delete", "Get", "Put")),
    _only("dynamodb:UpdateItem Table USER#*", "playlists userId version", STAMP, RELATION),
    _only("dynamodb:UpdateItem Table USER#*", QUOTA),
}
"""Permissions of the functions that revert changes, synchronously or from a queue."""

READS_THE_FEED = {f"dynamodb:{action} AuditTable CHANGES#* OWNERCHANGES#*" for action in ("GetItem", "Query")}
"""Permissions to read the feed and the position of its end."""

ALLOWED = {
    "videos": {
        "dynamodb:BatchGetItem Table VIDEO#* VIEWS#*",
        "dynamodb:DeleteItem Table UNIQUE#* VIDEO#*",
        "dynamodb:GetItem Table IDEMPOTENCY#* UNIQUE#* VIDEO#* VIEWS#*",
        "dynamodb:PutItem Table IDEMPOTENCY#* UNIQUE#* VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table/index/CategoryDurationIndex",
        "dynamodb:Query Table/index/CategoryIndex",
        "dynamodb:Query Table/index/CategoryOrderIndex",
        "dynamodb:Query Table/index/RelationIndex",
        "dynamodb:Query Table/index/UserDurationIndex",
        "dynamodb:Query Table/index/UserIdIndex",
        "dynamodb:Query Table/index/UserOrderIndex",
        "dynamodb:Query Table/index/YearIndex",
        "dynamodb:UpdateItem Table VIDEO#*",
        "dynamodb:Query AuditTable VIDEO#*",
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "views": {
        "dynamodb:BatchGetItem Table VIEWS#*",
        "dynamodb:GetItem Table VIEWS#*",
        _only("dynamodb:BatchGetItem Table VIDEO#*", VISIBILITY_FIELDS),
        _only("dynamodb:GetItem Table VIDEO#*", VISIBILITY_FIELDS),
        "dynamodb:Query Table VIEWS#*",
        "dynamodb:PutItem Table VIEWER#*",
        _only(
            "dynamodb:UpdateItem Table VIEWS#*",
            "calmedAt checked checkedAt deleted expired folded hour owner repeated schemaVersion shards spread "
            "unpublished views watched",
            returning="ALL_NEW",
        ),
    },
    "uploads": {
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        _only("dynamodb:UpdateItem Table USER#*", QUOTA),
        _only("dynamodb:UpdateItem Table VIDEO#*", "state"),
        "s3:AbortMultipartUpload Sources/*",
        "s3:ListMultipartUploadParts Sources/*",
        "s3:ListBucket Sources",
        "s3:PutObject Sources/*",
    },
    "jobs": {
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        _only("dynamodb:UpdateItem Table USER#*", QUOTA),
        _only(
            "dynamodb:UpdateItem Table VIDEO#*",
            JOB,
            VIDEO_VERSION,
            FACTS,
            "failure posterTime source status thumbnails",
            "createdAt since spent",
            returning="ALL_NEW",
        ),
    },
    "playback": {
        _only(
            "dynamodb:GetItem Table VIDEO#*", VISIBILITY_FIELDS, "duration failure pictures source thumbnails videoId"
        ),
        "dynamodb:Query Table VIDEO#*",
        "s3:GetObject Media/captions/*",
        "s3:GetObject Media/renditions/*",
        "s3:GetObject Sources/*",
    },
    "history": {
        "dynamodb:GetItem Table VIDEO#*",
        _only("dynamodb:GetItem Table PLAYLIST#*", "deletedAt purgeAt userId visibility"),
        "dynamodb:GetItem Table REVERT#*",
        "dynamodb:Query Table REVERT#*",
        "dynamodb:BatchGetItem AuditTable PLAYLIST#* VIDEO#*",
        "dynamodb:Query AuditTable PLAYLIST#* VIDEO#*",
        "dynamodb:Query AuditTable/index/ChangesetIndex",
        "secretsmanager:GetSecretValue CursorSecret",
        *(
            f"athena:{action} athena:workgroup/VideoMetadata"
            for action in ("StartQueryExecution", "GetQueryExecution", "GetQueryResults")
        ),
        *(
            f"glue:{action} glue:{resource}"
            for action in ("GetDatabase", "GetTable", "GetPartitions")
            for resource in (
                *("catalog", "database/video_metadata"),
                *(f"table/video_metadata/{table.name}" for table in ARCHIVE_TABLES),
            )
        ),
        *(f"s3:{action} Analytics" for action in ("GetBucketLocation", "ListBucket")),
        *(f"s3:GetObject Analytics/{table.name}/*" for table in ARCHIVE_TABLES),
        *(f"s3:{action} Analytics/results/*" for action in ("GetObject", "PutObject")),
        *READS_THE_FEED,
    },
    "undo": UNDO | {"dynamodb:PutItem Table REVERT#*"},
    "webhooks": READS_THE_FEED
    | {
        *(
            f"dynamodb:{action} Table WEBHOOK#*"
            for action in ("BatchGetItem", "DeleteItem", "PutItem", "Query", "UpdateItem")
        ),
        "dynamodb:Query Table/index/RelationIndex",
        "dynamodb:GetItem Table IDEMPOTENCY#*",
        "dynamodb:PutItem Table IDEMPOTENCY#*",
        _only("dynamodb:GetItem Table USER#*", "ids", STAMP),
        _only("dynamodb:UpdateItem Table USER#*", "ids", STAMP),
        "secretsmanager:GetSecretValue CursorSecret",
        "secretsmanager:GetSecretValue WebhookSecret",
        "sqs:SendMessage DeliveriesQueue",
    },
    "relations": {
        "dynamodb:BatchGetItem Table VIDEO#*",
        "dynamodb:ConditionCheckItem Table VIDEO#*",
        "dynamodb:DeleteItem Table VIDEO#*",
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table/index/RelationIndex",
        _only("dynamodb:UpdateItem Table VIDEO#*", RELATION, "writeId removing updatedBy updatedFor"),
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "captions": {
        "dynamodb:BatchGetItem Table VIDEO#*",
        "dynamodb:DeleteItem Table VIDEO#*",
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        _only("dynamodb:UpdateItem Table VIDEO#*", "removing updatedBy updatedFor writeId"),
        "s3:GetObject Media/captions/*",
        "s3:ListBucket Media",
        "s3:PutObject Media/captions/*",
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "ratings": {
        _only(
            "dynamodb:BatchGetItem Table RATINGS#* VIDEO#*",
            VISIBILITY_FIELDS,
            "dislikes imported like likes ratedAt sum value votes writeId",
        ),
        "dynamodb:PutItem Table RATINGS#*",
    },
    "playlists": {
        "dynamodb:BatchGetItem Table PLAYLIST#*",
        _only("dynamodb:BatchGetItem Table VIDEO#*", SUMMARY),
        "dynamodb:DeleteItem Table PLAYLIST#*",
        "dynamodb:GetItem Table IDEMPOTENCY#* PLAYLIST#*",
        _only("dynamodb:GetItem Table VIDEO#*", SUMMARY),
        "dynamodb:PutItem Table IDEMPOTENCY#* PLAYLIST#*",
        "dynamodb:Query Table PLAYLIST#*",
        "dynamodb:Query Table/index/RelationIndex",
        "dynamodb:UpdateItem Table PLAYLIST#*",
        _only("dynamodb:UpdateItem Table USER#*", "playlists userId version", STAMP, RELATION),
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "totals": {
        _only("dynamodb:BatchGetItem Table VIDEO#*", SUMMARY),
        "dynamodb:GetItem Table FOLDERS#*",
        "dynamodb:Query Table FOLDERS#*",
        _only("dynamodb:BatchGetItem Table VIDEO#*", "error kind"),
        _only("dynamodb:BatchGetItem Table WEBHOOK#*", "failingSince nextAttemptAt oldestWaiting webhookId"),
        _only("dynamodb:GetItem Table COMPARISON", "at findings outcomes repairs"),
        _only("dynamodb:GetItem Table HOURLYVIEWS", "computedAt from views"),
        _only("dynamodb:GetItem Table INDEX", "asOf films publishedAt"),
        "dynamodb:Query Table SERVICE#*",
        "dynamodb:GetItem Table TOP#*",
        _only("dynamodb:GetItem Table USER#*", VIDEO_COUNTS, "playlists"),
        "dynamodb:Query Table/index/RelationIndex",
        "secretsmanager:GetSecretValue CursorSecret",
        *(
            f"sqs:GetQueueAttributes {queue}Queue{part}"
            for queue in (
                *("Aggregates", "Arrivals", "Deliveries", "Probe", "Purge", "Reverts", "Tallies", "Thumbnails"),
                "Transcode",
            )
            for part in ("", "DeadLetters")
        ),
    },
    "search": {
        "dynamodb:GetItem AuditTable CHANGES#*",
        "dynamodb:Query AuditTable CHANGES#*",
        "dynamodb:GetItem Table INDEX",
        _only("dynamodb:BatchGetItem Table VIDEO#*", SUMMARY, "description language tags"),
        _only("dynamodb:GetItem Table VIDEO#*", VISIBILITY_FIELDS),
        "dynamodb:Query Table VIDEO#*",
        "s3:GetObject Media/captions/*",
        "s3:GetObject Media/index/*",
        "s3:ListBucket Media",
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "public": {"dynamodb:GetItem Table HEALTH"},
    "console": set(),
    "stream_router": READS_THE_STREAM
    | {
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:DeleteItem Table VIDEO#*",
        _only("dynamodb:UpdateItem Table VIDEO#*", JOB, "since"),
        _only("dynamodb:UpdateItem Table VIDEO#*", "removing updatedBy updatedFor writeId"),
        "dynamodb:DeleteItem Table SHARE#*",
        "dynamodb:PutItem Table SHARE#*",
        "dynamodb:Query Table SHARE#*",
        "dynamodb:UpdateItem Table SHARE#*: checkedAt jobs purgeAt schemaVersion",
        "sqs:SendMessage AggregatesQueue",
        "sqs:SendMessage ProbeQueue",
        "sqs:SendMessage PurgeQueue",
        "sqs:SendMessage RevertsQueue",
        "sqs:SendMessage ThumbnailsQueue",
        "sqs:SendMessage TalliesQueue",
        "sqs:SendMessage TranscodeQueue",
    },
    "audit": READS_THE_STREAM
    | {
        "dynamodb:PutItem AuditTable PLAYLIST#* VIDEO#*",
        "dynamodb:PutItem AuditTable CHANGES#* OWNERCHANGES#*",
        *READS_THE_FEED,
        "s3:PutObject Archive/audit/*",
        "sqs:SendMessage DeliveriesQueue",
    },
    "arrivals": _consumes("ArrivalsQueue")
    | {
        "dynamodb:GetItem Table VIDEO#*",
        _only(
            "dynamodb:UpdateItem Table VIDEO#*",
            VIDEO_VERSION,
            "failure pictures posterTime source state status statusBeforeDelete",
        ),
        "s3:GetObject Sources/*",
        "s3:ListBucket Sources",
    },
    "probe": _consumes("ProbeQueue")
    | {
        "dynamodb:GetItem Table VIDEO#*",
        _only(
            "dynamodb:UpdateItem Table VIDEO#*", JOB, VIDEO_VERSION, FACTS, "failure source status", returning="ALL_NEW"
        ),
        "s3:GetObject Sources/*",
        "s3:ListBucket Sources",
    },
    "thumbnails": _consumes("ThumbnailsQueue")
    | {
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:ConditionCheckItem Table VIDEO#*",
        _only(
            "dynamodb:UpdateItem Table VIDEO#*",
            JOB,
            VIDEO_VERSION,
            "pictures videoId language owner text cues size origin upload removing",
            returning="ALL_NEW",
        ),
        "s3:GetObject Sources/*",
        "s3:ListBucket Sources",
        "s3:PutObject Media/captions/*",
        "s3:PutObject Media/thumbnails/*",
    },
    "purge": _consumes("PurgeQueue")
    | {
        "dynamodb:BatchWriteItem Table PLAYLIST#* RATINGS#* VIDEO#*",
        "dynamodb:ConditionCheckItem Table VIDEO#*",
        "dynamodb:DeleteItem Table ORDER#* PLAYLIST#* UNIQUE#* VIEWS#*",
        "dynamodb:Query Table ORDER#*",
        "dynamodb:GetItem Table PLAYLIST#* VIDEO#* VIEWS#*",
        "dynamodb:Query Table PLAYLIST#* VIDEO#* VIEWS#*",
        "dynamodb:Query Table/index/RelationIndex",
        _only(
            "dynamodb:UpdateItem Table PLAYLIST#*", "entryCount moves updatedAt updatedBy updatedFor version writeId"
        ),
        "s3:DeleteObject Media/captions/*",
        "s3:DeleteObject Media/renditions/*",
        "s3:DeleteObject Media/thumbnails/*",
        "s3:DeleteObject Sources/*",
        "s3:ListBucket Media captions/* renditions/* thumbnails/*",
        "s3:ListBucket Sources",
        "sqs:SendMessage PurgeQueue",
    },
    "aggregates": _consumes("AggregatesQueue")
    | {
        "dynamodb:BatchGetItem Table VIDEO#*",
        "dynamodb:ConditionCheckItem Table VIDEO#*",
        "dynamodb:DeleteItem Table VIDEO#*",
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table ORDER#*",
        _only("dynamodb:UpdateItem Table ORDER#*", "category categoryShard userId"),
        _only("dynamodb:UpdateItem Table SERVICE#*", "purgeAt uploads version", VIDEO_COUNTS, STAMP),
        _only("dynamodb:UpdateItem Table FOLDERS#*", "count direct folder userId version", STAMP),
        _only("dynamodb:UpdateItem Table TAGCOUNT#*", "count tag version", STAMP, RELATION),
        _only("dynamodb:UpdateItem Table USER#*", "userId version", VIDEO_COUNTS, STAMP, RELATION),
        _only("dynamodb:UpdateItem Table VIDEO#*", VIDEO_VERSION, "tags"),
        "sqs:SendMessage AggregatesQueue",
    },
    "tallies": _consumes("TalliesQueue")
    | {
        _only("dynamodb:BatchGetItem Table ORDER#* VIDEO#*", "orderValue sum votes"),
        "dynamodb:ConditionCheckItem Table VIDEO#*",
        "dynamodb:DeleteItem Table ORDER#*",
        _only("dynamodb:GetItem Table VIDEO#* VIEWS#*", VISIBILITY_FIELDS, "category rel version videoId", LEDGER),
        "dynamodb:PutItem Table ORDER#*",
        _only("dynamodb:UpdateItem Table ORDER#*", "orderValue"),
        f"dynamodb:PutItem Table SEEN#* VIEWS#{'?' * 36}",
        "dynamodb:Query Table SEEN#*",
        _only("dynamodb:UpdateItem Table VIDEO#*", "votes sum likes dislikes version videoId", STAMP, LEDGER),
        _only("dynamodb:UpdateItem Table VIEWS#*", "keyed watched hour schemaVersion", LEDGER),
    },
    "reverts": _consumes("RevertsQueue")
    | UNDO
    | {
        *(
            f"dynamodb:{action} Table REVERT#*"
            for action in ("DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem")
        ),
        "sqs:SendMessage RevertsQueue",
    },
    "deliveries": _consumes("DeliveriesQueue")
    | {
        "dynamodb:Query AuditTable CHANGES#* OWNERCHANGES#*",
        *(f"dynamodb:{action} Table WEBHOOK#*" for action in ("BatchGetItem", "GetItem", "PutItem", "UpdateItem")),
        *(f"dynamodb:{action} Table SHARE#*" for action in ("DeleteItem", "PutItem", "Query")),
        "dynamodb:UpdateItem Table SHARE#*: checkedAt jobs purgeAt schemaVersion",
        "dynamodb:Query Table/index/RelationIndex",
        "secretsmanager:GetSecretValue WebhookSecret",
        "sqs:SendMessage DeliveriesQueue",
    },
    "sweeper": {
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table/index/RelationIndex",
        _only("dynamodb:UpdateItem Table VIDEO#*", JOB, VIDEO_VERSION, FACTS, "failure since status"),
        "sqs:SendMessage AggregatesQueue",
        "sqs:SendMessage DeliveriesQueue",
    },
    "rankings": {
        "dynamodb:BatchGetItem Table TOP#*",
        "dynamodb:BatchGetItem Table VIEWS#*",
        "dynamodb:GetItem Table TOP#*",
        "dynamodb:GetItem Table VIEWS#*",
        "dynamodb:ConditionCheckItem Table VIDEO#*",
        _only("dynamodb:GetItem Table VIDEO#*", VISIBILITY_FIELDS, "category rel version videoId"),
        "dynamodb:PutItem Table ORDER#*",
        "dynamodb:PutItem Table HOURLYVIEWS",
        "dynamodb:PutItem Table TOP#*",
        "dynamodb:Query Table VIEWS#*",
        _only("dynamodb:UpdateItem Table ORDER#*", "orderValue"),
        "dynamodb:Query Table/index/RelationIndex",
        _only("dynamodb:UpdateItem Table VIEWS#*", "calmedAt checked checkedAt folded shards"),
    },
    "indexer": {
        *(f"dynamodb:{action} AuditTable CHANGES#*" for action in ("GetItem", "Query")),
        *(f"dynamodb:{action} Table INDEX" for action in ("GetItem", "UpdateItem")),
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table/index/RelationIndex",
        *(f"s3:{action} Media/index/*" for action in ("DeleteObject", "GetObject", "PutObject")),
        "s3:GetObject Media/captions/*",
        "s3:ListBucket Media",
    },
    "compactor": {
        "s3:GetObject Archive/audit/*",
        "s3:ListBucket Archive audit/*",
        *(
            f"s3:{action} Analytics/{folder}/*"
            for action in ("GetObject", "PutObject")
            for folder in ("changed_fields", "changes", "manifests", "staged", "videos", "views")
        ),
        "s3:GetObject Analytics/exports/*",
        "s3:ListBucket Analytics",
    },
}
"""Permissions of each function, except those for its own log, as `Templates.allowed` returns them."""

VALUES = {
    "AGGREGATES_QUEUE_URL": "AggregatesQueue",
    "ANALYTICS_BUCKET": "Analytics",
    "ARCHIVE_BUCKET": "Archive",
    "AUDIT_DAYS": "400",
    "AUDIT_TABLE_NAME": "AuditTable",
    "CAPTION_CUES": "40000",
    "CAPTION_DAYS": "0",
    "SNAPSHOT_DAYS": "0",
    "COUNT_OWN_VIEWS": "false",
    "INDEX_LIMIT_BYTES": str(2 * 2**30),
    "CURSOR_SECRET_ARN": "CursorSecret",
    "DELIVERIES_QUEUE_URL": "DeliveriesQueue",
    "ENVIRONMENT": "dev",
    "JOBS_PER_DAY": "500",
    "MEDIA_BUCKET": "Media",
    "MEDIA_URL": "https://Pictures.DomainName",
    "PROBE_QUEUE_URL": "ProbeQueue",
    "PURGE_QUEUE_URL": "PurgeQueue",
    "RENDITIONS": "1080p,720p,480p,240p",
    "REVERTS_QUEUE_URL": "RevertsQueue",
    "SOURCES_BUCKET": "Sources",
    "TABLE_NAME": "Table",
    "TALLIES_QUEUE_URL": "TalliesQueue",
    "THUMBNAILS_QUEUE_URL": "ThumbnailsQueue",
    "TRANSCODE_QUEUE_URL": "TranscodeQueue",
    "VIEW_WINDOW_SECONDS": "1800",
    "WEBHOOK_SECRET_ARN": "WebhookSecret",
}
"""Values of the required variables, the same for each function that reads one."""

ALL_QUEUES = {
    name: f"{name.capitalize()}Queue"
    for name in (
        *("arrivals", "probe", "thumbnails", "transcode", "purge", "aggregates", "tallies", "reverts", "deliveries"),
    )
}
OWN_VALUES = {
    "totals": {
        "QUEUES": ",".join(f"{name}={queue}" for name, queue in ALL_QUEUES.items()),
        "DEAD_LETTER_QUEUES": ",".join(f"{name}={queue}DeadLetters" for name, queue in ALL_QUEUES.items()),
    },
    "console": {
        "CONFIG": '{"issuer":"Pool.ProviderURL","clientId":"ConsoleClient","scopes":"videos/read videos/write",'
        '"media":["https://Pictures.DomainName","https://Sources.RegionalDomainName","https://Media.RegionalDomainName"]}',
        "CONNECT_ORIGINS": "https://cognito-idp.AWS::Region.AWS::URLSuffix "
        "https://PoolDomain.auth.AWS::Region.amazoncognito.com",
    },
    "stream_router": {"SHARES": "probe=4,thumbnails=4,transcode=10"},
    "deliveries": {"SHARES": "deliveries=3,slow-deliveries=1,all-slow-deliveries=5"},
}
"""Values of variables that differ between functions."""

LOCAL_DELIVERY_QUOTAS = "deliveries=1,slow-deliveries=1,all-slow-deliveries=1"
LOCAL_CONSOLE = {
    "CONFIG": '{"issuer":"http://127.0.0.1:9000","clientId":"console",'
    '"scopes":"videos/read videos/write videos/admin","audience":"video-metadata","media":["http://127.0.0.1:4566"]}',
    "CONNECT_ORIGINS": "http://127.0.0.1:9000",
}
"""Values of the console's variables in the local deployment. The development issuer grants users all scopes, and
MiniStack has all buckets at one address."""

SEARCHING = ("indexer", "search")
"""Functions that store a copy of the search index in `/tmp`."""

SIZES = {
    "console": (256, 28),
    "stream_router": (512, 60),
    "audit": (512, 60),
    "arrivals": (512, 30),
    "probe": (1024, 120),
    "thumbnails": (1769, 300),
    "purge": (512, 120),
    "aggregates": (512, 60),
    "tallies": (512, 30),
    "reverts": (512, 120),
    "deliveries": (512, 120),
    "sweeper": (512, 50),
    "rankings": (1024, 240),
    "indexer": (1769, 300),
    "compactor": (1769, 900),
    "search": (1769, 28),
}
"""Megabytes and seconds of functions other than request functions, which have 512 and 28."""


def test_every_function_folder_is_deployed(defaults: Templates) -> None:
    handlers = {function["Properties"]["Handler"] for function in defaults.all("AWS::Lambda::Function").values()}
    assert handlers == {f"functions.{folder}.handler.lambda_handler" for folder in FUNCTIONS}


def test_every_function_and_the_gateway_have_a_log_with_limited_retention(defaults: Templates) -> None:
    """Retention in development is two weeks."""
    groups = defaults.all("AWS::Logs::LogGroup").values()
    assert [group["Properties"]["RetentionInDays"] for group in groups] == [14] * (len(FUNCTIONS) + 1)


class TestEveryFunction:
    """Each test compares a property of all functions with a table, so that a difference names the function."""

    def test_function_has_exactly_its_permissions(self, defaults: Templates) -> None:
        allowed = {
            folder: {line for line in defaults.allowed(folder) if not line.startswith("logs:")} for folder in FUNCTIONS
        }
        assert allowed == ALLOWED

    def test_function_writes_its_own_log_only(self, defaults: Templates) -> None:
        written = {}
        for folder in FUNCTIONS:
            group = to_text(defaults.function(folder)[1]["LoggingConfig"]["LogGroup"])
            written[folder] = (group, {line for line in defaults.allowed(folder) if line.startswith("logs:")})
        groups = {folder: f"{folder.capitalize()}Logs" for folder in FUNCTIONS} | {"stream_router": "RouterLogs"}
        assert written == {
            folder: (group, {f"logs:CreateLogStream {group}", f"logs:PutLogEvents {group}"})
            for folder, group in groups.items()
        }

    def test_function_logs_json(self, defaults: Templates) -> None:
        forms = {folder: defaults.function(folder)[1]["LoggingConfig"]["LogFormat"] for folder in FUNCTIONS}
        assert forms == dict.fromkeys(FUNCTIONS, "JSON")

    def test_function_has_no_wildcards_except_for_object_names_and_no_scan(self, defaults: Templates) -> None:
        for folder in FUNCTIONS:
            for statement in defaults.statements(folder):
                actions = as_list(statement["Action"])
                assert not [action for action in actions if "*" in action or "Scan" in action], folder
                for resource in map(to_text, as_list(statement["Resource"])):
                    assert "*" not in resource.removesuffix("/*"), folder
                    assert not resource.endswith("/*") or str(actions).count("Object"), folder

    def test_function_has_no_managed_policy(self, defaults: Templates) -> None:
        roles = defaults.all("AWS::IAM::Role")
        own = {
            folder: roles[defaults.function(folder)[1]["Role"]["Fn::GetAtt"][0]]["Properties"] for folder in FUNCTIONS
        }
        assert [folder for folder, properties in own.items() if "ManagedPolicyArns" in properties] == []

    def test_function_has_exactly_the_variables_that_its_settings_require(self, defaults: Templates) -> None:
        expected = {}
        for folder in FUNCTIONS:
            read, optional = _variables(folder)
            values = VALUES | OWN_VALUES.get(folder, {})
            powertools = {"POWERTOOLS_LOG_LEVEL": "INFO", "POWERTOOLS_SERVICE_NAME": folder}
            expected[folder] = {name: values[name] for name in read - optional} | powertools
        assert {folder: _environment(defaults, folder) for folder in FUNCTIONS} == expected

    def test_local_function_has_only_variables_that_its_settings_read(self, local: Templates) -> None:
        for folder in FUNCTIONS:
            read, optional = _variables(folder)
            # Powertools reads its own variables.
            variables_set = {name for name in _environment(local, folder) if not name.startswith("POWERTOOLS_")}
            assert read - optional <= variables_set <= read, folder

    def test_function_runs_python_313_on_arm_without_tracing(self, defaults: Templates) -> None:
        functions = {folder: defaults.function(folder)[1] for folder in FUNCTIONS}
        names = ("Runtime", "Architectures", "MemorySize", "Timeout", "TracingConfig")
        assert {folder: [properties.get(name) for name in names] for folder, properties in functions.items()} == {
            folder: ["python3.13", ["arm64"], *SIZES.get(folder, (512, 28)), None] for folder in FUNCTIONS
        }

    def test_large_libraries_are_only_in_the_functions_that_use_them(self, defaults: Templates) -> None:
        processing, searching, archiving, all_others = (
            defaults.function(name)[1]["Code"] for name in ("thumbnails", "indexer", "compactor", "videos")
        )
        special = ("probe", "thumbnails", "console", "compactor", *SEARCHING)
        for folder in FUNCTIONS:
            code = defaults.function(folder)[1]["Code"]
            assert (code == processing) == (folder in ("probe", "thumbnails")), folder
            assert (code == searching) == (folder in SEARCHING), folder
            assert (code == archiving) == (folder == "compactor"), folder
            assert (code == all_others) == (folder not in special), folder

    def test_local_function_has_the_same_settings_except_local_ones(
        self, defaults: Templates, local: Templates
    ) -> None:
        expected = {}
        for folder in FUNCTIONS:
            variables = _environment(defaults, folder)
            variables |= {"MEDIA_URL": "http://127.0.0.1:4566/Media"} if "MEDIA_URL" in variables else {}
            variables |= {"RENDITIONS": "240p"} if "RENDITIONS" in variables else {}
            variables |= {"ANSWER_SECONDS": "25"}
            variables |= LOCAL_CONSOLE if folder == "console" else {}
            variables |= {"WEBHOOK_LOCAL": "true"} if folder in ("webhooks", "deliveries") else {}
            variables |= {"SHARES": LOCAL_DELIVERY_QUOTAS} if folder == "deliveries" else {}
            expected[folder] = (variables, defaults.allowed(folder))
        assert {folder: (_environment(local, folder), local.allowed(folder)) for folder in FUNCTIONS} == expected


def test_roles_are_assumed_by_lambda_only_and_have_no_inline_policies(defaults: Templates) -> None:
    for role in defaults.all("AWS::IAM::Role").values():
        (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}
        assert "Policies" not in role["Properties"]


READING = ("BatchGetItem", "Query")


def test_audit_trail_has_one_writer_that_removes_nothing(defaults: Templates) -> None:
    """The function's write has a condition that prevents the replacement of an entry. The archive keeps replaced
    objects."""
    accessing = {
        (folder, line.split()[0])
        for folder in FUNCTIONS
        for line in defaults.allowed(folder)
        if " AuditTable" in line and "CHANGES#" not in line
    }
    reading = {(folder, f"dynamodb:{action}") for folder in ("history", "undo", "reverts") for action in READING}
    assert accessing == {("audit", "dynamodb:PutItem"), ("videos", "dynamodb:Query")} | reading
    archiving = {line for folder in FUNCTIONS for line in defaults.allowed(folder) if " Archive" in line}
    assert archiving == {
        "s3:GetObject Archive/audit/*",
        "s3:ListBucket Archive",
        "s3:ListBucket Archive audit/*",
        "s3:PutObject Archive/audit/*",
        "s3:PutObject Archive/aws/lambda/*",
    }


def test_feed_has_one_writer_that_removes_nothing_and_reads_only_the_feed(defaults: Templates) -> None:
    """The writer must read the end of the feed and its recent entries."""
    accessing = {
        (folder, line.split()[0], *line.split()[2:])
        for folder in FUNCTIONS
        for line in defaults.allowed(folder)
        if " AuditTable" in line and "CHANGES#" in line
    }
    keys = ("CHANGES#*", "OWNERCHANGES#*")
    reading = {
        (folder, f"dynamodb:{action}", *keys)
        for folder in ("audit", "history", "webhooks")
        for action in ("GetItem", "Query")
    }
    appending, serving = ("audit", "dynamodb:PutItem", *keys), ("deliveries", "dynamodb:Query", *keys)
    indexing = {(folder, f"dynamodb:{action}", "CHANGES#*") for folder in SEARCHING for action in ("GetItem", "Query")}
    assert accessing == {appending, serving} | reading | indexing


def test_storage_of_functions_suffices_for_their_files(defaults: Templates) -> None:
    room = {folder: defaults.function(folder)[1].get("EphemeralStorage") for folder in FUNCTIONS}
    assert {folder: size for folder, size in room.items() if size} == {
        **{folder: {"Size": 4096} for folder in SEARCHING},
        "compactor": {"Size": 2048},
    }


def test_local_webhook_receivers_are_enabled_on_the_local_stack_only(
    local: Templates,
    defaults: Templates,
    staging: Templates,
    encrypted: Templates,
    snapstart: Templates,
    other_values: Templates,
) -> None:
    for templates in (defaults, staging, encrypted, snapstart, other_values):
        assert "WEBHOOK_LOCAL" not in json.dumps([*templates.parts().values()])
    assert json.dumps(local.parts()).count('"WEBHOOK_LOCAL": "true"') == 2


class TestEventBus:
    def test_only_the_delivery_worker_puts_to_the_event_bus(
        self, snapstart: Templates, other_values: Templates
    ) -> None:
        """The event bus is given by its name or by its ARN."""
        own = "arn:AWS::Partition:events:AWS::Region:AWS::AccountId:event-bus/changes"
        for templates, bus, arn in ((snapstart, "changes", own), (other_values, EXISTING_BUS, EXISTING_BUS)):
            lines = {(folder, line) for folder in FUNCTIONS for line in templates.allowed(folder)}
            putting = {(folder, line) for folder, line in lines if line.startswith("events:")}
            assert putting == {("deliveries", f"events:PutEvents {arn}")}
            assert _environment(templates, "deliveries")["EVENT_BUS"] == bus

    def test_deployment_without_a_named_bus_uses_none(self, defaults: Templates) -> None:
        assert not [line for line in defaults.allowed("deliveries") if line.startswith("events:")]
        assert "EVENT_BUS" not in _environment(defaults, "deliveries")


def test_recursive_calls_are_permitted_to_functions_that_continue_their_work(defaults: Templates) -> None:
    allowing = [folder for folder in FUNCTIONS if defaults.function(folder)[1].get("RecursiveLoop") == "Allow"]
    assert allowing == ["aggregates", "deliveries", "purge", "reverts"]


def test_functions_except_the_router_send_only_to_their_own_queues(defaults: Templates) -> None:
    sent = {
        folder: [line for line in defaults.allowed(folder) if line.startswith("sqs:SendMessage")]
        for folder in FUNCTIONS
    }
    assert {folder for folder, lines in sent.items() if lines} == {
        *("aggregates", "audit", "deliveries", "purge", "reverts", "stream_router", "sweeper", "webhooks"),
    }
    assert sent["purge"] == ["sqs:SendMessage PurgeQueue"]
    assert sent["reverts"] == ["sqs:SendMessage RevertsQueue"]
    assert sent["aggregates"] == ["sqs:SendMessage AggregatesQueue"]
    for folder in ("webhooks", "audit", "deliveries"):
        assert sent[folder] == ["sqs:SendMessage DeliveriesQueue"]
    assert sorted(sent["sweeper"]) == ["sqs:SendMessage AggregatesQueue", "sqs:SendMessage DeliveriesQueue"]


def _variables(folder: str) -> tuple[set[str], set[str]]:
    """Return two sets: the variables that a function's settings read, and the optional variables among them. Lambda's
    own variables are omitted."""
    settings: type[Settings] = Settings
    own: set[str] = set()
    if folder == "console":  # without code of `shared`
        handler = (ROOT / "functions" / folder / "handler.py").read_text(encoding="utf-8")
        own = set(re.findall(r'os\.environ\["(\w+)"\]', handler))
    else:
        settings = import_module(f"functions.{folder}.handler").lambda_handler.settings
    read = {name: required for name, required in settings.variables().items() if not name.startswith("AWS_")}
    return {*read, *own}, {name for name, required in read.items() if not required}


def _environment(templates: Templates, folder: str) -> Json:
    variables = templates.function(folder)[1]["Environment"]["Variables"]
    return {name: to_text(value) for name, value in variables.items()}
