"""Checks the prose of docstrings, of the OpenAPI document and of test names: words, sentence length, unique class names.

`make lint` runs it. `CONTRIBUTING.md` lists the rules.
"""

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from local import ROOT
from shared.openapi.document import document

CLEAN: tuple[str, ...] = (
    "bench",
    "functions/audit",
    "functions/history",
    "functions/aggregates",
    "functions/arrivals",
    "functions/captions",
    "functions/console",
    "functions/deliveries",
    "functions/indexer",
    "functions/jobs",
    "functions/playback",
    "functions/playlists",
    "functions/probe",
    "functions/public",
    "functions/purge",
    "functions/rankings",
    "functions/ratings",
    "functions/relations",
    "functions/reverts",
    "functions/search",
    "functions/stream_router",
    "functions/sweeper",
    "functions/tallies",
    "functions/thumbnails",
    "functions/totals",
    "functions/undo",
    "functions/uploads",
    "functions/videos",
    "functions/views",
    "functions/webhooks",
    "infra/alarms.py",
    "infra/api_stack.py",
    "infra/attributes.py",
    "infra/console.py",
    "infra/costs_stack.py",
    "infra/dashboard.py",
    "infra/data_stack.py",
    "infra/encryption.py",
    "infra/subscriptions.py",
    "infra/function.py",
    "infra/gateway.py",
    "infra/identity.py",
    "infra/jobs_stack.py",
    "infra/media_stack.py",
    "infra/metrics.py",
    "infra/nag.py",
    "infra/operations_stack.py",
    "infra/packaging.py",
    "infra/queue.py",
    "infra/release.py",
    "infra/retention.py",
    "infra/scheduled.py",
    "infra/search.py",
    "infra/site.py",
    "infra/topic.py",
    "infra/reverts.py",
    "local/__init__.py",
    "local/assembly.py",
    "local/aws.py",
    "local/browser.py",
    "local/checks.py",
    "local/child.py",
    "local/console.py",
    "local/demo.py",
    "local/deployment.py",
    "local/restore_drill.py",
    "local/engine.py",
    "local/events.py",
    "local/guard.py",
    "local/guide.py",
    "local/issuer.py",
    "local/journal.py",
    "local/ministack.py",
    "local/mint.py",
    "local/mutants.py",
    "local/ports.py",
    "local/prebuilt.py",
    "local/prose.py",
    "local/queries.py",
    "local/readme.py",
    "local/rehearsal.py",
    "local/rie.py",
    "local/run.py",
    "local/sam.py",
    "local/upgrade_sample.py",
    "local/sample_videos.py",
    "local/schemas.py",
    "local/screenshots.py",
    "local/slowest.py",
    "local/soak.py",
    "local/templates.py",
    "local/testbed/__init__.py",
    "local/testbed/audited.py",
    "local/testbed/background.py",
    "local/testbed/calls.py",
    "local/testbed/counted_views.py",
    "local/testbed/deliveries.py",
    "local/testbed/feed_changes.py",
    "local/testbed/meter.py",
    "local/testbed/streams.py",
    "local/testbed/units.py",
    "local/testbed/wire.py",
    "local/toolbox.py",
    "local/tour.py",
    "local/transcoder.py",
    "local/example_data.py",
    "openapi",
    "shared/aws/__init__.py",
    "shared/aws/boto3_client.py",
    "shared/aws/expressions.py",
    "shared/aws/failures.py",
    "shared/aws/idempotency.py",
    "shared/aws/lean",
    "shared/aws/leases.py",
    "shared/aws/messages.py",
    "shared/aws/pages.py",
    "shared/aws/quotas.py",
    "shared/aws/records.py",
    "shared/aws/runtime.py",
    "shared/aws/s3.py",
    "shared/aws/secrets.py",
    "shared/aws/sqs.py",
    "shared/aws/stream.py",
    "shared/captions/__init__.py",
    "shared/captions/cues.py",
    "shared/captions/embedded_store.py",
    "shared/captions/languages.py",
    "shared/captions/lines.py",
    "shared/captions/embedded.py",
    "shared/captions/cue_text.py",
    "shared/captions/parser.py",
    "shared/captions/store.py",
    "shared/captions/subrip.py",
    "shared/captions/webvtt.py",
    "shared/core/__init__.py",
    "shared/core/attributes.py",
    "shared/core/caller.py",
    "shared/core/change_types.py",
    "shared/core/changes.py",
    "shared/core/checks.py",
    "shared/core/deadline.py",
    "shared/core/fields.py",
    "shared/core/limits.py",
    "shared/core/periods.py",
    "shared/core/position.py",
    "shared/core/request_usage.py",
    "shared/core/regions.py",
    "shared/core/settings.py",
    "shared/core/telemetry.py",
    "shared/core/text.py",
    "shared/entities.py",
    "shared/feed/__init__.py",
    "shared/feed/change.py",
    "shared/feed/reader.py",
    "shared/processing/__init__.py",
    "shared/processing/arrivals.py",
    "shared/processing/job_states.py",
    "shared/processing/job_events.py",
    "shared/processing/job_store.py",
    "shared/processing/messages.py",
    "shared/processing/models.py",
    "shared/processing/playback.py",
    "shared/processing/daily_quota.py",
    "shared/processing/readiness.py",
    "shared/processing/concurrency.py",
    "shared/processing/desired_jobs.py",
    "shared/processing/worker.py",
    "shared/history",
    "shared/job_kinds.py",
    "shared/media/__init__.py",
    "shared/media/errors.py",
    "shared/media/source_video.py",
    "shared/media/frames.py",
    "shared/media/poster.py",
    "shared/media/probe.py",
    "shared/media/reader.py",
    "shared/media/results.py",
    "shared/media/sandbox.py",
    "shared/media/scenes.py",
    "shared/media/source.py",
    "shared/media/storyboard.py",
    "shared/media/subtitles.py",
    "shared/media/transcode.py",
    "shared/openapi",
    "shared/queries.py",
    "shared/relations/__init__.py",
    "shared/relations/item_store.py",
    "shared/relations/children.py",
    "shared/relations/credits.py",
    "shared/relations/models.py",
    "shared/relations/entry_updates.py",
    "shared/relations/playlist_entries.py",
    "shared/relations/playlists.py",
    "shared/relations/ranks.py",
    "shared/relations/ratings.py",
    "shared/routes.py",
    "shared/schema.py",
    "shared/search/__init__.py",
    "shared/search/builder.py",
    "shared/search/engine.py",
    "shared/search/loader.py",
    "shared/search/video_search.py",
    "shared/search/consumer.py",
    "shared/search/generations.py",
    "shared/search/local_index.py",
    "shared/search/query_parser.py",
    "shared/search/tokenizer.py",
    "shared/threads.py",
    "shared/background/__init__.py",
    "shared/background/aggregates.py",
    "shared/background/comparison.py",
    "shared/background/ledger.py",
    "shared/background/purge.py",
    "shared/background/stream_router.py",
    "shared/background/tallies.py",
    "shared/background/totals.py",
    "shared/background/view_comparison.py",
    "shared/video_fields.py",
    "shared/videos/__init__.py",
    "shared/videos/access.py",
    "shared/videos/batch_models.py",
    "shared/videos/batches.py",
    "shared/videos/store.py",
    "shared/videos/checks.py",
    "shared/videos/counters.py",
    "shared/videos/documents.py",
    "shared/videos/links.py",
    "shared/videos/lists.py",
    "shared/videos/models.py",
    "shared/videos/prebuilt.py",
    "shared/videos/tags.py",
    "shared/videos/video.py",
    "shared/views",
    "shared/web/__init__.py",
    "shared/web/responses.py",
    "shared/web/bodies.py",
    "shared/web/cursors.py",
    "shared/web/etags.py",
    "shared/web/http.py",
    "shared/web/error_messages.py",
    "shared/web/paging.py",
    "shared/web/prebuilt_model.py",
    "shared/web/requests.py",
    "shared/web/server_timing.py",
    "shared/webhooks/__init__.py",
    "shared/webhooks/address.py",
    "shared/webhooks/attempt.py",
    "shared/webhooks/event_bus.py",
    "shared/webhooks/transport.py",
    "shared/webhooks/delivery.py",
    "shared/webhooks/event.py",
    "shared/webhooks/models.py",
    "shared/webhooks/delivery_state.py",
    "shared/webhooks/quotas.py",
    "shared/webhooks/retry_schedule.py",
    "shared/webhooks/signing.py",
    "shared/webhooks/store.py",
    "tests/unit/test_advisories.py",
    "tests/unit/test_guide.py",
    "tests/unit/test_prose.py",
    "tools",
)
"""Folders, files and `openapi` that obey the rules. The list is dropped once it contains everything."""
PRODUCT = ("shared", "functions", "infra")
"""Folders in which no two classes have the same name."""
MAX_WORDS = 25

