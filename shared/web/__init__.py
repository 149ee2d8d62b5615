"""HTTP: requests, parameters, bodies, answers, pages and their cursors, idempotency keys."""
