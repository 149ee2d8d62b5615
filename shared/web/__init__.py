"""HTTP layer: requests, parameters, bodies, responses, pages and their cursors, ETags."""
