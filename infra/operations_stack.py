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
from infra.settings import DeploymentSettings
from infra.topic import topic_for

LATE = {
    "probe": "Uploaded films stay in processing, because no worker examines them",
    "thumbnails": "Videos stay without poster and storyboard",
    "transcode": "Uploaded films stay in processing, because no transcoder makes their renditions",
    "arrivals": "Uploaded films are not added to their videos",
    "purge": "What belongs to removed videos stays, and is paid for",
    "aggregates": "The totals of users and tags are out of date",
    "tallies": "Views of viewers and ratings are not in the counts yet",
    "reverts": "Large change sets are not taken back",
    "deliveries": "Webhooks and the event bus get no changes",
}
"""Effect on users while the oldest job or message of a queue is too old, by name of the queue. Alarms show this text."""

LOST = {
    "probe": "A film could not be examined; its job is tried again or fails visibly",
    "thumbnails": "A picture could not be made; its job is tried again or fails visibly",
    "transcode": "A transcoder did not take a job; it is tried again or fails visibly",
    "arrivals": "An uploaded film was not added to its video, which stays uploaded",
    "purge": "What belongs to a removed video stays, and is paid for",
    "aggregates": "The totals of a user or a tag are wrong",
    "tallies": "The view count or the rating of a video is wrong",
    "reverts": "A change set was taken back in part; its run stays as it is until the message is moved back",
    "deliveries": "A webhook may send some changes only together with the next one",
}
"""Effect on users after a message has reached a dead-letter queue, by name of the main queue. Alarms show this text."""

CATALOGUE = ("videos", "views", "relations", "captions", "ratings", "playlists", "search")
"""Folders of the API functions for the catalogue. One alarm covers the throttling of all of them."""
SCHEDULED = ("sweeper", "rankings", "indexer")
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
        jobs: JobsStack,
        api: ApiStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: alarms and dashboard", **kwargs)
        self._settings = settings
        alarms = None
        if settings.alarms:
            topic = topic_for("cloudwatch.amazonaws.com", self, settings)
            alarms = self._alarms(SnsAction(topic), media, jobs, api)
            cdk.CfnOutput(self, "AlarmsTopic", description="Publishes alarms; subscribe here", value=topic.topic_arn)
        if settings.dashboard:
            dashboard = OperationsDashboard(
                self,
                "Overview",
                settings=settings,
                alarms=alarms.all if alarms else (),
                api=api.api,
                functions={**_in_front(api), **jobs.functions},
                queues={"arrivals": media.arrivals_queue, **jobs.queues},
            )
            cdk.CfnOutput(self, "DashboardName", description="In CloudWatch", value=dashboard.name)

    def _alarms(self, action: SnsAction, media: MediaStack, jobs: JobsStack, api: ApiStack) -> Alarms:
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
                "Requests are refused with 503, because no function is free",
            )
        for name, behind in (("Workers", workers), ("Scheduled functions", scheduled), ("Deliveries", delivering)):
            alarms.watch_functions(name, behind, "Work behind the API is late, because no function is free")
        alarms.watch_tables()
        alarms.watch_schema()
        alarms.watch_stream_reader(
            jobs.functions["stream_router"],
            late="Uploaded films stay in processing, because no jobs are made for them",
            lost="A change was never acted on: a video may lack jobs, or leave something behind that was to be removed",
        )
        alarms.watch_stream_reader(
            jobs.functions["audit"],
            late="The audit trail and the feed do not show the newest changes, and webhooks do not send them",
            lost="The audit trail and the feed lack a change",
        )
        for name, queue in {"arrivals": media.arrivals_queue, **jobs.queues}.items():
            alarms.watch_queue(name, queue, late=LATE[name], lost=LOST[name])
        alarms.watch_crashes(
            "Workers", workers, "A worker keeps crashing or timing out, so uploads or counts wait for it"
        )
        alarms.watch_crashes(
            "Scheduled functions",
            scheduled,
            "A function that runs by the clock keeps failing: stuck jobs, top lists or the search index are late",
        )
        alarms.watch_crashes(
            "Deliveries",
            delivering,
            "The worker that serves webhooks keeps crashing or timing out, so they wait for it",
        )
        alarms.watch_deliveries()
        alarms.watch_index()
        alarms.watch_schedule(
            jobs.functions["sweeper"],
            "SweeperSilent",
            name="Sweeper does not run",
            meaning="Stuck jobs stay stuck, and no other alarm reports old jobs",
            periods=1,
        )
        alarms.watch_schedule(
            jobs.functions["rankings"],
            "RankingsSilent",
            name="Rankings do not run",
            meaning="The lists of the most viewed videos are not computed any more, and expire after two days",
            periods=3,
        )
        return alarms


def _in_front(api: ApiStack) -> dict[str, ServiceFunction]:
    """Return the functions that serve HTTP requests, by name: the API's functions and the console.

    One alarm on the API's error rate covers all of them.
    """
    return {**api.functions, "console": api.console.function}
