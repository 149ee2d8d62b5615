"""Buckets, queues, and the events that invoke each function."""

import json
from typing import Any, cast

import pytest

from shared import schema
from shared.background.aggregates import UNITS_PER_SECOND
from shared.background.tallies import TALLIES
from shared.job_kinds import KINDS, JobKind
from shared.processing.messages import aggregates_message
from shared.processing.uploads import UPLOAD_DAYS
from shared.views.rankings import HOURS_EVERY
from shared.webhooks.quotas import ALL_SLOW, QUICK, SLOW
from tests.unit.infra.templates import Json, Templates, as_list, to_text

BUCKETS = ("Sources", "Media", "Archive", "Analytics")

VISIBILITY = {
    "ArrivalsQueue": 6 * 30,
    "ProbeQueue": 6 * 120,
    "ThumbnailsQueue": 6 * 300,
    "PurgeQueue": 6 * 120,
    "AggregatesQueue": 6 * 60,
    "TalliesQueue": 6 * 30,
    "RevertsQueue": 6 * 120,
    "DeliveriesQueue": 6 * 120,
    "TranscodeQueue": 15 * 60,
}

COUNTED = (schema.VIEW_COUNTER, schema.VIEWER, schema.RATING)
"""Entities whose stream records are counted, or show that a new hour has begun."""
CHILD_ENTITIES = (schema.CREDIT, schema.RELEASE, schema.CAPTION, schema.CHAPTERS)
AUDITED = (schema.VIDEO, schema.JOB, *CHILD_ENTITIES, schema.RATING_TOTALS, schema.PLAYLIST)
"""Entities that the audit trail records."""
WAKING = (schema.REVERT, *AUDITED, *COUNTED)


def _bucket(templates: Templates, name: str) -> Json:
    return templates.one("AWS::S3::Bucket", name)


@pytest.mark.parametrize("name", BUCKETS)
class TestEveryBucket:
    def test_bucket_is_private_and_encrypted(self, defaults: Templates, name: str) -> None:
        bucket = _bucket(defaults, name)["Properties"]
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        assert len(bucket["PublicAccessBlockConfiguration"]) == 4
        assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}

    def test_bucket_refuses_requests_without_tls(self, defaults: Templates, name: str) -> None:
        denied = [statement for statement in _bucket_policy(defaults, name) if statement["Effect"] == "Deny"]
        (statement,) = denied
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert statement["Action"] == "s3:*"
        assert [to_text(resource) for resource in statement["Resource"]] == [name, f"{name}/*"]

    def test_bucket_removes_incomplete_uploads(self, defaults: Templates, name: str) -> None:
        rule, *expiring = _bucket(defaults, name)["Properties"]["LifecycleConfiguration"]["Rules"]
        assert bool(expiring) == (name == "Analytics"), "tests/unit/infra/test_infra_archive.py tests it"
        assert (
            rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": UPLOAD_DAYS} == {"DaysAfterInitiation": 2}
        )
        moved = [{"StorageClass": "GLACIER_IR", "TransitionInDays": 90}] if name == "Archive" else None
        assert rule.get("Transitions") == moved
        assert not {"ExpirationInDays", "ExpirationDate"} & set(rule)

    def test_only_the_archive_keeps_replaced_objects(self, defaults: Templates, name: str) -> None:
        versioning = _bucket(defaults, name)["Properties"].get("VersioningConfiguration")
        assert versioning == ({"Status": "Enabled"} if name == "Archive" else None)
        rule, *_ = _bucket(defaults, name)["Properties"]["LifecycleConfiguration"]["Rules"]
        assert not [name for name in rule if name.startswith("Noncurrent")]

    def test_bucket_is_retained_on_aws_and_deleted_locally(
        self, defaults: Templates, local: Templates, name: str
    ) -> None:
        assert _bucket(defaults, name)["DeletionPolicy"] == "RetainExceptOnCreate"
        assert _bucket(defaults, name)["UpdateReplacePolicy"] == "Retain"
        assert _bucket(local, name)["DeletionPolicy"] == "Delete"

    def test_local_bucket_is_otherwise_the_same(self, defaults: Templates, local: Templates, name: str) -> None:
        assert _bucket(defaults, name)["Properties"] == _bucket(local, name)["Properties"]

    def test_bucket_name_is_a_stack_output(self, defaults: Templates, name: str) -> None:
        assert to_text(defaults.media["Outputs"][f"{name}Bucket"]["Value"]) == name


