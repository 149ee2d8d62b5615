"""The audit trail's writer, a reader of the table's stream. Its role may add entries and objects, and nothing else."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shared.attributes import Item
from shared.audit import Archive, AuditStore, entry
from shared.dynamodb import Table, make_client
from shared.objects import Objects
from shared.objects import make_client as make_s3_client
from shared.settings import LambdaHandler, archive_bucket, audit_days, audit_table_name, entry_point
from shared.stream import Record, process


def make(store: AuditStore, archive: Archive, days: int) -> LambdaHandler:
    """The handler over a store and an archive; the store keeps an entry for so many days."""

    def handle(event: dict[str, Any], _: LambdaContext) -> dict[str, Any]:
        done: list[Item] = []

        def keep(record: Record) -> None:
            found = entry(record, days)
            if found:
                store.add(found)
                done.append(found)

        answer = process(event, keep)
        # Only what is done, and last: when this fails, Lambda delivers all of it again.
        archive.write(done)
        return answer

    return handle


def _deployed() -> LambdaHandler:
    store = AuditStore(Table(audit_table_name(), make_client()))
    return make(store, Archive(Objects(make_s3_client()), archive_bucket()), audit_days())


lambda_handler = entry_point(_deployed)
