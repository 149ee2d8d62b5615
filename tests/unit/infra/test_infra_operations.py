"""The operations templates have the alarms, topics, dashboard and cost monitor. test_runbooks.py tests the runbooks."""

import json
from functools import cache
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cloudwatch

from app import add_stacks
from infra.dashboard import cluster_graphs
from infra.opensearch import SearchCluster
from local.access_patterns import ACCESS_PATTERNS
from shared import schema
from shared.job_kinds import KINDS
from tests.unit.infra import page_tables
from tests.unit.infra.page_tables import alarms, metrics_of, of_type, operations
from tests.unit.infra.templates import ROOT, Json, Templates, as_list, settings_of, to_text

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")

INDEXES = {"VideoMetadata": schema.INDEXES, "VideoAudit": schema.AUDIT_INDEXES}
QUEUES = ("arrivals", "probe", "thumbnails", "transcode", "purge", "aggregates", "tallies", "reverts", "deliveries")


def describe_metric(metric: Json) -> str:
    """Return a metric in one line: `AWS/SQS ApproximateAgeOfOldestMessage QueueName=PurgeQueue.QueueName`."""
    named = [f"{dimension['Name']}={to_text(dimension['Value'])}" for dimension in metric["Metric"]["Dimensions"]]
    return " ".join([metric["Metric"]["Namespace"], metric["Metric"]["MetricName"], *sorted(named)])


def lines(alarm: Json) -> set[str]:
    """Return all metrics of an alarm, each in one line."""
    return {describe_metric(metric) for metric in metrics_of(alarm)}


class TestEveryAlarm:
    def test_alarm_notifies_of_its_start_and_end(self, prod: Templates) -> None:
        for alarm in alarms(prod).values():
            (topic,) = alarm["AlarmActions"]
            assert to_text(topic) == "Topic"
            assert alarm["OKActions"] == alarm["AlarmActions"]
            assert alarm.get("ActionsEnabled", True)

    def test_alarm_name_contains_the_environment(self, prod: Templates, staging: Templates) -> None:
        assert all(name.startswith("prod ") for name in alarms(prod))
        assert all(name.startswith("staging ") for name in alarms(staging))
        assert len(alarms(prod)) == len(of_type(prod, "AWS::CloudWatch::Alarm"))

    def test_alarm_describes_its_meaning_and_names_a_runbook(self, prod: Templates) -> None:
        for alarm in alarms(prod).values():
            meaning, _, runbook = alarm["AlarmDescription"].partition(". Runbook: ")
            assert meaning
            assert "." not in meaning
            assert (ROOT / runbook).is_file(), runbook

    def test_alarm_has_at_most_ten_metrics(self, prod: Templates, cost_alerts: Templates) -> None:
        """CloudWatch permits ten. The test covers all stacks, because the API's stack has the alarms that watch
        releases."""
        for templates in (prod, cost_alerts):
            every_alarm = templates.all("AWS::CloudWatch::Alarm")
            assert len(every_alarm) > len(alarms(templates))
            for id_, alarm in every_alarm.items():
                # Expressions over metrics count too.
                assert len(alarm["Properties"].get("Metrics", [alarm])) <= 10, id_

    def test_alarm_declares_the_meaning_of_missing_data(self, prod: Templates) -> None:
        bad = {name for name, alarm in alarms(prod).items() if alarm["TreatMissingData"] != "notBreaching"}
        silent = {"Sweeper does not run", "Rankings do not run", "Search index is behind", "SQL tables are behind"}
        assert bad == {f"prod {name}" for name in silent}
        assert {alarms(prod)[name]["TreatMissingData"] for name in bad} == {"breaching"}

    def test_evaluation_period_is_within_the_limit_of_cloudwatch(self, prod: Templates) -> None:
        for alarm in alarms(prod).values():
            assert max(metric["Period"] for metric in metrics_of(alarm)) * alarm["EvaluationPeriods"] <= 86400
            assert alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]


