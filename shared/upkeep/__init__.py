"""What follows changes: jobs and messages are sent, totals moved and proved, leftovers purged, overdue jobs swept."""