def test_every_bucket_is_tested(defaults: Templates) -> None:
    assert sorted(to_text({"Ref": id_}) for id_ in defaults.all("AWS::S3::Bucket")) == sorted(BUCKETS)


class TestArrivals:
    def test_arrivals_queue_is_notified_of_every_uploaded_file(self, defaults: Templates) -> None:
        (notification,) = _bucket(defaults, "Sources")["Properties"]["NotificationConfiguration"]["QueueConfigurations"]
        assert notification["Event"] == "s3:ObjectCreated:*"
        assert to_text(notification["Queue"]) == "ArrivalsQueue"

    def test_arrivals_queue_accepts_only_the_sources_bucket_of_this_account(self, defaults: Templates) -> None:
        (allowed,) = [
            statement for statement in _queue_policy(defaults, "ArrivalsQueue") if statement["Effect"] == "Allow"
        ]
        name = to_text(_bucket(defaults, "Sources")["Properties"]["BucketName"])
        assert name == "videos-dev-sources-AWS::AccountId-AWS::Region"
        assert allowed["Principal"] == {"Service": "s3.amazonaws.com"}
        assert allowed["Action"] == "sqs:SendMessage"
        conditions = allowed["Condition"]
        assert to_text(conditions["ArnEquals"]["aws:SourceArn"]) == f"arn:AWS::Partition:s3:::{name}"
        assert conditions["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}

    def test_queue_policy_is_created_before_the_bucket(self, defaults: Templates) -> None:
        """S3 sends a test message while it creates the bucket."""
        before = {to_text({"Ref": id_}) for id_ in _bucket(defaults, "Sources")["DependsOn"]}
        assert before == {"ArrivalsQueue", "ArrivalsQueuePolicy"}

    def test_browsers_may_upload_and_play_from_allowed_sites_and_consoles_only(
        self, defaults: Templates, other_values: Templates
    ) -> None:
        rule = _cors(defaults, "Sources")
        assert (rule["AllowedMethods"], rule["AllowedOrigins"]) == (["GET", "HEAD", "PUT"], ["*"])
        assert {"ETag", "Content-Range"} <= {*rule["ExposedHeaders"]}
        for name in ("Sources", "Media"):
            assert [*map(to_text, _cors(other_values, name)["AllowedOrigins"])] == [
                "https://films.example",
                "https://*.execute-api.AWS::Region.AWS::URLSuffix",
            ]

    def test_players_may_read_ranges_of_renditions_and_change_nothing(self, defaults: Templates) -> None:
        rule = _cors(defaults, "Media")
        assert (rule["AllowedMethods"], rule["AllowedHeaders"]) == (["GET", "HEAD"], ["*"])
        assert rule["ExposedHeaders"] == ["Accept-Ranges", "Content-Length", "Content-Range"]

    def test_archive_has_no_cors_rules(self, defaults: Templates) -> None:
        assert "CorsConfiguration" not in _bucket(defaults, "Archive")["Properties"]

    def test_deployment_needs_no_function_of_the_cdk(self, defaults: Templates, local: Templates) -> None:
        for templates in (defaults, local):
            for template in (templates.data, templates.media, templates.jobs, templates.api):
                types = {resource["Type"] for resource in template["Resources"].values()}
                assert not [name for name in types if name.startswith(("Custom::", "AWS::CloudFormation::Custom"))]


class TestPictures:
    def test_media_bucket_lets_only_the_distribution_read_only_thumbnails(self, defaults: Templates) -> None:
        (allowed,) = [statement for statement in _bucket_policy(defaults, "Media") if statement["Effect"] == "Allow"]
        assert allowed["Principal"] == {"Service": "cloudfront.amazonaws.com"}
        assert allowed["Action"] == "s3:GetObject"
        assert to_text(allowed["Resource"]) == "Media/thumbnails/*"
        source = to_text(allowed["Condition"]["StringEquals"]["AWS:SourceArn"])
        assert source == "arn:AWS::Partition:cloudfront::AWS::AccountId:distribution/Pictures"

    def test_no_other_bucket_has_external_readers(self, defaults: Templates) -> None:
        for name in ("Sources", "Archive"):
            assert [statement["Effect"] for statement in _bucket_policy(defaults, name)] == ["Deny"]

    def test_distribution_signs_its_requests(self, defaults: Templates) -> None:
        access = defaults.one("AWS::CloudFront::OriginAccessControl")["Properties"]["OriginAccessControlConfig"]
        assert (access["SigningBehavior"], access["SigningProtocol"]) == ("always", "sigv4")
        (origin,) = _distribution(defaults)["Origins"]
        assert to_text(origin["OriginAccessControlId"]) == "Access.Id"
        assert to_text(origin["DomainName"]) == "Media.RegionalDomainName"

    def test_distribution_serves_https_and_read_methods_only(self, defaults: Templates) -> None:
        behavior = _distribution(defaults)["DefaultCacheBehavior"]
        assert behavior["ViewerProtocolPolicy"] == "https-only"
        assert behavior["AllowedMethods"] == ["GET", "HEAD", "OPTIONS"]
        assert behavior["Compress"] is True

    def test_edge_caches_keep_a_purged_picture_for_at_most_a_day(self, defaults: Templates) -> None:
        policy = defaults.one("AWS::CloudFront::CachePolicy")["Properties"]["CachePolicyConfig"]
        assert (policy["MinTTL"], policy["DefaultTTL"], policy["MaxTTL"]) == (0, 86400, 86400)

    def test_players_of_allowed_sites_may_read_the_storyboard(self, defaults: Templates) -> None:
        policy = defaults.one("AWS::CloudFront::ResponseHeadersPolicy")["Properties"]["ResponseHeadersPolicyConfig"]
        assert policy["SecurityHeadersConfig"] == {"ContentTypeOptions": {"Override": True}}
        assert policy["CorsConfig"]["AccessControlAllowOrigins"] == {"Items": ["*"]}
        assert policy["CorsConfig"]["AccessControlAllowMethods"] == {"Items": ["GET", "HEAD"]}

    def test_cloudfront_names_contain_the_region(self, defaults: Templates) -> None:
        """CloudFront names are shared by all regions of an account."""
        named = [
            defaults.one("AWS::CloudFront::OriginAccessControl")["Properties"]["OriginAccessControlConfig"]["Name"],
            defaults.one("AWS::CloudFront::ResponseHeadersPolicy")["Properties"]["ResponseHeadersPolicyConfig"]["Name"],
            defaults.one("AWS::CloudFront::CachePolicy")["Properties"]["CachePolicyConfig"]["Name"],
        ]
        assert all(to_text(name).endswith("-AWS::Region") for name in named)

    def test_local_deployment_has_no_distribution(self, local: Templates) -> None:
        assert not [resource for resource in local.media["Resources"].values() if "CloudFront" in resource["Type"]]
        assert to_text(local.media["Outputs"]["MediaUrl"]["Value"]) == "http://127.0.0.1:4566/Media"


class TestQueues:
    @pytest.fixture
    def queues(self, defaults: Templates) -> dict[str, Json]:
        return {to_text({"Ref": id_}): queue["Properties"] for id_, queue in defaults.all("AWS::SQS::Queue").items()}

    def test_every_expected_queue_has_a_dead_letter_queue(self, queues: dict[str, Json]) -> None:
        assert set(queues) == {f"{name}{part}" for name in VISIBILITY for part in ("", "DeadLetters")}

    @pytest.mark.parametrize("name", VISIBILITY)
    def test_visibility_timeout_is_six_times_the_worker_timeout(self, queues: dict[str, Json], name: str) -> None:
        assert queues[name]["VisibilityTimeout"] == VISIBILITY[name]

    @pytest.mark.parametrize(
        "name", ["arrivals", "probe", "thumbnails", "purge", "aggregates", "tallies", "reverts", "deliveries"]
    )
    def test_visibility_timeout_follows_the_functions_timeout(
        self, defaults: Templates, queues: dict[str, Json], name: str
    ) -> None:
        visibility = queues[f"{name.capitalize()}Queue"]["VisibilityTimeout"]
        assert visibility >= 6 * defaults.function(name)[1]["Timeout"]

    @pytest.mark.parametrize("name", VISIBILITY)
    def test_dead_letter_queue_keeps_a_message_for_14_days_after_five_receives_or_the_fifo_maximum(
        self, queues: dict[str, Json], name: str
    ) -> None:
        policy = queues[name]["RedrivePolicy"]
        assert policy["maxReceiveCount"] == (1000 if name == "TalliesQueue" else 5)
        assert to_text(policy["deadLetterTargetArn"]) == f"{name}DeadLetters"
        assert queues[f"{name}DeadLetters"]["MessageRetentionPeriod"] == 14 * 86400
        assert queues[name]["MessageRetentionPeriod"] == 4 * 86400
        assert queues[name]["ReceiveMessageWaitTimeSeconds"] == 20

    def test_tallies_queue_is_fifo_with_one_group_per_video(self, queues: dict[str, Json]) -> None:
        in_order = {
            "FifoQueue": True,
            "ContentBasedDeduplication": True,
            "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId",
        }
        for name, queue in queues.items():
            fifo = {key: value for key, value in queue.items() if "Fifo" in key or "Deduplication" in key}
            assert fifo == (in_order if name.startswith("Tallies") else {})

    def test_queues_are_encrypted_and_refuse_requests_without_tls(
        self, defaults: Templates, queues: dict[str, Json]
    ) -> None:
        for name, queue in queues.items():
            assert queue["SqsManagedSseEnabled"] is True
            (denied,) = [statement for statement in _queue_policy(defaults, name) if statement["Effect"] == "Deny"]
            assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            assert (denied["Action"], to_text(denied["Resource"])) == ("sqs:*", name)

    def test_no_queue_policy_except_that_of_arrivals_allows_a_sender(
        self, defaults: Templates, queues: dict[str, Json]
    ) -> None:
        allowing = [
            name
            for name in queues
            if any(statement["Effect"] == "Allow" for statement in _queue_policy(defaults, name))
        ]
        assert allowing == ["ArrivalsQueue"]

    @pytest.mark.parametrize("output", ["TranscodeQueueUrl", "TranscodeQueueArn"])
    def test_queue_of_the_transcoder_is_a_stack_output(self, defaults: Templates, output: str) -> None:
        assert to_text(defaults.jobs["Outputs"][output]["Value"]) == "TranscodeQueue"


class TestWorkers:
    @pytest.mark.parametrize(
        ("folder", "batch", "concurrency", "window"),
        [
            ("arrivals", 10, None, None),
            ("probe", 1, 10, None),
            ("thumbnails", 1, 10, None),
            ("purge", 1, 5, None),
            ("aggregates", 1000, 2, 1),
            ("tallies", 10, 10, None),
            ("reverts", 1, 5, None),
            ("deliveries", 1, 10, None),
        ],
    )
    def test_workers_are_invoked_with_the_messages_of_their_queue(
        self, defaults: Templates, folder: str, batch: int, concurrency: int | None, window: int | None
    ) -> None:
        mapping = _mapping(defaults, folder)
        assert to_text(mapping.pop("EventSourceArn")) == f"{folder.capitalize()}Queue"
        mapping.pop("FunctionName")
        scaling = {"ScalingConfig": {"MaximumConcurrency": concurrency}} if concurrency else {}
        waiting = {"MaximumBatchingWindowInSeconds": window} if window else {}
        batching = {"BatchSize": batch, "FunctionResponseTypes": ["ReportBatchItemFailures"], **scaling, **waiting}
        assert mapping == batching

    def test_aggregate_workers_use_at_most_four_fifths_of_an_index_partition(self, defaults: Templates) -> None:
        workers = _mapping(defaults, "aggregates")["ScalingConfig"]["MaximumConcurrency"]
        assert workers * UNITS_PER_SECOND <= 1_000 * 4 // 5

    def test_batch_of_totals_fits_into_one_invocation(self, defaults: Templates) -> None:
        message = json.dumps(aggregates_message("v" * 36, "c" * 36, entries=True))
        # Apart from its body, a message has about 800 bytes: ids, receipt, attributes.
        assert _mapping(defaults, "aggregates")["BatchSize"] * (len(json.dumps(message)) + 800) < 6_000_000 / 4

    def test_local_workers_have_limited_concurrency(self, local: Templates) -> None:
        for folder, most in {"probe": 2, "thumbnails": 2, "deliveries": 3}.items():
            assert _mapping(local, folder)["ScalingConfig"] == {"MaximumConcurrency": most}

    @pytest.mark.parametrize("target", ["defaults", "local"])
    def test_delivery_quotas_leave_workers_free_for_other_webhooks(
        self, target: str, request: pytest.FixtureRequest
    ) -> None:
        templates: Templates = request.getfixturevalue(target)
        variables = templates.one("AWS::Lambda::Function", "Deliveries")["Properties"]["Environment"]["Variables"]
        quotas = {name: int(most) for name, most in (pair.split("=") for pair in variables["SHARES"].split(","))}
        assert set(quotas) == {QUICK, SLOW, ALL_SLOW}
        workers = _mapping(templates, "deliveries")["ScalingConfig"]["MaximumConcurrency"]
        assert min(quotas.values()) >= 1
        assert quotas[QUICK] + quotas[SLOW] < workers
        assert quotas[QUICK] + quotas[ALL_SLOW] < workers

    def test_job_quota_gives_one_owner_at_most_half_of_the_workers(self, defaults: Templates) -> None:
        variables = defaults.one("AWS::Lambda::Function", "Router")["Properties"]["Environment"]["Variables"]
        quotas = {name: int(most) for name, most in (pair.split("=") for pair in variables["SHARES"].split(","))}
        assert set(quotas) == {kind.queue for kind in KINDS.values()}
        for folder in ("probe", "thumbnails"):
            assert 1 <= quotas[folder] <= _mapping(defaults, folder)["ScalingConfig"]["MaximumConcurrency"] // 2

    @pytest.mark.parametrize(
        "kind", [kind for kind in KINDS.values() if kind.queue != "transcode"], ids=lambda kind: kind.name
    )
    def test_lease_outlasts_the_timeout_of_its_worker(self, defaults: Templates, kind: JobKind) -> None:
        timeout = defaults.one("AWS::Lambda::Function", kind.queue.capitalize())["Properties"]["Timeout"]
        assert timeout < kind.lease <= 2 * timeout

    def test_no_function_consumes_the_transcode_queue(self, defaults: Templates) -> None:
        sources = {
            to_text(mapping["Properties"]["EventSourceArn"])
            for mapping in defaults.all("AWS::Lambda::EventSourceMapping").values()
        }
        assert "TranscodeQueue" not in sources
        assert len(sources) == 9

    @pytest.mark.parametrize(
        ("name", "rate", "folder"),
        [
            ("Schedule", "1 minute", "sweeper"),
            ("RankingsSchedule", f"{HOURS_EVERY // 60} minutes", "rankings"),
            ("IndexSchedule", "1 minute", "indexer"),
            ("CompactorSchedule", "1 hour", "compactor"),
        ],
    )
    def test_schedule_invokes_its_function_without_retries(
        self, defaults: Templates, name: str, rate: str, folder: str
    ) -> None:
        rules = {to_text({"Ref": id_}): rule["Properties"] for id_, rule in defaults.all("AWS::Events::Rule").items()}
        rule = rules[name]
        assert (rule["ScheduleExpression"], rule["State"]) == (f"rate({rate})", "ENABLED")
        (target,) = rule["Targets"]
        called = {"Ref": defaults.alias(folder)}
        assert target["Arn"] == called
        assert target["RetryPolicy"] == {"MaximumRetryAttempts": 0}
        (permission,) = [
            permission["Properties"]
            for permission in defaults.all("AWS::Lambda::Permission").values()
            if permission["Properties"]["Principal"] == "events.amazonaws.com"
            and permission["Properties"]["FunctionName"] == called
        ]
        assert to_text(permission["SourceArn"]) == name

    def test_scheduled_call_that_fails_or_waits_is_not_repeated(self, defaults: Templates) -> None:
        """Lambda's asynchronous queue would retry twice, and keep a call for six hours."""
        called = [
            target["Arn"]
            for rule in defaults.all("AWS::Events::Rule").values()
            for target in rule["Properties"]["Targets"]
        ]
        configured = [config["Properties"] for config in defaults.all("AWS::Lambda::EventInvokeConfig").values()]
        assert called
        assert len(configured) == len(called)
        for alias in called:
            named = defaults.jobs["Resources"][alias["Ref"]]["Properties"]
            assert named["Name"] == "live"
            (invoke_config,) = [config for config in configured if config["FunctionName"] == named["FunctionName"]]
            assert invoke_config == {
                "FunctionName": named["FunctionName"],
                # The reference to the alias makes CloudFormation create the alias first.
                "Qualifier": {"Fn::Select": [7, {"Fn::Split": [":", alias]}]},
                "MaximumRetryAttempts": 0,
                "MaximumEventAgeInSeconds": 60,
            }


class TestStreamReaders:
    @pytest.mark.parametrize(
        ("folder", "batch", "window", "lanes"),
        [("stream_router", 50, 0, 10), ("audit", 400, 1, 1)],
        ids=["stream_router", "audit"],
    )
    def test_stream_readers_lose_no_record(
        self, defaults: Templates, folder: str, batch: int, window: int, lanes: int
    ) -> None:
        mapping = _mapping(defaults, folder)
        assert to_text(mapping.pop("EventSourceArn")) == "Table.StreamArn"
        assert to_text(mapping.pop("DestinationConfig")["OnFailure"]["Destination"]) == "Archive"
        mapping.pop("FilterCriteria")
        mapping.pop("FunctionName")
        assert mapping == {
            "BatchSize": batch,
            "MaximumBatchingWindowInSeconds": window,
            "ParallelizationFactor": lanes,
            "StartingPosition": "TRIM_HORIZON",
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "BisectBatchOnFunctionError": True,
            "MaximumRetryAttempts": 100,
            # No limit: the stream keeps records for 24 hours, and unread records must not be discarded earlier.
            "MaximumRecordAgeInSeconds": -1,
            "MetricsConfig": {"Metrics": ["EventCount"]},
        }

    def test_stream_has_two_readers_which_is_the_maximum(self, defaults: Templates) -> None:
        mappings = defaults.all("AWS::Lambda::EventSourceMapping").values()
        assert [to_text(mapping["Properties"]["EventSourceArn"]) for mapping in mappings].count("Table.StreamArn") == 2

    def test_stream_readers_are_created_after_the_role_policy(self, defaults: Templates) -> None:
        """Lambda checks the role's permissions while it creates the mapping."""
        for name in ("Router", "Audit"):
            before = defaults.one("AWS::Lambda::EventSourceMapping", name)["DependsOn"]
            assert {to_text({"Ref": id_}) for id_ in before} == {f"{name}Role", f"{name}RoleDefaultPolicy"}

    @pytest.mark.parametrize(
        ("record", "readers"),
        [
            pytest.param(("INSERT", "#META", {}), {"stream_router", "audit"}, id="a new video"),
            pytest.param(("MODIFY", "#META", {}), {"stream_router", "audit"}, id="a video changed"),
            pytest.param(("REMOVE", "#META", None), {"stream_router", "audit"}, id="a video removed"),
            pytest.param(
                ("INSERT", "JOB#probe", {"state": {"S": "queued"}}), {"stream_router", "audit"}, id="job queued"
            ),
            pytest.param(("MODIFY", "JOB#transcode.240p", {"state": {"S": "running"}}), set(), id="heartbeat"),
            pytest.param(("MODIFY", "JOB#poster", {"state": {"S": "done"}}), {"stream_router", "audit"}, id="job done"),
            pytest.param(
                ("MODIFY", "JOB#poster", {"state": {"S": "failed"}}), {"stream_router", "audit"}, id="job failed"
            ),
            pytest.param(
                ("MODIFY", "JOB#poster", {"state": {"S": "withdrawn"}}), {"stream_router", "audit"}, id="job withdrawn"
            ),
            pytest.param(("REMOVE", "JOB#poster", {"state": {"S": "done"}}), set(), id="job removed with its video"),
            pytest.param(
                ("REMOVE", "JOB#poster", {"state": {"S": "running"}}), {"stream_router"}, id="open job removed"
            ),
            pytest.param(("MODIFY", "JOBS", {"state": {"S": "queued"}}), set(), id="another key"),
        ],
    )
    def test_records_invoke_the_readers_that_need_them(
        self, defaults: Templates, record: tuple[str, str, Json | None], readers: set[str]
    ) -> None:
        name, sort_key, image = record
        assert _matching_readers(defaults, name, schema.VIDEO.pk, sort_key, image) == readers

    @pytest.mark.parametrize("name", ["INSERT", "MODIFY", "REMOVE"])
    def test_playlist_record_invokes_the_audit_and_the_router(self, defaults: Templates, name: str) -> None:
        image: Json | None = None if name == "REMOVE" else {}
        assert _matching_readers(defaults, name, schema.PLAYLIST.pk, schema.PLAYLIST.sk, image) == {
            "stream_router",
            "audit",
        }

    @pytest.mark.parametrize("entity", CHILD_ENTITIES, ids=lambda entity: entity.name)
    def test_credit_or_release_record_invokes_the_audit_unless_its_video_is_purged(
        self, defaults: Templates, entity: schema.Entity
    ) -> None:
        for name in ("INSERT", "MODIFY"):
            assert _matching_readers(defaults, name, entity.pk, entity.sk, {}) == {"audit"}
        assert _matching_readers(defaults, "REMOVE", entity.pk, entity.sk, {"removing": {"BOOL": True}}) == {"audit"}
        assert not _matching_readers(defaults, "REMOVE", entity.pk, entity.sk, {})

    def test_rating_totals_invoke_the_audit_if_imported_and_not_after_a_rating(self, defaults: Templates) -> None:
        totals = schema.RATING_TOTALS
        for name in ("INSERT", "MODIFY"):
            imported = {"updatedBy": {"S": "job:import"}}
            assert _matching_readers(defaults, name, totals.pk, totals.sk, imported) == {"audit"}
            assert not _matching_readers(defaults, name, totals.pk, totals.sk, {"updatedBy": {"S": TALLIES.subject}})
        assert not _matching_readers(defaults, "REMOVE", totals.pk, totals.sk, imported)

    @pytest.mark.parametrize("folder", ["stream_router", "audit"])
    def test_stream_readers_have_at_most_five_filters(self, defaults: Templates, folder: str) -> None:
        """AWS permits five; MiniStack accepts more."""
        assert len(_mapping(defaults, folder)["FilterCriteria"]["Filters"]) <= 5

    @pytest.mark.parametrize("entity", COUNTED, ids=lambda entity: entity.name)
    def test_stream_router_receives_inserts_and_updates_of_counted_items_but_no_removals(
        self, defaults: Templates, entity: schema.Entity
    ) -> None:
        """Items that expire or are purged have already been counted."""
        for name in ("INSERT", "MODIFY"):
            assert _matching_readers(defaults, name, entity.pk, entity.sk, {}) == {"stream_router"}
        assert not _matching_readers(defaults, "REMOVE", entity.pk, entity.sk, None)

    def test_revert_run_invokes_the_router_and_its_parts_do_not(self, defaults: Templates) -> None:
        run = schema.REVERT
        assert _matching_readers(defaults, "INSERT", run.pk, run.sk, {"state": {"S": "running"}}) == {"stream_router"}
        assert not _matching_readers(defaults, "INSERT", schema.REVERT_PART.pk, schema.REVERT_PART.sk, {})

    @pytest.mark.parametrize("name", ["INSERT", "MODIFY", "REMOVE"])
    def test_records_of_other_entities_invoke_no_stream_reader(self, defaults: Templates, name: str) -> None:
        image = None if name == "REMOVE" else {"state": {"S": "queued"}, "source": {"M": {"uploadId": {"S": "u"}}}}
        others = [entity for entity in schema.ENTITIES if entity not in WAKING]
        assert others
        assert [
            entity.name for entity in others if _matching_readers(defaults, name, entity.pk, entity.sk, image)
        ] == []


def _matching_readers(
    templates: Templates, name: str, partition_key: str, sort_key: str, image: Json | None
) -> set[str]:
    """Return the stream readers whose filter matches a record."""
    keys = {"pk": {"S": partition_key}, "sk": {"S": sort_key}}
    record: Json = {"eventName": name, "dynamodb": {"Keys": keys}}
    if image is not None:
        record["dynamodb"]["OldImage" if name == "REMOVE" else "NewImage"] = image
    return {
        folder
        for folder in ("stream_router", "audit")
        for rule in _mapping(templates, folder)["FilterCriteria"]["Filters"]
        if _matches(json.loads(rule["Pattern"]), record)
    }


def _matches(pattern: Any, value: Any) -> bool:
    """Return whether a value matches a filter pattern of Lambda. The elements of a list are alternatives, and every
    member of an object must match. Fails for rules that no filter uses."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(_matches(pattern[name], value.get(name)) for name in pattern)
    return any(_is(alternative, value) for alternative in pattern)


def _is(rule: Any, value: Any) -> bool:
    if isinstance(rule, dict):
        ((name, operand),) = rule.items()
        assert name in ("prefix", "anything-but")
        is_alike = value not in operand if name == "anything-but" else str(value).startswith(operand)
        return isinstance(value, str) and is_alike
    return bool(rule == value)


def _mapping(templates: Templates, folder: str) -> Json:
    alias = {"Ref": templates.alias(folder)}
    # A mapping refers to the alias by its ARN, or by the function's name and the alias's name.
    named = {"Fn::Join": ["", [{"Fn::Select": [6, {"Fn::Split": [":", alias]}]}, ":live"]]}
    (properties,) = (
        mapping["Properties"]
        for mapping in templates.all("AWS::Lambda::EventSourceMapping").values()
        if mapping["Properties"]["FunctionName"] in (alias, named)
    )
    return dict(properties)


def _distribution(templates: Templates) -> Json:
    return dict(templates.one("AWS::CloudFront::Distribution")["Properties"]["DistributionConfig"])


def _cors(templates: Templates, name: str) -> Json:
    """Return the only CORS rule of a bucket."""
    (rule,) = _bucket(templates, name)["Properties"]["CorsConfiguration"]["CorsRules"]
    return cast(Json, rule)


def _bucket_policy(templates: Templates, name: str) -> list[Json]:
    return [
        statement
        for policy in templates.all("AWS::S3::BucketPolicy").values()
        if to_text(policy["Properties"]["Bucket"]) == name
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def _queue_policy(templates: Templates, name: str) -> list[Json]:
    return [
        statement
        for policy in templates.all("AWS::SQS::QueuePolicy").values()
        if name in [to_text(queue) for queue in as_list(policy["Properties"]["Queues"])]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
