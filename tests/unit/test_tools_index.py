"""`python -m tools index`: rebuilds that wait for other builders and resume after interruptions, and the status."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from local.testbed.harness import MEDIA_BUCKET, Clock
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.feed import log
from shared.feed.log import DAYS_KEPT
from shared.search import builder
from shared.search.document import FORM, IndexLimits
from shared.search.generations import LEASE_SECONDS, GenerationPointer, Generations, SizeSample
from tests.indexed import IndexedService
from tools import ToolError
from tools.index import bucket_of, rebuild, require_bucket, size_lines, status
from tools.progress import Bars


@pytest.fixture
def service(table: Table, objects: Objects, clock: Clock) -> IndexedService:
    """Return the service with its background work."""
    return IndexedService(table, objects, clock)


def run_rebuild(service: IndexedService, folder: Path) -> int:
    """Run `python -m tools index rebuild`, and return the number of indexed videos. Its waits advance the clock."""
    return rebuild(
        service.table,
        service.feed,
        service.objects,
        MEDIA_BUCKET,
        folder,
        bars=Bars(),
        sleep=service.clock.advance,
        clock=service.clock,
    )


def index_status(service: IndexedService) -> str:
    """Return the output of `python -m tools index status`."""
    return "\n".join(status(service.table, service.feed, service.clock))


class TestRebuild:
    def test_rebuild_indexes_all_videos_even_if_an_index_exists(self, service: IndexedService, tmp_path: Path) -> None:
        service.publish_video("Apples")
        assert run_rebuild(service, tmp_path / "one") == 1
        service.publish_video("Pears")
        assert run_rebuild(service, tmp_path / "two") == 2

    def test_rebuild_waits_for_another_builder(self, service: IndexedService, tmp_path: Path) -> None:
        service.publish_video("Apples")
        begun = service.clock.now
        assert service.generations.lease()
        assert run_rebuild(service, tmp_path / "one") == 1
        assert service.clock.now >= begun + LEASE_SECONDS

    @pytest.mark.slow
    def test_interrupted_rebuild_resumes(
        self, service: IndexedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(builder, "PAGE", 1)
        monkeypatch.setattr(builder, "SAVED_EVERY", 4)
        video_ids = [service.publish_video(f"Film {number}") for number in range(6)]
        with mock.patch.object(Generations, "publish", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            run_rebuild(service, tmp_path / "one")
        assert "A rebuild started at 2025-06-15 15:06:" in index_status(service)
        with mock.patch.object(builder, "read_video_ids", wraps=builder.read_video_ids) as read_ids:
            assert run_rebuild(service, tmp_path / "two") == len(video_ids)
        first = read_ids.call_args_list[0].args[1]
        assert first.source > 0 or first.after


class TestStatus:
    def test_status_reports_a_missing_index(self, service: IndexedService) -> None:
        assert index_status(service) == "No index has been published yet."

    @pytest.mark.parametrize(
        ("sizes", "line"),
        [
            ((), "It has 20.0 % of its maximum size. Its growth is known after a day."),
            ([SizeSample(0, 400_000_000)], "It has 20.0 % of its maximum size, and does not grow."),
            (
                [SizeSample(0, 300_000_000)],
                "It has 20.0 % of its maximum size, and grows by 10.0 MB a day: it is full in 160 days.",
            ),
        ],
    )
    def test_status_has_the_use_of_the_index_and_the_days_until_it_is_full(
        self, sizes: Sequence[SizeSample], line: str
    ) -> None:
        pointer = GenerationPointer(
            bytes=400_000_000, published_at=10 * 86_400, sizes=sizes, limits=IndexLimits(2_000_000_000)
        )
        assert size_lines(pointer) == [line]
        assert size_lines(replace(pointer, limits=IndexLimits())) == []

    def test_status_shows_the_generation_and_the_pending_changes(self, service: IndexedService, tmp_path: Path) -> None:
        video_id = service.publish_video("Apples")
        run_rebuild(service, tmp_path / "one")
        generation = service.generations.pointer().generation
        assert index_status(service).startswith(f"Generation {generation}: 1 videos, ")
        assert index_status(service).endswith("\nNo changes are pending.")
        service.patch(video_id, title="Pears")
        service.patch(video_id, title="Plums")
        assert (
            "\n2 changes of all kinds are pending; the index contains all changes until 2025-06-15 15:0"
            in index_status(service)
        )

    def test_status_reports_an_index_of_another_format(
        self, service: IndexedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_rebuild(service, tmp_path / "one")
        assert "Its format version" not in index_status(service)
        monkeypatch.setattr("shared.search.generations.FORM", FORM + 1)
        assert f"Its format version is {FORM}, and this release requires" in index_status(service)

    def test_status_reports_a_lease_and_expired_changes(
        self, service: IndexedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "LARGEST_TAIL", 300)
        video_id = service.publish_video("Apples")
        run_rebuild(service, tmp_path / "one")
        for number in range(9):
            service.patch(video_id, title=f"Apples {number}")
        service.clock.advance((DAYS_KEPT + 1) * 86_400)
        service.patch(video_id, title="Pears")
        assert service.generations.lease()
        output = index_status(service)
        assert "10 changes are pending, and the next ones have expired: the index will be rebuilt." in output
        assert "A builder holds the lease until 2025-07-16 " in output


class TestBucket:
    @pytest.mark.parametrize(
        ("table", "stack"),
        [("VideoMetadata", "VideoMetadata-dev-Media"), ("VideoMetadata-prod", "VideoMetadata-prod-Media")],
    )
    def test_bucket_is_that_of_the_tables_deployment(self, table: str, stack: str) -> None:
        client = mock.Mock()
        outputs = [{"OutputKey": "MediaBucket", "OutputValue": "pictures"}]
        client.describe_stacks.return_value = {"Stacks": [{"Outputs": outputs}]}
        assert bucket_of(table, client) == "pictures"
        client.describe_stacks.assert_called_once_with(StackName=stack)

    def test_missing_bucket_is_named_with_the_fix(self, objects: Objects) -> None:
        require_bucket(MEDIA_BUCKET, objects.client)
        message = "The bucket nope cannot be read: it does not exist. Name the media bucket with --bucket."
        with pytest.raises(ToolError) as raised:
            require_bucket("nope", objects.client)
        assert str(raised.value) == message

    @pytest.mark.parametrize(
        ("error", "why"),
        [
            (ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadBucket"), "Forbidden"),
            (ParamValidationError(report="Invalid bucket name"), "the name is not valid"),
        ],
    )
    def test_unreadable_bucket_is_reported_with_the_reason(self, error: Exception, why: str) -> None:
        client = mock.Mock()
        client.head_bucket.side_effect = error
        with pytest.raises(ToolError, match=f"The bucket other cannot be read: .*{why}"):
            require_bucket("other", client)

    def test_bucket_option_is_required_for_a_table_without_a_deployment(self) -> None:
        client = mock.Mock()
        client.describe_stacks.return_value = {"Stacks": [{}]}
        with pytest.raises(ToolError, match="Name the bucket with --bucket"):
            bucket_of("VideoMetadata", client)
        client.describe_stacks.side_effect = ClientError({"Error": {"Code": "ValidationError"}}, "DescribeStacks")
        with pytest.raises(ToolError, match="Name the bucket with --bucket"):
            bucket_of("VideoMetadata", client)
