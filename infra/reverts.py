"""Environment and permissions of the two functions that revert changes: the API function and the worker."""

from infra import attributes
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.settings import DeploymentSettings
from shared import schema


def undo_environment(data: DataStack, settings: DeploymentSettings) -> dict[str, str]:
    """Return the environment variables with the audit table and the job quota. The quota is needed, because a restored
    video may start jobs."""
    return {"AUDIT_TABLE_NAME": data.audit_table.table_name, "JOBS_PER_DAY": str(settings.jobs_per_day)}


def allow_undo(function: ServiceFunction, data: DataStack) -> None:
    """Allow reading the audit trail and writing items that users can edit: videos, their child items, and playlists.

    The function cannot write the trail, views, ratings by users, source files or thumbnails.
    """
    function.allow_items("BatchGetItem", "Query", of=schema.TRAIL_ENTITIES, table=data.audit_table)
    function.allow_queries(*schema.AUDIT_INDEXES, table=data.audit_table)
    # Not restricted to attributes, because a role that may put items can write any attribute.
    function.allow_items(
        "BatchGetItem", "DeleteItem", "GetItem", "PutItem", "UpdateItem", of=[schema.VIDEO, schema.PLAYLIST]
    )
    function.allow_items("Query", of=[schema.VIDEO, schema.PLAYLIST])
    function.allow_items("DeleteItem", "GetItem", "PutItem", of=[schema.RESERVATION])
    function.allow_queries(schema.RELATION_INDEX)  # the videos of a folder to move
    function.allow_items(
        "UpdateItem", of=[schema.PROFILE], attributes=(*attributes.USER_PLAYLISTS, *attributes.USER_TOTALS)
    )
    function.allow_items("UpdateItem", of=[schema.QUOTA], attributes=attributes.QUOTA)
