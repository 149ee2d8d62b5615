"""`make e2e`: rehearses the life of a deployment on a separate MiniStack, from an empty account to an empty account.

The rehearsal bootstraps the account, deploys the tables with only some of their indexes, and fills them. Then it
upgrades as `make deploy` does, checks that no data was lost, and runs the end-to-end tests. It also restores a lost
table. Finally it destroys all stacks. All processes that it started end with it.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from local import KEY_FILE, ROOT, STATE, LocalError, write_private
from local.aws import Aws
from local.demo import ApiClient
from local.deployment import DEPLOY_SECONDS, Deployment, cdk, complete, context, environment
from local.issuer import USERS, Issuer, TokenSigner
from local.ministack import MiniStack
from local.run import stoppable
from local.schemas import AUDIT, TABLES, VIDEOS, Json, RecordedTable, described, present
from local.transcoder import Transcoder, TranscoderSettings
from local.upgrade_sample import (
    OWNERS,
    READER,
    DataLost,
    Snapshot,
    TableSample,
    TrailSample,
    UpgradeSample,
    require_unchanged,
    require_upgraded,
)
from shared.routes import TRANSCODE
from shared.schema import AUDIT_TABLE_NAME, TABLE_NAME

WORK = STATE / "rehearsal"
QUIET_SECONDS = 60.0
"""Maximum seconds to wait until no queue has visible messages."""
TESTS_SECONDS = 1800.0
"""Timeout of the end-to-end tests in seconds."""
GRACE_SECONDS = 20.0
"""Maximum seconds that interrupted tests may take to clean up."""


def main(arguments: Sequence[str]) -> int:
    """Run the rehearsal. `arguments` are passed to pytest. Returns the exit status."""
    return stoppable(lambda: _only(WORK, arguments))


def _only(work: Path, arguments: Sequence[str]) -> None:
    work.mkdir(parents=True, exist_ok=True)
    with (work.parent / "rehearsal.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalError("A rehearsal of this checkout is already running. Wait for its end, or stop it.") from None
        shutil.rmtree(work)  # left by a failed rehearsal
        work.mkdir()
        try:
            with _step("The rehearsal"):
                rehearse(work, arguments)
        except Exception as error:  # for any failure, keep the logs and name their folder
            if not isinstance(error, LocalError):
                traceback.print_exc()  # an error of the rehearsal itself, or of a library
            raise LocalError(f"{error}\nThe rehearsal failed; its logs are in {work}.") from error
        shutil.rmtree(work)


def rehearse(work: Path, arguments: Sequence[str]) -> None:
    """Rehearse the life of a deployment, with all files in the folder `work`. Raises LocalError at the first failure."""
    with (
        MiniStack(work / "ministack.log") as ministack,
        Issuer(0, TokenSigner(work / KEY_FILE.name), ministack.endpoint) as issuer,
    ):
        account = _Account(work, ministack.aws, issuer)
        with _step("Bootstrapping the account"):
            account.bootstrap()
        empty = account.inventory()
        older = {table: first_indexes(table) for table in TABLES}
        first = [name for names in older.values() for name in names]
        with _step(f"Deploying with all except the last two indexes of each table: {', '.join(first)}"):
            account.deploy("-c", f"indexes={','.join(first)}")
            for table, indexes in older.items():
                require_table(account.tables[table], table, indexes)
        with _step("Creating sample videos"), account.clients() as clients:
            sample = UpgradeSample(clients)
            sample.fill()
            account.items.settled(video["videoId"] for video in sample.videos)
            account.items.make_older(sample)
            before = account.items.settled([])
            entries = account.trail.settled([])
            sample.require_owners()
        with (
            _step("Upgrading, one new index per update"),
            IndexWatch(account.items, before) as watch,
            IndexWatch(account.trail, entries) as trail_watch,
        ):
            account.deploy()
        watch.require_one_by_one(older[VIDEOS], names(VIDEOS))
        trail_watch.require_one_by_one(older[AUDIT], names(AUDIT))
        with _step("Checking that no data was lost"), account.clients() as clients:
            for table in TABLES:
                require_table(account.tables[table], table, names(table))
            require_unchanged(before, account.items.snapshot())
            require_unchanged(entries, account.trail.snapshot())
            account.trail.require_change_sets(entries)
            sample.clients = clients
            sample.require_owners()
            account.reconcile(sample, before)
            at_rest = account.items.settled([])
        with _step("Running the end-to-end tests"):
            account.test(arguments)
        with _step("Comparing the deployed stacks with the templates (cdk diff)"):
            account.diff()
        with _step("Deleting the table, and restoring it from a backup with the same name"):
            kept = account.lose_and_restore()
        with _step("Deploying, so that consumers read the stream of the restored table"):
            account.deploy()
        with _step("Checking that the service still works"), account.clients() as clients:
            account.require_readers()
            # Only items from before the tests are compared. Items of the tests may still change, such as a job that
            # waits for its last attempt.
            restored = account.items.snapshot()
            require_unchanged(*({key: items[key] for key in at_rest if key in items} for items in (kept, restored)))
            title = {"title": "Made after the table was restored"}
            made = clients[OWNERS[0]].send("POST", "/v1/videos", json=title, headers={"Idempotency-Key": "restored"})
            account.items.settled([made.json()["videoId"]])
        with _step("Destroying all stacks"):
            account.destroy()
            left = account.inventory() - empty
            if left:
                raise DataLost(f"The stacks were destroyed, but these resources remain: {', '.join(sorted(left))}.")


def names(table: RecordedTable) -> list[str]:
    """Return the names of the indexes that shared/schema.py defines for a table."""
    return [index["name"] for index in present(table)["indexes"]]


def first_indexes(table: RecordedTable) -> list[str]:
    """Return the names of the indexes in the first deployment: all except the last two, which the upgrade adds."""
    return names(table)[:-2]


def require_table(items: TableSample, table: RecordedTable, indexes: Sequence[str]) -> None:
    """Raise DataLost unless the deployed table has the settings of shared/schema.py, and exactly the given indexes."""
    now = present(table)
    order = [index["name"] for index in now["indexes"]]
    deployed = described(items.description())
    deployed["indexes"].sort(key=lambda index: order.index(index["name"]))
    wanted = {name: now[name] for name in deployed}
    wanted["indexes"] = [index for index in now["indexes"] if index["name"] in indexes]
    if deployed != wanted:
        raise DataLost(f"The deployed table is {json.dumps(deployed)}, not {json.dumps(wanted)}.")


class IndexWatch:
    """Observer of a table during an upgrade. It compares all items after each change of the table's indexes."""

    def __init__(self, items: TableSample, before: Snapshot) -> None:
        self._items = items
        self._before = before
        self._seen: list[list[str]] = []
        self._failure: LocalError | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(0.2)  # after the end of the block, the loop checks once more
            indexes = self._items.indexes()
            if self._seen and self._seen[-1] == indexes:
                continue
            self._seen.append(indexes)
            try:
                require_unchanged(self._before, self._items.snapshot())
            except LocalError as error:
                self._failure = LocalError(f"While the table had {_listed(indexes)}: {error}")
                return

    def require_one_by_one(self, first: Sequence[str], last: Sequence[str]) -> None:
        """Raise LocalError unless the upgrade kept all items, and added one index at a time.

        `first` are the indexes before the upgrade, `last` the indexes after it.
        """
        if self._failure is not None:
            raise self._failure
        steps = [len(last[: len(first) + number]) for number in range(len(last) - len(first) + 1)]
        steps_seen = " -> ".join(map(_listed, self._seen))
        one_more = all(set(old) < set(new) for old, new in zip(self._seen, self._seen[1:], strict=False))
        if [len(indexes) for indexes in self._seen] != steps or not one_more or set(self._seen[-1]) != set(last):
            raise DataLost(f"Each update must add exactly one index, but the steps were {steps_seen}.")
        for indexes in self._seen:
            print(f"  {_listed(indexes)}: no data was lost", flush=True)