_FIRST = re.compile(r"(what|who|whose|whom|how|where|when|which|those|of|as|behind)\b", re.IGNORECASE)
_PHRASE = re.compile(
    r"\b(anew|by itself|by themselves|for good|but for|all but|nothing but|none but|is told|are told|side by side"
    r"|of (?:its|their|his|her|our) own|those (?:that|who|of)|the one that|the ones that|that of|left alone|set aside"
    r"|somebody|nobody|everybody|whoever|whom|likewise|besides|meanwhile|shall|what (?:is|was|has|came|became))\b",
    re.IGNORECASE,
)
_TEST_NAME = re.compile(r"test_(it|they|or|but|also|so|what|who|nor|and)(_|$)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")
_CODE = re.compile(r"```.*?```|>>> .*?(?=\n\s*\n|\Z)|`[^`]*`|\S+://\S+", re.DOTALL)


def faults(text: str) -> Iterator[str]:
    """Yield the faults of a docstring, a summary or a description."""
    text = _CODE.sub("code", text.strip())
    if match := _FIRST.match(text):
        yield f'begins with "{match[0]}"'
    yield from (f'"{match[0]}"' for match in _PHRASE.finditer(" ".join(text.split())))
    for sentence in _SENTENCE.split(text):
        words = re.findall(r"[\w'-]*\w", sentence)
        if len(words) > MAX_WORDS:
            yield f"a sentence of {len(words)} words: {' '.join(words[:8])} ..."


