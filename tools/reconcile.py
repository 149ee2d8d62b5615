"""`python -m tools reconcile`: compares derived data, such as totals, with the source items, and prints discrepancies."""

import json

from shared.aws.dynamodb import Table
from shared.background.reconcile import Discrepancy, Reconcile, ReconcileSummary
from tools.progress import Bars


def prove(table: Table, *, repair: bool, bars: Bars) -> int:
    """Compare all derived data with the source items. Returns the exit status, 1 if discrepancies remain.

    With `repair`, the command also corrects each discrepancy for which the correct value can be proved. The command
    also stores the result, which the console shows to administrators.
    """
    with bars.bar("Videos, users and tags", None, counted=True) as advance:

        def progress(so_far: ReconcileSummary) -> None:
            advance(so_far.videos + so_far.users + so_far.tags)

        run = Reconcile(table)
        summary = run.run(repair, _show, progress)
    run.store_report()
    print(f"{summary.videos} videos, {summary.users} users and {summary.tags} tags were compared.")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in summary.outcomes.items() if count)
    print(f"Discrepancies: {counts}." if counts else "There are no discrepancies.")
    if not summary.is_service_compared:
        print(
            "The totals of all videos were not compared, because videos changed during the comparison, or are unreadable."
        )
    if summary.recent:
        print(
            f"Of these, {summary.recent} concern videos that were changed less than a minute ago, and may be transient. "
            "Run the command again in a minute."
        )
    if summary.outcomes["unreadable"]:
        print("Unreadable items must be corrected by hand. All other items were compared.")
    if (summary.outcomes["found"] or summary.outcomes["busy"]) and not repair:
        print("Use --repair to correct each discrepancy for which the correct value can be proved.")
    return 0 if summary.agrees else 1


def _show(finding: Discrepancy) -> None:
    facts = json.dumps({"expected": finding.expected, "found": finding.found}, default=sorted, ensure_ascii=False)
    print(f"{finding.outcome}: {finding.kind} {finding.id} {facts}")