def _listed(indexes: Sequence[str]) -> str:
    return f"the indexes {', '.join(indexes)}" if indexes else "no index"


def tokens_of(issuer: Issuer, folder: Path) -> Json:
    """Return the settings of an issuer for the end-to-end tests: URL, tokens by user, and tokens to be rejected.

    Writes the key of an untrusted issuer to the folder.
    """
    stranger = TokenSigner(folder / "stranger.pem")
    tokens = {user: issuer.mint(user, scopes) for user, scopes in USERS.items()}
    return {
        "issuer": issuer.url,
        "tokens": tokens | {"transcoder": issuer.mint("transcoder", [TRANSCODE])},
        "badTokens": {
            "expired": issuer.mint("alice", USERS["alice"], lifetime=-1),
            "of another issuer": stranger.mint("http://127.0.0.1:9", "alice", USERS["alice"]),
            "with another key": stranger.mint(issuer.url, "alice", USERS["alice"]),
        },
    }


@dataclass
class _Account:
    """Account on MiniStack, and actions of an operator."""

    work: Path
    aws: Aws
    issuer: Issuer
    items: TableSample = field(init=False)
    trail: TrailSample = field(init=False)
    tables: Mapping[RecordedTable, TableSample] = field(init=False)

    def __post_init__(self) -> None:
        self.items = TableSample(self.aws.client("dynamodb"), TABLE_NAME)
        self.trail = TrailSample(self.aws.client("dynamodb"), AUDIT_TABLE_NAME)
        self.tables = {VIDEOS: self.items, AUDIT: self.trail}
        self._env = environment(self.aws, self.work)
        self._context = context(self.aws, self.issuer.url)
        self._log = self.work / "deploy.log"
        self._assembly = str(self.work / "cdk.out")

    def bootstrap(self) -> None:
        """Bootstrap the account as `make bootstrap` does.

        Before that, check that a deploy fails because of the missing bootstrap.
        """
        refused = self._tool("tools.deploying", *self._context)
        if refused.returncode != 1 or "make bootstrap" not in refused.stderr:
            raise LocalError(
                f"A deployment before the bootstrap must fail and name `make bootstrap`, not print: {refused.stderr}"
            )
        where = self._tool("tools.preflight").stdout.strip()
        cdk(["bootstrap", where, "--app", ""], self._env, self._log, print)

    def deploy(self, *more: str) -> None:
        """Deploy as `make deploy` does. The output is appended to the log file."""
        outputs = self.work / "outputs.json"
        arguments = [*self._context, *more, "--require-approval", "never", "--concurrency", "2"]
        arguments += ["--progress", "events", "--ci", "--no-notices", "--no-color"]
        arguments += ["--output", self._assembly, "--outputs-file", str(outputs)]
        command = [sys.executable, "-m", "tools.deploying", *arguments]
        with self._log.open("ab") as log:
            status = _status(command, self._env, DEPLOY_SECONDS, log)
        if status != 0:
            raise LocalError(f"The deployment failed. The end of {self._log}:\n{_last_lines(self._log)}")
        self.deployed = Deployment.of(outputs, "", self.issuer.url, self._log)
        complete(self.aws, Path(self._assembly), self.deployed.api_id)

    @contextmanager
    def clients(self) -> Iterator[dict[str, ApiClient]]:
        """Yield API clients by user."""
        scopes = dict.fromkeys((*OWNERS, READER), USERS["alice"]) | {"admin": USERS["admin"]}
        with ExitStack() as stack:
            made = {
                user: ApiClient(self.aws.endpoint, self.issuer.mint(user, granted)) for user, granted in scopes.items()
            }
            for client in made.values():
                stack.callback(client.close)
            yield made

    def reconcile(self, sample: UpgradeSample, before: Snapshot) -> None:
        """Upgrade older items as docs/upgrading.md says, and check that every query then returns them."""
        for arguments, status in (([], 1), (["--repair"], 0), ([], 0)):
            done = self._tool("tools", "reconcile", "--table", TABLE_NAME, *arguments)
            if done.returncode != status:
                raise LocalError(
                    f"`tools reconcile {' '.join(arguments)}` exited with {done.returncode}: {done.stdout}{done.stderr}"
                )
        sample.require_all()
        require_upgraded(before, self.items.settled([]), sample)

    def test(self, arguments: Sequence[str]) -> None:
        """Run the end-to-end tests against the deployed service."""
        service = self.work / "service.json"
        write_private(service, json.dumps(self._service(), indent=2))
        settings = TranscoderSettings(
            self.deployed.transcode_queue_url, self.aws.endpoint, self.issuer.url, str(self.work / KEY_FILE.name)
        )
        # In the order of tests/e2e/conftest.py, which starts the longest tests first; xdist would start them last.
        options = ["--no-loadscope-reorder", "-p", "local.slowest", *arguments]
        command = [sys.executable, "-m", "pytest", *options, str(ROOT / "tests" / "e2e")]
        with Transcoder(self.aws, settings, self.work / "transcoder.log"):
            status = _status(command, os.environ | {"E2E_SERVICE": str(service)}, TESTS_SECONDS)
        if status != 0:
            raise LocalError(f"The end-to-end tests failed (pytest's status is {status}).")

    def _service(self) -> Json:
        return {
            "baseUrl": self.aws.endpoint,
            **tokens_of(self.issuer, self.work),
            **self.aws.described(),
            "tableName": TABLE_NAME,
            "assembly": self._assembly,
        }

    def diff(self) -> None:
        """Raise LocalError if newly synthesised templates differ from the deployed templates."""
        # The same folder already contains the packaged functions.
        cdk(["diff", "--all", "--fail", *self._context, "--output", self._assembly], self._env, self._log, print)

    def lose_and_restore(self) -> Snapshot:
        """Delete the table, and restore it as in docs/deleted-table.md. Return the items before the deletion."""
        dynamodb = self.aws.client("dynamodb")
        kept = self.items.settled([])
        # Unlike DynamoDB, the embedded AWS makes no automatic backup of a deleted table.
        backup = dynamodb.create_backup(TableName=TABLE_NAME, BackupName="last")["BackupDetails"]["BackupArn"]
        dynamodb.delete_table(TableName=TABLE_NAME)
        dynamodb.get_waiter("table_not_exists").wait(TableName=TABLE_NAME)
        dynamodb.restore_table_from_backup(TargetTableName=TABLE_NAME, BackupArn=backup)
        dynamodb.get_waiter("table_exists").wait(TableName=TABLE_NAME)
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        dynamodb.update_table(TableName=TABLE_NAME, StreamSpecification=stream)
        return kept

    def require_readers(self) -> None:
        """Raise DataLost unless both stream consumers read the current table's stream."""
        stream = self.items.description()["LatestStreamArn"]
        mappings = self.aws.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        read = [mapping["EventSourceArn"] for mapping in mappings if "/stream/" in mapping["EventSourceArn"]]
        if read != [stream, stream]:
            raise DataLost(
                f"Both consumers must read the stream {stream}, but the streams that are read are {', '.join(read)}."
            )

    def destroy(self) -> None:
        """Destroy all stacks except the bootstrap stack.

        First wait until the queues have no visible messages, and purge the queues. Otherwise a worker could run during
        the deletion, and its log lines would create its deleted log group again. The purge is necessary, because
        retries, such as deliveries to test webhooks, may be hidden for minutes.
        """
        sqs, mappings = (
            self.aws.client("sqs"),
            self.aws.client("lambda").list_event_source_mappings()["EventSourceMappings"],
        )
        sources = [mapping["EventSourceArn"] for mapping in mappings]
        names = [arn.rpartition(":")[2] for arn in sources if ":sqs:" in arn]
        queues = [sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in names]
        deadline = time.monotonic() + QUIET_SECONDS
        while any(_has_visible_messages(sqs, queue) for queue in queues) and time.monotonic() < deadline:
            time.sleep(0.5)  # SQS sends no event when a queue is empty, so its attributes are polled
        for queue in queues:
            sqs.purge_queue(QueueUrl=queue)
        cdk(["destroy", "--all", "--force", "--app", self._assembly], self._env, self._log, print)

    def inventory(self) -> set[str]:
        """Return the names of the resources in the account that would cost money or contain data."""
        stacks = self.aws.client("cloudformation").list_stacks()["StackSummaries"]
        names = {f"stack {stack['StackName']}" for stack in stacks if stack["StackStatus"] != "DELETE_COMPLETE"}
        names |= {f"table {name}" for name in self.aws.client("dynamodb").list_tables()["TableNames"]}
        names |= {f"bucket {bucket['Name']}" for bucket in self.aws.client("s3").list_buckets()["Buckets"]}
        names |= {
            f"function {function['FunctionName']}"
            for function in self.aws.client("lambda").list_functions()["Functions"]
        }
        names |= {f"queue {url}" for url in self.aws.client("sqs").list_queues().get("QueueUrls", [])}
        names |= {f"API {api['Name']}" for api in self.aws.client("apigatewayv2").get_apis()["Items"]}
        names |= {
            f"secret {secret['Name']}" for secret in self.aws.client("secretsmanager").list_secrets()["SecretList"]
        }
        names |= {
            f"log group {group['logGroupName']}" for group in self.aws.client("logs").describe_log_groups()["logGroups"]
        }
        return names

    def _tool(self, module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEPLOY_SECONDS,
            check=False,
        )


def _has_visible_messages(sqs: Any, queue: str) -> bool:
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessages"])
    return int(answer["Attributes"]["ApproximateNumberOfMessages"]) > 0


def _status(command: Sequence[str], env: Mapping[str, str], seconds: float, log: Any = None) -> int:
    """Run a program in a separate process group, and return the exit status. Always ends the whole group."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=None if log is None else subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"`{' '.join(command[1:4])}` did not finish within {seconds:.0f} seconds.") from error
    finally:
        end_group(process)


def end_group(*processes: "subprocess.Popen[Any]", seconds: float = GRACE_SECONDS) -> None:
    """End programs and their process groups. Sends SIGINT first, because tests then clean up their resources.

    After `seconds` in total, kills the remaining processes.
    """
    for process in processes:
        if process.poll() is None:
            _signal_group(process, signal.SIGINT)
    deadline = time.monotonic() + seconds
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(deadline - time.monotonic(), 0))
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: "subprocess.Popen[Any]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError if only zombies are left
        os.killpg(process.pid, number)


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])


@contextmanager
def _step(title: str) -> Iterator[None]:
    print(f"{title} ...", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print(f"{title}: failed after {time.monotonic() - started:.1f} s", flush=True)
        raise
    print(f"{title}: done in {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
