"""HTTP layer: requests with their parameters and bodies, responses, pagination with cursors, and ETags."""
