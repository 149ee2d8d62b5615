"""Command-line tools for operators: `python -m tools`.

The tools import, export, restore and generate catalogues. They also verify totals, show a video's history, print
webhook events, revert change sets and redrive messages.

The tools use the service's stores, and the same conditional writes. Only `listen` calls the API instead. No package of
the service imports the tools.
"""


class ToolError(Exception):
    """Error that the operator can fix. Commands print the message unchanged, so write it in whole sentences."""
