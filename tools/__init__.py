"""`python -m tools`: brings catalogues in and out, puts back what was damaged, makes them up for tests, proves the totals,
shows what happened to a video and what happens now, and takes changes back.

The tools write to the table by the same stores and conditions as the service, but for `listen`, which asks its API. Nothing imports them.
"""


class ToolError(Exception):
    """Something the person at the terminal can act on; the message is one whole sentence."""
