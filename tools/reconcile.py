"""`python -m tools reconcile`: compares derived data, such as totals, with the source items, and prints discrepancies."""

import json

from shared.aws.dynamodb import Table
from shared.background.reconcile import Discrepancy, Reconcile, ReconcileSummary
from tools.progress import Bars


def prove(table: Table, *, repair: bool, bars: Bars) -> int:
    """Compare all derived data with the source items. Returns the exit status, 1 if discrepancies remain.

    With `repair`, the command also corrects each discrepancy for which the correct value can be proved.
    """
    with bars.bar("Videos, users and tags", None, counted=True) as advance:

        def progress(so_far: ReconcileSummary) -> None:
            advance(so_far.videos + so_far.users + so_far.tags)

        summary = Reconcile(table).run(repair, _show, progress)
    print(f"{summary.videos} videos, {summary.users} users and {summary.tags} tags were compared.")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in summary.outcomes.items() if count)
    print(f"What did not agree: {counts}." if counts else "All of it agrees.")
    if summary.recent:
        print(
            f"{summary.recent} of it is of videos that were changed less than a minute ago, and may only be late: "
            "run this again."
        )
    if summary.outcomes["unreadable"]:
        print("What is unreadable has to be put right by hand; everything else was compared.")
    if (summary.outcomes["found"] or summary.outcomes["busy"]) and not repair:
        print("With --repair it is put right, as far as that can be proved.")
    return 0 if summary.agrees else 1


def _show(finding: Discrepancy) -> None:
    facts = json.dumps({"expected": finding.expected, "found": finding.found}, default=sorted, ensure_ascii=False)
    print(f"{finding.outcome}: {finding.kind} {finding.id} {facts}")
