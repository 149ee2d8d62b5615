"""Background work: stream routing, totals and their reconciliation, purges, and sweeps of overdue jobs."""
