"""What taking changes back takes and may do: by a request, and by the worker that goes on with what is too much for one."""

from infra import attributes
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.settings import Settings
from shared import schema


def undo_environment(data: DataStack, settings: Settings) -> dict[str, str]:
    """The variables by which a function finds the trail, and knows what restoring a video may cost its owner."""
    return {"AUDIT_TABLE_NAME": data.audit_table.table_name, "JOBS_PER_DAY": str(settings.jobs_per_day)}


def allow_undo(function: ServiceFunction, data: DataStack) -> None:
    """Read the trail, and write what people may write, to set it back: videos, what lies beside them, and playlists.

    It cannot write the trail, views, users' ratings, films or pictures.
    """
    function.allow_items("BatchGetItem", "Query", of=schema.TRAIL_ENTITIES, table=data.audit_table)
    function.allow_queries(*schema.AUDIT_INDEXES, table=data.audit_table)
    # Whole videos and playlists: a list of attributes would restrict nobody who may put items beside them.
    function.allow_items(
        "BatchGetItem", "DeleteItem", "GetItem", "PutItem", "UpdateItem", of=[schema.VIDEO, schema.PLAYLIST]
    )
    function.allow_items("Query", of=[schema.VIDEO, schema.PLAYLIST])
    function.allow_items(
        "UpdateItem", of=[schema.PROFILE], attributes=(*attributes.USER_PLAYLISTS, *attributes.USER_TOTALS)
    )
    function.allow_items("UpdateItem", of=[schema.QUOTA], attributes=attributes.QUOTA)
