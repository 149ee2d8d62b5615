"""Each function is made as it should be, and may do exactly what it needs."""

import ast

import pytest

from tests.unit.infra.templates import ROOT, Json, Templates, as_list, plain

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
    """The line of a statement that names the attributes of its requests, and what they may ask to get back."""
    named = " ".join(sorted({name for names in attributes for name in names.split()}))
    return f"{line}: {named}" + (f" -> {returning}" if returning else "")


SEEN = "expiresAt publishAt purgeAt status userId visibility"
SUMMARY = f"{SEEN} category createdAt duration format poster title videoId"
STAMP = "schemaVersion updatedAt updatedBy updatedFor"
RELATION = "rel relId relShard relSort"
LEDGER = "seen seenUpTo tally"
QUOTA = "jobs last purgeAt schemaVersion"
VIDEO_COUNTS = "bytes deleted failed milliseconds processing ready uploaded"
JOB = f"""
    {RELATION} attempt error finishedAt inputHash lease leaseUntil output progress queuedAt sends sentAt startedAt state
    updatedAs updatedAt updatedBy updatedFor worker writeId
"""
VIDEO_VERSION = f"{STAMP} {RELATION} categoryShard poster purgeAt updatedAs version writeId"
FACTS = "audioCodec duration fileSize format frameRate origins resolution videoCodec"
"""Attributes that several roles may name; nobody who may not write whole videos may name a title or an owner in a write."""

