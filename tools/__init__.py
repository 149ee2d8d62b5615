"""Command-line tools for operators: `python -m tools`.

They import, export, restore and generate catalogues. They also verify totals, show a video's history, print webhook
events, revert change sets and redrive messages.

The tools write through the same stores and conditions as the service. Only `listen` calls the API instead. No other
package imports them.
"""


class ToolError(Exception):
    """Error that the operator can fix. Commands print its message unchanged, so it must consist of whole sentences."""