def faults_of_module(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and fault for each docstring, attribute doc and test name of a module."""
    waiting: list[ast.Module | ast.stmt] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Module() | ast.ClassDef():
                waiting += node.body
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                waiting += node.body
                if _TEST_NAME.match(node.name):
                    yield node.lineno, f"the name {node.name} is no complete claim"
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from ((node.lineno, fault) for fault in faults(text))


def faults_of_document() -> Iterator[tuple[str, str]]:
    """Yield operation and fault for each summary and description of the OpenAPI document."""
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            for text in (operation.get("summary", ""), operation.get("description", "")):
                yield from ((f"{method.upper()} {path}", fault) for fault in faults(text))


def check(root: Path = ROOT, clean: tuple[str, ...] = CLEAN) -> Iterator[str]:
    """Yield a line for each fault in these folders and files, and in the OpenAPI document if `openapi` is listed."""
    classes = []
    for name in clean:
        for file in sorted((root / name).rglob("*.py")) or [root / name] if name != "openapi" else ():
            source, path = file.read_text(encoding="utf-8"), file.relative_to(root).as_posix()
            yield from (f"{path}:{line}: {fault}" for line, fault in faults_of_module(source))
            if path.startswith(PRODUCT):
                classes += [(name, path) for name in re.findall(r"^class ([A-Za-z]\w*)", source, re.MULTILINE)]
    for (name, path), (following, other) in pairwise(sorted(classes)):
        if name == following:
            yield f"{other}: the class name {name} is also in {path}"
    if "openapi" in clean:
        yield from (f"{operation}: {fault}" for operation, fault in faults_of_document())


def main() -> int:
    """Print all faults, and return the exit status."""
    found = [*check()]
    print("\n".join([*found, f"{len(found)} faults of prose in {len(CLEAN)} packages"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