ALLOWED = {
    "videos": {
        "dynamodb:BatchGetItem Table VIDEO#* VIEWS#*",
        "dynamodb:DeleteItem Table VIDEO#*",
        "dynamodb:GetItem Table IDEMPOTENCY#* VIDEO#* VIEWS#*",
        "dynamodb:PutItem Table IDEMPOTENCY#* VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table/index/CategoryIndex",
        "dynamodb:Query Table/index/RelationIndex",
        "dynamodb:Query Table/index/UserIdIndex",
        "dynamodb:UpdateItem Table VIDEO#*",
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "views": {
        "dynamodb:BatchGetItem Table VIEWS#*",
        "dynamodb:GetItem Table VIEWS#*",
        _only("dynamodb:BatchGetItem Table VIDEO#*", SEEN),
        _only("dynamodb:GetItem Table VIDEO#*", SEEN),
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
        _only("dynamodb:GetItem Table VIDEO#*", SEEN, "duration failure pictures source thumbnails videoId"),
        "s3:GetObject Media/renditions/*",
        "s3:GetObject Sources/*",
    },
    "history": {
        _only("dynamodb:GetItem Table VIDEO#*", SEEN),
        "dynamodb:Query AuditTable VIDEO#*",
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "relations": {
        "dynamodb:BatchGetItem Table VIDEO#*",
        "dynamodb:ConditionCheckItem Table VIDEO#*",
        "dynamodb:DeleteItem Table VIDEO#*",
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table/index/RelationIndex",
        _only("dynamodb:UpdateItem Table VIDEO#*", RELATION, "writeId"),
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "ratings": {
        _only(
            "dynamodb:BatchGetItem Table RATINGS#* VIDEO#*",
            SEEN,
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
        "dynamodb:GetItem Table TOP#*",
        _only("dynamodb:GetItem Table USER#*", VIDEO_COUNTS, "playlists"),
        "dynamodb:Query Table/index/RelationIndex",
        "secretsmanager:GetSecretValue CursorSecret",
    },
    "public": {"dynamodb:GetItem Table HEALTH"},
    "router": READS_THE_STREAM
    | {
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        _only("dynamodb:UpdateItem Table VIDEO#*", JOB, "since"),
        "dynamodb:DeleteItem Table SHARE#*",
        "dynamodb:PutItem Table SHARE#*",
        "dynamodb:Query Table SHARE#*",
        "dynamodb:UpdateItem Table SHARE#*: checkedAt jobs purgeAt schemaVersion",
        "sqs:SendMessage AggregatesQueue",
        "sqs:SendMessage ProbeQueue",
        "sqs:SendMessage PurgeQueue",
        "sqs:SendMessage ThumbnailsQueue",
        "sqs:SendMessage TalliesQueue",
        "sqs:SendMessage TranscodeQueue",
    },
    "audit": READS_THE_STREAM
    | {
        "dynamodb:PutItem AuditTable VIDEO#*",
        "s3:PutObject Archive/audit/*",
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
        _only("dynamodb:UpdateItem Table VIDEO#*", JOB, VIDEO_VERSION, "pictures", returning="ALL_NEW"),
        "s3:GetObject Sources/*",
        "s3:ListBucket Sources",
        "s3:PutObject Media/thumbnails/*",
    },
    "purge": _consumes("PurgeQueue")
    | {
        "dynamodb:BatchWriteItem Table PLAYLIST#* RATINGS#* USER#* VIDEO#*",
        "dynamodb:DeleteItem Table PLAYLIST#* VIEWS#*",
        "dynamodb:GetItem Table PLAYLIST#* VIDEO#* VIEWS#*",
        "dynamodb:Query Table PLAYLIST#* VIDEO#* VIEWS#*",
        "dynamodb:Query Table/index/RelationIndex",
        _only("dynamodb:UpdateItem Table PLAYLIST#*", "entryCount updatedAt updatedBy updatedFor version writeId"),
        "s3:DeleteObject Media/renditions/*",
        "s3:DeleteObject Media/thumbnails/*",
        "s3:DeleteObject Sources/*",
        "s3:ListBucket Media renditions/* thumbnails/*",
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
        _only("dynamodb:UpdateItem Table TAGCOUNT#*", "count tag version", STAMP, RELATION),
        _only("dynamodb:UpdateItem Table USER#*", "userId version", VIDEO_COUNTS, STAMP, RELATION),
        _only("dynamodb:UpdateItem Table VIDEO#*", VIDEO_VERSION, "tags"),
        "sqs:SendMessage AggregatesQueue",
    },
    "tallies": _consumes("TalliesQueue")
    | {
        _only("dynamodb:GetItem Table VIDEO#* VIEWS#*", SEEN, "category", LEDGER),
        f"dynamodb:PutItem Table SEEN#* VIEWS#{'?' * 36}",
        "dynamodb:Query Table SEEN#*",
        _only("dynamodb:UpdateItem Table VIDEO#*", "votes sum likes dislikes version videoId", STAMP, LEDGER),
        _only("dynamodb:UpdateItem Table VIEWS#*", "keyed watched hour schemaVersion", LEDGER),
    },
    "sweeper": {
        "dynamodb:GetItem Table VIDEO#*",
        "dynamodb:PutItem Table VIDEO#*",
        "dynamodb:Query Table VIDEO#*",
        "dynamodb:Query Table/index/RelationIndex",
        _only("dynamodb:UpdateItem Table VIDEO#*", JOB, VIDEO_VERSION, FACTS, "failure since status"),
        "sqs:SendMessage AggregatesQueue",
    },
    "rankings": {
        "dynamodb:BatchGetItem Table TOP#*",
        "dynamodb:BatchGetItem Table VIEWS#*",
        "dynamodb:GetItem Table TOP#*",
        "dynamodb:GetItem Table VIEWS#*",
        "dynamodb:PutItem Table TOP#*",
        "dynamodb:Query Table VIEWS#*",
        "dynamodb:Query Table/index/RelationIndex",
        _only("dynamodb:UpdateItem Table VIEWS#*", "calmedAt checked checkedAt folded shards"),
    },
}
"""Besides its own log. Behind an action and its resource stand the partition keys or prefixes that it must name, and
behind a colon the attributes that it may name besides the keys."""

FUNCTIONS = tuple(ALLOWED)

LISTING = {
    "CURSOR_SECRET_ARN": "CursorSecret",
    "MEDIA_BUCKET": "Media",
    "MEDIA_URL": "https://Pictures.DomainName",
}

ENVIRONMENT = {
    "videos": LISTING,
    "views": {"VIEW_WINDOW_SECONDS": "1800", "COUNT_OWN_VIEWS": "false"},
    "uploads": {"SOURCES_BUCKET": "Sources", "JOBS_PER_DAY": "500", "RENDITIONS": "1080p,720p,480p,240p"},
    "jobs": {"JOBS_PER_DAY": "500", "MEDIA_BUCKET": "Media"},
    "playback": {"MEDIA_BUCKET": "Media", "MEDIA_URL": "https://Pictures.DomainName"},
    "history": {"AUDIT_TABLE_NAME": "AuditTable", "CURSOR_SECRET_ARN": "CursorSecret"},
    "relations": LISTING,
    "ratings": {},
    "playlists": LISTING,
    "totals": LISTING,
    "public": {},
    "router": {
        "MEDIA_BUCKET": "Media",
        "SHARES": "probe=4,thumbnails=4,transcode=10",
        "PROBE_QUEUE_URL": "ProbeQueue",
        "THUMBNAILS_QUEUE_URL": "ThumbnailsQueue",
        "TRANSCODE_QUEUE_URL": "TranscodeQueue",
        "PURGE_QUEUE_URL": "PurgeQueue",
        "AGGREGATES_QUEUE_URL": "AggregatesQueue",
        "TALLIES_QUEUE_URL": "TalliesQueue",
    },
    "audit": {"AUDIT_TABLE_NAME": "AuditTable", "AUDIT_DAYS": "400", "ARCHIVE_BUCKET": "Archive"},
    "arrivals": {},
    "probe": {"RENDITIONS": "1080p,720p,480p,240p"},
    "thumbnails": {"MEDIA_BUCKET": "Media"},
    "purge": {"SOURCES_BUCKET": "Sources", "MEDIA_BUCKET": "Media", "PURGE_QUEUE_URL": "PurgeQueue"},
    "aggregates": {"AGGREGATES_QUEUE_URL": "AggregatesQueue"},
    "tallies": {},
    "sweeper": {"AGGREGATES_QUEUE_URL": "AggregatesQueue"},
    "rankings": {},
}

VARIABLES = {
    "queue_url": [
        f"{name}_QUEUE_URL" for name in ("PROBE", "THUMBNAILS", "TRANSCODE", "PURGE", "AGGREGATES", "TALLIES")
    ],
    "rendition_names": ["RENDITIONS"],
    "entry_point": [],
    "reader_memory": [],  # Lambda itself sets it
    "LambdaHandler": [],
}
"""Which variables a name of shared/core/settings.py stands for, where it is not its own in capitals."""

SIZES = {
    "router": (512, 60),
    "audit": (512, 60),
    "arrivals": (512, 30),
    "probe": (1024, 120),
    "thumbnails": (1769, 300),
    "purge": (512, 120),
    "aggregates": (512, 60),
    "tallies": (512, 30),
    "sweeper": (512, 50),
    "rankings": (1024, 240),
}
"""Megabytes and seconds; all others answer requests: 512, 28."""


def test_no_function_is_forgotten_here(aws: Templates) -> None:
    handlers = {made["Properties"]["Handler"] for made in aws.all("AWS::Lambda::Function").values()}
    assert handlers == {f"functions.{folder}.handler.lambda_handler" for folder in FUNCTIONS}


def test_every_function_and_the_gateway_have_a_log_that_ends(aws: Templates) -> None:
    """In development after two weeks."""
    groups = aws.all("AWS::Logs::LogGroup").values()
    assert [group["Properties"]["RetentionInDays"] for group in groups] == [14] * (len(FUNCTIONS) + 1)


@pytest.mark.parametrize("folder", FUNCTIONS)
class TestEveryFunction:
    def test_may_do_exactly_this(self, aws: Templates, folder: str) -> None:
        allowed = {line for line in aws.allowed(folder) if not line.startswith("logs:")}
        assert allowed == ALLOWED[folder]

    def test_writes_its_own_log_only(self, aws: Templates, folder: str) -> None:
        group = plain(aws.function(folder)[1]["LoggingConfig"]["LogGroup"])
        assert group == f"{folder.capitalize()}Logs"
        logs = {line for line in aws.allowed(folder) if line.startswith("logs:")}
        assert logs == {f"logs:CreateLogStream {group}", f"logs:PutLogEvents {group}"}

    def test_logs_json(self, aws: Templates, folder: str) -> None:
        assert aws.function(folder)[1]["LoggingConfig"]["LogFormat"] == "JSON"

    def test_has_no_wildcard_but_for_names_of_objects_and_no_scan(self, aws: Templates, folder: str) -> None:
        for statement in aws.statements(folder):
            assert not [action for action in as_list(statement["Action"]) if "*" in action or "Scan" in action]
            for resource in map(plain, as_list(statement["Resource"])):
                assert "*" not in resource.removesuffix("/*")
                assert not resource.endswith("/*") or str(statement["Action"]).count("Object")

    def test_has_no_managed_policy(self, aws: Templates, folder: str) -> None:
        role = aws.all("AWS::IAM::Role")[aws.function(folder)[1]["Role"]["Fn::GetAtt"][0]]
        assert "ManagedPolicyArns" not in role["Properties"]

    def test_has_exactly_these_settings(self, aws: Templates, folder: str) -> None:
        common = {"TABLE_NAME": "Table", "POWERTOOLS_SERVICE_NAME": folder, "POWERTOOLS_LOG_LEVEL": "INFO"}
        common |= {"ENVIRONMENT": "dev"}
        assert _environment(aws, folder) == common | ENVIRONMENT[folder]

    def test_has_the_settings_that_its_handler_reads(self, folder: str) -> None:
        """By the names of the settings that it imports."""
        variables = {
            name
            for node in ast.walk(ast.parse((ROOT / "functions" / folder / "handler.py").read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module == "shared.core.settings"
            for alias in node.names
            for name in VARIABLES.get(alias.name, (alias.name.upper(),))
        }
        assert variables | {"TABLE_NAME"} == ENVIRONMENT[folder].keys() | {"TABLE_NAME"}

    def test_runs_python_313_on_arm_untraced(self, aws: Templates, folder: str) -> None:
        properties = aws.function(folder)[1]
        assert (properties["Runtime"], properties["Architectures"]) == ("python3.13", ["arm64"])
        assert (properties["MemorySize"], properties["Timeout"]) == SIZES.get(folder, (512, 28))
        assert "TracingConfig" not in properties

    def test_carries_ffmpeg_only_if_it_reads_films(self, aws: Templates, folder: str) -> None:
        code = aws.function(folder)[1]["Code"]
        assert (code == aws.function("thumbnails")[1]["Code"]) == (folder in ("probe", "thumbnails"))
        assert (code == aws.function("videos")[1]["Code"]) == (folder not in ("probe", "thumbnails"))


@pytest.mark.parametrize("folder", FUNCTIONS)
def test_has_the_same_settings_locally_but_for_what_a_laptop_needs(
    aws: Templates, local: Templates, folder: str
) -> None:
    expected = _environment(aws, folder)
    expected |= {"MEDIA_URL": "http://127.0.0.1:4566/Media"} if "MEDIA_URL" in expected else {}
    expected |= {"RENDITIONS": "240p"} if "RENDITIONS" in expected else {}
    expected |= {"ANSWER_SECONDS": "25"}
    assert _environment(local, folder) == expected
    assert local.allowed(folder) == aws.allowed(folder)


def test_only_lambda_takes_the_roles_and_all_else_is_denied(aws: Templates) -> None:
    for role in aws.all("AWS::IAM::Role").values():
        (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}
        assert "Policies" not in role["Properties"]


def test_the_audit_trail_has_one_writer_that_removes_nothing(aws: Templates) -> None:
    """The condition in the code keeps a put from replacing an entry; in the archive the previous version stays."""
    touching = {
        (folder, line.split()[0]) for folder in FUNCTIONS for line in aws.allowed(folder) if " AuditTable" in line
    }
    assert touching == {("audit", "dynamodb:PutItem"), ("history", "dynamodb:Query")}
    archiving = {line for folder in FUNCTIONS for line in aws.allowed(folder) if " Archive" in line}
    assert archiving == {
        "s3:ListBucket Archive",
        "s3:PutObject Archive/audit/*",
        "s3:PutObject Archive/aws/lambda/*",
    }


def test_lambda_stops_no_function_that_continues_by_itself(aws: Templates) -> None:
    allowing = [folder for folder in FUNCTIONS if aws.function(folder)[1].get("RecursiveLoop") == "Allow"]
    assert allowing == ["purge", "aggregates"]


def test_others_than_the_router_send_messages_to_one_queue_only(aws: Templates) -> None:
    sent = {
        folder: [line for line in aws.allowed(folder) if line.startswith("sqs:SendMessage")] for folder in FUNCTIONS
    }
    assert [folder for folder, lines in sent.items() if lines] == ["router", "purge", "aggregates", "sweeper"]
    assert sent["purge"] == ["sqs:SendMessage PurgeQueue"]
    assert sent["aggregates"] == sent["sweeper"] == ["sqs:SendMessage AggregatesQueue"]


def _environment(templates: Templates, folder: str) -> Json:
    variables = templates.function(folder)[1]["Environment"]["Variables"]
    return {name: plain(value) for name, value in variables.items()}
