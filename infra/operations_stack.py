"""Operations stack: alarms, their topic and the dashboard."""

from typing import Any

import aws_cdk as cdk
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs import Construct

from infra.alarms import Alarms
from infra.api_stack import ApiStack
from infra.dashboard import OperationsDashboard
from infra.function import ServiceFunction
from infra.jobs_stack import JobsStack
from infra.media_stack import MediaStack
from infra.opensearch import SearchCluster
from infra.settings import DeploymentSettings
from infra.topic import topic_for

LATE = {
    "probe": "Uploaded videos stay in processing, because no worker probes the files",
    "thumbnails": "New videos have no poster and no storyboard",
    "transcode": "Uploaded videos stay in processing, because no transcoder creates their renditions",
    "arrivals": "Uploaded files are not attached to their videos",
    "purge": "Items and objects of deleted videos are not purged, and are still billed",
    "aggregates": "The totals of users and tags are out of date",
    "tallies": "View counts and ratings are out of date",
    "reverts": "Reverts of large change sets do not progress",
    "deliveries": "Webhooks and the event bus receive no changes",
}
"""Effect on users while the oldest job or message of a queue is too old, by name of the queue. Alarms show this text."""

LOST = {
    "probe": "A file could not be probed; its job is retried or marked as failed",
    "thumbnails": "A thumbnail could not be created; its job is retried or marked as failed",
    "transcode": "No transcoder accepted a job; the job is retried or marked as failed",
    "arrivals": "An uploaded file was not attached to its video, so the video is not processed",
    "purge": "Items and objects of a deleted video were not purged, and are still billed",
    "aggregates": "The totals of a user or a tag are wrong",
    "tallies": "The view count or the rating of a video is wrong",
    "reverts": "A change set was reverted only in part; the revert resumes after the message is redriven",
    "deliveries": "Some changes may reach a webhook only together with the next change",
}
"""Effect on users after a message has reached a dead-letter queue, by name of the main queue. Alarms show this text."""

CATALOGUE = ("videos", "views", "relations", "captions", "ratings", "playlists", "search")
"""Folders of the API functions for videos, their related data, and playlists. One alarm covers the throttling of all
these functions."""
SCHEDULED = ("sweeper", "rankings", "indexer", "compactor")
"""Folders of the scheduled functions."""
DELIVERING = ("deliveries",)
"""Folders of the functions that wait for external systems."""


class OperationsStack(cdk.Stack):
    """Alarms and dashboard of the other stacks.

    No other stack depends on this stack, so an operator can destroy and recreate it at any time.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: DeploymentSettings,
        media: MediaStack,
        cluster: SearchCluster | None,
        jobs: JobsStack,
        api: ApiStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: alarms and dashboard", **kwargs)
        self._settings = settings
        alarms = None
        if settings.alarms:
            topic = topic_for("cloudwatch.amazonaws.com", self, settings)
            alarms = self._alarms(SnsAction(topic), media, cluster, jobs, api)
            cdk.CfnOutput(self, "AlarmsTopic", description="SNS topic of the alarms", value=topic.topic_arn)
        if settings.dashboard:
            dashboard = OperationsDashboard(
                self,
                "Overview",
                settings=settings,
                alarms=alarms.all if alarms else (),
                api=api.api,
                cluster=cluster,
                functions={**_in_front(api), **jobs.functions},
                queues={"arrivals": media.arrivals_queue, **jobs.queues},
            )
            cdk.CfnOutput(self, "DashboardName", description="CloudWatch dashboard", value=dashboard.name)

    def _alarms(
        self, action: SnsAction, media: MediaStack, cluster: SearchCluster | None, jobs: JobsStack, api: ApiStack
    ) -> Alarms:
        alarms = Alarms(self, "Alarms", settings=self._settings, action=action)
        scheduled = [jobs.functions[folder] for folder in SCHEDULED]
        delivering = [jobs.functions[folder] for folder in DELIVERING]
        other_queues = (*SCHEDULED, *DELIVERING)
        workers = [function for folder, function in jobs.functions.items() if folder not in other_queues]
        alarms.watch_api(api.api)
        # Several alarms, because an alarm accepts at most ten metrics and there are more functions.
        for name, in_catalogue in (("Catalogue functions", True), ("Other API functions", False)):
            alarms.watch_functions(
                name,
                [function for folder, function in _in_front(api).items() if (folder in CATALOGUE) == in_catalogue],
                "Requests fail with 503, because the concurrency limit is reached",
            )
        for name, behind in (("Workers", workers), ("Scheduled functions", scheduled), ("Deliveries", delivering)):
            alarms.watch_functions(name, behind, "Background work is late, because the concurrency limit is reached")
        alarms.watch_tables()
        alarms.watch_schema()
        alarms.watch_stream_reader(
            jobs.functions["stream_router"],
            late="Uploaded videos stay in processing, because no jobs are created for them",
            lost="A change was not processed: a video may lack jobs, or a deleted video may not be purged",
        )
        alarms.watch_stream_reader(
            jobs.functions["audit"],
            late="The newest changes are missing from the audit trail and the feed, and are not sent to webhooks",
            lost="A change is missing from the audit trail and the feed",
        )
        for name, queue in {"arrivals": media.arrivals_queue, **jobs.queues}.items():
            alarms.watch_queue(name, queue, late=LATE[name], lost=LOST[name])
        alarms.watch_crashes(
            "Workers", workers, "A worker repeatedly crashes or times out, so uploads or counts are delayed"
        )
        alarms.watch_crashes(
            "Scheduled functions",
            scheduled,
            "A scheduled function repeatedly fails, so stuck jobs, top lists, the search index or the SQL tables are not updated",
        )
        alarms.watch_crashes(
            "Deliveries",
            delivering,
            "The delivery worker repeatedly crashes or times out, so webhooks and the event bus are delayed",
        )
        alarms.watch_deliveries()
        alarms.watch_index()
        if cluster:
            alarms.watch_cluster(cluster)
        alarms.watch_archive()
        alarms.watch_schedule(
            jobs.functions["sweeper"],
            "SweeperSilent",
            name="Sweeper does not run",
            meaning="Stuck jobs are not retried, and the alarms for old jobs have no data",
            periods=1,
        )
        alarms.watch_schedule(
            jobs.functions["rankings"],
            "RankingsSilent",
            name="Rankings do not run",
            meaning="The lists of the most viewed videos are not refreshed, and expire after two days",
            periods=3,
        )
        return alarms


def _in_front(api: ApiStack) -> dict[str, ServiceFunction]:
    """Return the functions that serve HTTP requests, by name: the API's functions and the console.

    One alarm on the API's error rate covers all of them.
    """
    return {**api.functions, "console": api.console.function}