class TestAlarms:
    def test_dev_has_no_alarms_and_local_deployments_no_operations_stack(
        self, defaults: Templates, other_values: Templates, local: Templates
    ) -> None:
        assert defaults.operations is local.operations is None
        assert alarms(other_values) == {}
        assert of_type(other_values, "AWS::SNS::Topic") == of_type(other_values, "AWS::KMS::Key") == []

    def test_staging_has_the_alarms_of_prod(self, prod: Templates, staging: Templates) -> None:
        in_prod, in_staging = ({name.partition(" ")[2] for name in alarms(templates)} for templates in (prod, staging))
        assert in_prod == in_staging

    def test_error_alarm_uses_the_share_of_requests_above_a_minimum(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod API returns errors"]
        (error_rate,) = (metric["Expression"] for metric in alarm["Metrics"] if "Expression" in metric)
        assert error_rate == "IF(requests >= 5, 100 * FILL(errors, 0) / requests, 0)"
        assert lines(alarm) == {"AWS/ApiGateway Count ApiId=HttpApi", "AWS/ApiGateway 5xx ApiId=HttpApi"}
        assert {metric["Stat"] for metric in metrics_of(alarm)} == {"Sum"}

    def test_latency_alarm_uses_the_p99_and_a_minimum_of_requests(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod API is slow"]
        assert [(describe_metric(metric), metric["Stat"]) for metric in metrics_of(alarm)] == [
            ("AWS/ApiGateway Latency ApiId=HttpApi", "p99")
        ]
        assert alarm["EvaluateLowSampleCountPercentile"] == "ignore"

    def test_latency_alarm_threshold_is_below_the_function_timeout(self, prod: Templates) -> None:
        assert alarms(prod)["prod API is slow"]["Threshold"] < 1000 * prod.function("videos")[1]["Timeout"]

    def test_throttles_of_every_function_are_watched(self, prod: Templates) -> None:
        metrics = {
            line
            for name in ("Catalogue functions", "Other API functions", "Workers", "Scheduled functions", "Deliveries")
            for line in lines(alarms(prod)[f"prod {name} are throttled"])
        }
        names = {to_text({"Ref": id_}) for id_ in prod.all("AWS::Lambda::Function")}
        assert metrics == {f"AWS/Lambda Throttles FunctionName={name}" for name in names}

    def test_crashes_of_every_function_behind_the_api_are_watched(self, prod: Templates) -> None:
        jobs = prod.jobs["Resources"].items()
        names = {to_text({"Ref": id_}) for id_, resource in jobs if resource["Type"] == "AWS::Lambda::Function"}
        watched_ones = {
            line
            for name in ("Workers", "Scheduled functions", "Deliveries")
            for line in lines(alarms(prod)[f"prod {name} crash"])
        }
        assert watched_ones == {f"AWS/Lambda Errors FunctionName={name}" for name in names}

    def test_sums_treat_missing_data_as_zero(self, prod: Templates) -> None:
        """`m1 + m2` has no value if one metric has no data; SUM has a value."""
        for name in ("Workers crash", "Workers are throttled", "Table fails", "Table writes are throttled"):
            (total,) = (
                metric["Expression"] for metric in alarms(prod)[f"prod {name}"]["Metrics"] if "Expression" in metric
            )
            assert total.startswith("SUM([m0, m1, ")

    def test_index_of_60_percent_of_its_limit_raises_an_alarm(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod Search index is large"]
        assert lines(alarm) == {"VideoMetadata IndexBytes environment=prod"}
        variables = prod.function("indexer")[1]["Environment"]["Variables"]
        storage = prod.function("indexer")[1]["EphemeralStorage"]["Size"]
        assert alarm["Threshold"] == round(0.6 * int(variables["INDEX_LIMIT_BYTES"]))
        assert 2 * int(variables["INDEX_LIMIT_BYTES"]) == storage * 2**20

    @pytest.mark.parametrize("direction", ["Read", "Write"])
    @pytest.mark.parametrize(("name", "table"), [("Table", "VideoMetadata"), ("Audit table", "VideoAudit")])
    def test_throttles_of_each_table_and_its_indexes_are_watched(
        self, prod: Templates, name: str, table: str, direction: str
    ) -> None:
        metric = f"AWS/DynamoDB {direction}ThrottleEvents"
        assert lines(alarms(prod)[f"prod {name} {direction.lower()}s are throttled"]) == {
            f"{metric} TableName={table}-prod",
            *(f"{metric} GlobalSecondaryIndexName={index.name} TableName={table}-prod" for index in INDEXES[table]),
        }

    def test_errors_of_every_used_operation_are_watched(self, prod: Templates) -> None:
        used = {part for pattern in ACCESS_PATTERNS for part in pattern.operations}
        metrics = {line.split("Operation=")[1].split()[0] for line in lines(alarms(prod)["prod Table fails"])}
        assert used <= metrics

    def test_errors_of_every_operation_on_the_audit_table_are_watched(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod Audit table fails"]
        operations = {line.split("Operation=")[1].split()[0] for line in lines(alarm)}
        assert {line.split("TableName=")[1] for line in lines(alarm)} == {"VideoAudit-prod"}
        assert operations == {
            action.removeprefix("dynamodb:")
            for policy in prod.all("AWS::IAM::Policy").values()
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            for action in as_list(statement["Action"])
            if action.startswith("dynamodb:") and "AuditTable" in str([*map(to_text, as_list(statement["Resource"]))])
        }

    @pytest.mark.parametrize("reader", ["Router", "Audit"])
    def test_readers_of_the_stream_are_watched(self, prod: Templates, reader: str) -> None:
        lag, discarded = alarms(prod)[f"prod {reader} is behind"], alarms(prod)[f"prod {reader} dropped records"]
        assert lines(lag) == {f"AWS/Lambda IteratorAge FunctionName={reader}Function"}
        assert (lag["Threshold"], metrics_of(lag)[0]["Stat"]) == (5 * 60 * 1000, "Maximum")
        assert lines(discarded) == {
            f"AWS/Lambda OnFailureDestinationDeliveredEventCount EventSourceMappingUUID={reader}Records"
        }

    def test_discarded_records_are_counted_by_lambda(self, prod: Templates) -> None:
        for reader in ("Router", "Audit"):
            mapping = prod.one("AWS::Lambda::EventSourceMapping", f"{reader}Records")["Properties"]
            assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}

    @pytest.mark.parametrize("queue", QUEUES)
    def test_single_message_in_a_dead_letter_queue_raises_the_alarm(self, prod: Templates, queue: str) -> None:
        alarm = alarms(prod)[f"prod Dead letters of {queue}"]
        name = f"{queue.capitalize()}QueueDeadLetters.QueueName"
        assert lines(alarm) == {f"AWS/SQS ApproximateNumberOfMessagesVisible QueueName={name}"}
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanOrEqualToThreshold", 1)

    def test_every_queue_is_watched(self, prod: Templates) -> None:
        queues = {to_text({"Ref": id_}).removesuffix("Queue").lower() for id_ in prod.all("AWS::SQS::Queue")}
        assert {name for name in queues if not name.endswith("deadletters")} == set(QUEUES)

    @pytest.mark.parametrize(("queue", "minutes"), [("probe", 30), ("thumbnails", 30), ("transcode", 360)])
    def test_alarm_on_old_jobs_uses_the_metric_of_the_sweeper(self, prod: Templates, queue: str, minutes: int) -> None:
        alarm = alarms(prod)[f"prod Oldest job of {queue}"]
        assert lines(alarm) == {f"VideoMetadata OldestJobSeconds environment=prod queue={queue}"}
        assert (alarm["Threshold"], metrics_of(alarm)[0]["Stat"]) == (60 * minutes, "Maximum")

    @pytest.mark.parametrize(
        ("queue", "minutes"),
        [("arrivals", 15), ("aggregates", 30), ("tallies", 15), ("purge", 60), ("reverts", 60), ("deliveries", 60)],
    )
    def test_queues_without_jobs_have_an_alarm_on_old_messages(self, prod: Templates, queue: str, minutes: int) -> None:
        alarm = alarms(prod)[f"prod Oldest message of {queue}"]
        name = f"{queue.capitalize()}Queue.QueueName"
        assert lines(alarm) == {f"AWS/SQS ApproximateAgeOfOldestMessage QueueName={name}"}
        assert alarm["Threshold"] == 60 * minutes

    @pytest.mark.parametrize("queue", ["arrivals", "aggregates", "purge", "reverts", "deliveries"])
    def test_single_bad_message_does_not_count_as_an_old_one(self, prod: Templates, queue: str) -> None:
        """SQS excludes a message from the metric after three receives."""
        hidden = prod.one("AWS::SQS::Queue", _queue_id(prod, queue))["Properties"]["VisibilityTimeout"]
        assert alarms(prod)[f"prod Oldest message of {queue}"]["Threshold"] >= 3 * hidden

    def test_deliveries_delayed_by_the_service_have_an_alarm(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod Changes are delivered late"]
        assert lines(alarm) == {"VideoMetadata DeliveryWait environment=prod"}
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", 15 * 60)
        assert metrics_of(alarm)[0]["Stat"] == "Maximum"

    def test_items_of_a_newer_release_have_an_alarm(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod Items of a newer release"]
        assert lines(alarm) == {"VideoMetadata NewerItems environment=prod"}
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanOrEqualToThreshold", 1)

    def test_late_or_missing_search_index_has_an_alarm(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod Search index is behind"]
        assert lines(alarm) == {"VideoMetadata IndexLag environment=prod"}
        assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["TreatMissingData"]) == (300, 3, "breaching")

    def test_late_or_missing_sql_tables_have_an_alarm(self, prod: Templates) -> None:
        alarm = alarms(prod)["prod SQL tables are behind"]
        assert lines(alarm) == {"VideoMetadata ArchiveLag environment=prod"}
        assert metrics_of(alarm)[0]["Period"] == 3600, "the compactor runs every hour"
        assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["TreatMissingData"]) == (10800, 3, "breaching")

    @pytest.mark.parametrize(
        ("name", "function", "periods"),
        [("Sweeper does not run", "Sweeper", 1), ("Rankings do not run", "Rankings", 3)],
    )
    def test_scheduled_function_without_successes_has_an_alarm(
        self, prod: Templates, name: str, function: str, periods: int
    ) -> None:
        alarm = alarms(prod)[f"prod {name}"]
        assert lines(alarm) == {
            f"AWS/Lambda {metric} FunctionName={function}Function" for metric in ("Errors", "Invocations")
        }
        assert {metric["Stat"] for metric in metrics_of(alarm)} == {"Sum"}
        (expression,) = (metric["Expression"] for metric in alarm["Metrics"] if "Expression" in metric)
        assert expression == "calls - FILL(errors, 0)"
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (periods, periods)


def _queue_id(templates: Templates, queue: str) -> str:
    (id_,) = (id_ for id_ in templates.all("AWS::SQS::Queue") if to_text({"Ref": id_}) == f"{queue.capitalize()}Queue")
    return id_


@pytest.mark.parametrize(
    ("part", "publisher"), [("Operations", "cloudwatch.amazonaws.com"), ("Costs", "costalerts.amazonaws.com")]
)
class TestTopics:
    def test_topic_policy_allows_one_service_of_this_account_to_publish(
        self, cost_alerts: Templates, part: str, publisher: str
    ) -> None:
        (policy,) = of_type(cost_alerts, "AWS::SNS::TopicPolicy", part=part)
        statements = policy["Properties"]["PolicyDocument"]["Statement"]
        (allowed,) = [statement for statement in statements if statement["Effect"] == "Allow"]
        assert allowed["Action"] == "sns:Publish"
        assert allowed["Principal"] == {"Service": publisher}
        assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}

    def test_topics_accept_tls_only(self, cost_alerts: Templates, part: str, publisher: str) -> None:
        (policy,) = of_type(cost_alerts, "AWS::SNS::TopicPolicy", part=part)
        (denied,) = [
            statement
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Deny"
        ]
        assert (denied["Action"], denied["Principal"]) == ("sns:Publish", "*")
        assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}

    def test_topics_are_encrypted_with_a_key_that_the_service_may_use(
        self, cost_alerts: Templates, part: str, publisher: str
    ) -> None:
        (topic,), (key,) = (of_type(cost_alerts, type_, part=part) for type_ in ("AWS::SNS::Topic", "AWS::KMS::Key"))
        assert to_text(topic["Properties"]["KmsMasterKeyId"]) == "TopicKey"
        assert key["Properties"]["EnableKeyRotation"] is True
        (allowed,) = [
            statement
            for statement in key["Properties"]["KeyPolicy"]["Statement"]
            if "Service" in statement["Principal"]
        ]
        assert set(allowed["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey*"}
        assert allowed["Principal"] == {"Service": publisher}
        assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}

    def test_topics_send_to_the_address_if_one_is_given(
        self, cost_alerts: Templates, encrypted: Templates, part: str, publisher: str
    ) -> None:
        assert of_type(cost_alerts, "AWS::SNS::Subscription", part=part) == []
        (subscription,) = of_type(encrypted, "AWS::SNS::Subscription", part=part)
        properties = subscription["Properties"]
        assert (properties["Protocol"], properties["Endpoint"]) == ("email", "oncall@example.com")

    def test_topics_are_stack_outputs(self, cost_alerts: Templates, part: str, publisher: str) -> None:
        (topic,) = (value for name, value in cost_alerts.parts()[part]["Outputs"].items() if name.endswith("Topic"))
        assert to_text(topic["Value"]) == "Topic"


class TestCosts:
    def test_cost_anomalies_of_this_deployment_are_reported(self, cost_alerts: Templates) -> None:
        (monitor,), (subscription,) = (
            of_type(cost_alerts, f"AWS::CE::Anomaly{name}", part="Costs") for name in ("Monitor", "Subscription")
        )
        assert json.loads(monitor["Properties"]["MonitorSpecification"]) == {
            "Tags": {"Key": "deployment", "Values": ["VideoMetadata-prod"]}
        }
        properties = subscription["Properties"]
        assert [(subscriber["Type"], to_text(subscriber["Address"])) for subscriber in properties["Subscribers"]] == [
            ("SNS", "Topic")
        ]
        assert properties["Frequency"] == "IMMEDIATE"  # the only frequency that a topic permits
        dimension = json.loads(properties["ThresholdExpression"])["Dimensions"]
        assert (dimension["Key"], dimension["Values"]) == ("ANOMALY_TOTAL_IMPACT_ABSOLUTE", ["20"])

    def test_cost_monitor_is_absent_unless_configured(
        self, defaults: Templates, staging: Templates, prod: Templates
    ) -> None:
        """Most accounts belong to an organization, and AWS refuses the monitor in them."""
        for templates in (defaults, staging, prod):
            assert "Costs" not in templates.parts()

    def test_refused_cost_monitor_affects_no_other_stack(self, cost_alerts: Templates, prod: Templates) -> None:
        """The monitor's stack is deployed last, and the other stacks are the same with and without the monitor."""
        (*others, last) = cost_alerts.names
        assert last == "VideoMetadata-prod-Costs"
        assert others == prod.names
        assert operations(cost_alerts) == operations(prod)
        stacks = {stack.stack_name: stack for stack in _stacks()}
        assert stacks["VideoMetadata-prod-Operations"] in stacks[last].dependencies

    def test_stream_consumers_are_deployed_before_the_writers(self) -> None:
        """If a reader's old filters exclude a record, Lambda does not offer the record again after an update of the
        filters."""
        stacks = {stack.stack_name: stack for stack in _stacks()}
        assert stacks["VideoMetadata-prod-Jobs"] in stacks["VideoMetadata-prod-Api"].dependencies

    def test_cost_monitor_is_possible_without_alarms(self, other_values: Templates) -> None:
        assert of_type(other_values, "AWS::CE::AnomalyMonitor", part="Costs")
        assert not of_type(other_values, "AWS::CloudWatch::Alarm", part="Operations")

    def test_every_resource_has_the_tag(self) -> None:
        stacks = _stacks()
        assert len(stacks) == 7
        for stack in stacks:
            assert stack.tags.tag_values() == {
                "app": "VideoMetadata",
                "environment": "prod",
                "deployment": "VideoMetadata-prod",
            }

    def test_replicas_of_tables_have_the_tag(self, cost_alerts: Templates) -> None:
        """CloudFormation does not pass a stack's tags on to the replicas of a global table."""
        tables = cost_alerts.all("AWS::DynamoDB::GlobalTable").values()
        replicas = [replica for table in tables for replica in table["Properties"]["Replicas"]]
        assert len(replicas) == 2
        for replica in replicas:
            assert {tag["Key"]: tag["Value"] for tag in replica["Tags"]} == {
                "app": "VideoMetadata",
                "environment": "prod",
                "deployment": "VideoMetadata-prod",
            }


@cache
def _stacks() -> list[cdk.Stack]:
    """Return the stacks of production with a cost monitor, before synthesis."""
    defaults = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = cdk.App(context=defaults | {"aws:cdk:bundling-stacks": [], "env": "prod", "anomalyUsd": 20})
    add_stacks(app)
    return [child for child in app.node.children if isinstance(child, cdk.Stack)]


class TestDashboard:
    @pytest.fixture
    def widgets(self, prod: Templates) -> list[Json]:
        return _widgets(prod)

    def test_dashboard_exists_where_the_environment_says_so(
        self, defaults: Templates, other_values: Templates, staging: Templates, prod: Templates
    ) -> None:
        dashboards = [of_type(templates, "AWS::CloudWatch::Dashboard") for templates in (other_values, staging, prod)]
        names = [dashboard["Properties"]["DashboardName"] for (dashboard,) in dashboards]
        assert names == ["VideoMetadata-dev", "VideoMetadata-staging", "VideoMetadata-prod"]
        assert operations(prod)["Outputs"]["DashboardName"]["Value"] == "VideoMetadata-prod"
        assert defaults.all("AWS::CloudWatch::Dashboard") == {}

    def test_operations_stack_is_absent_without_alarms_and_dashboard(self, defaults: Templates) -> None:
        assert defaults.operations is None

    def test_dashboard_starts_with_instructions_and_all_alarms(self, widgets: list[Json], prod: Templates) -> None:
        assert widgets[0]["type"] == "text"
        assert "docs/operations.md" in widgets[0]["properties"]["markdown"]
        assert widgets[1]["type"] == "alarm"
        assert len(widgets[1]["properties"]["alarms"]) == len(alarms(prod))

    def test_dashboard_without_alarms_has_no_alarm_widget(self, other_values: Templates) -> None:
        assert [widget["type"] for widget in _widgets(other_values)].count("alarm") == 0

    def test_dashboard_rows_lead_from_users_to_causes_with_a_sentence_each(self, widgets: list[Json]) -> None:
        rows = [widget["properties"]["markdown"] for widget in widgets if widget["type"] == "text"][1:]
        titles = [text.partition("\n")[0] for text in rows]
        assert titles == [
            "## Users",
            "## Business",
            "## Pipeline",
            "## Webhooks and the event bus",
            "## Functions",
            "## Table",
            "## Newest errors and warnings",
        ]
        assert all(text.partition("\n")[2].endswith(".") for text in rows)

    def test_dashboard_has_a_row_of_the_search_cluster_if_there_is_one(self, other_values: Templates) -> None:
        widgets = _widgets(other_values)
        (row,) = (at for at, widget in enumerate(widgets) if "## Search cluster" in json.dumps(widget))
        graphs = [widget["properties"] for widget in widgets[row + 1 : row + 6]]
        named = {line[0] for graph in graphs for line in graph["metrics"]}
        assert named == {"VideoMetadata", "AWS/AOSS"}
        assert all(widget["type"] == "metric" for widget in widgets[row + 1 : row + 6])

    def test_graphs_of_a_domain_have_the_metrics_of_its_alarms(self) -> None:
        settings = settings_of({"searchEngine": "opensearch"})
        graphs = cluster_graphs(settings, SearchCluster(kind="domain", name="films", arn="", url=""))
        shown = {
            metric.metric_name
            for lines in graphs.values()
            for metric in lines
            if isinstance(metric, cloudwatch.Metric) and metric.namespace == "AWS/ES"
        }
        assert shown > {"5xx", "CPUUtilization", "FreeStorageSpace", "JVMMemoryPressure"}

    def test_graphs_of_a_row_are_side_by_side(self, widgets: list[Json]) -> None:
        for row in {widget["y"] for widget in widgets}:
            side_by_side = sorted((widget["x"], widget["width"]) for widget in widgets if widget["y"] == row)
            ends = [x + width for x, width in side_by_side]
            assert [x for x, _ in side_by_side] == [0, *ends[:-1]]
            assert ends[-1] <= 24

    def test_dashboard_shows_all_functions_queues_and_indexes(self, prod: Templates, widgets: list[Json]) -> None:
        metrics_by_title = {
            widget["properties"].get("title"): widget["properties"].get("metrics", []) for widget in widgets
        }
        assert len(metrics_by_title["Errors"]) == len(prod.all("AWS::Lambda::Function"))
        assert {line[-1]["label"] for line in metrics_by_title["Messages waiting"]} == set(QUEUES)
        assert len(metrics_by_title["Writes throttled"]) == len(INDEXES) + sum(map(len, INDEXES.values()))
        assert {line[-1]["label"] for line in metrics_by_title["Jobs failed"]} == KINDS.keys()

    def test_dashboard_shows_only_metrics_that_the_service_sends(self, prod: Templates, widgets: list[Json]) -> None:
        page = (ROOT / "docs" / "logs-and-metrics.md").read_text(encoding="utf-8")
        metrics = [line for widget in widgets for line in widget["properties"].get("metrics", [])]
        alarmed = [metric["Metric"] for alarm in alarms(prod).values() for metric in metrics_of(alarm)]
        names = {line[1] for line in metrics if line[0] == "VideoMetadata"}
        names |= {metric["MetricName"] for metric in alarmed if metric["Namespace"] == "VideoMetadata"}
        assert {name for name in names if f"| `{name}` |" not in page} == set()
        assert "JobsFailed" in names

    def test_dashboard_shows_the_newest_errors_of_all_functions(self, prod: Templates, widgets: list[Json]) -> None:
        query = widgets[-1]["properties"]["query"]
        assert query.count("SOURCE ") == len(prod.all("AWS::Lambda::Function"))
        assert "correlation_id" in query


def _widgets(templates: Templates) -> list[Json]:
    """Return the dashboard's widgets, without values that CloudFormation fills in."""
    (dashboard,) = of_type(templates, "AWS::CloudWatch::Dashboard")
    parts: list[Any] = dashboard["Properties"]["DashboardBody"]["Fn::Join"][1]
    body = "".join(part if isinstance(part, str) else "?" for part in parts)
    widgets: list[Json] = json.loads(body)["widgets"]
    return sorted(widgets, key=lambda widget: (widget["y"], widget["x"]))


class TestStack:
    def test_operations_stack_refers_to_the_others_and_none_refers_to_it(self, prod: Templates) -> None:
        for template in (prod.data, prod.media, prod.jobs, prod.api):
            assert "VideoMetadata-prod-Operations" not in json.dumps(template)
        assert "VideoMetadata-prod-Jobs:" in json.dumps(operations(prod))

    def test_every_queue_is_a_stack_output_for_redrive(self, defaults: Templates, local: Templates) -> None:
        for templates in (defaults, local):
            outputs = {**templates.jobs["Outputs"], **templates.media["Outputs"]}
            for queue in (name.capitalize() for name in QUEUES):
                assert to_text(outputs[f"{queue}QueueUrl"]["Value"]) == f"{queue}Queue"
                assert to_text(outputs[f"{queue}DeadLettersUrl"]["Value"]) == f"{queue}QueueDeadLetters"


class TestPage:
    def test_page_lists_every_alarm_of_the_template(self, prod: Templates) -> None:
        assert page_tables.is_current(page_tables.OPERATIONS, page_tables.alarm_table(prod)), page_tables.HINT

    def test_page_states_the_costs(self, prod: Templates) -> None:
        metrics = sum(len(metrics_of(alarm)) for alarm in alarms(prod).values())
        assert f"${metrics * 0.1:.2f} for {len(alarms(prod))} alarms with {metrics} metrics" in PAGE
