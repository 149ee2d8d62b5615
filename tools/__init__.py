"""`python -m tools`: brings catalogues in and out, puts back what was damaged, makes them up for tests, and proves the totals.

The tools write to the table by the same stores and conditions as the service. Nothing imports them.
"""


class ToolError(Exception):
    """Something the person at the terminal can act on; the message is one whole sentence."""
