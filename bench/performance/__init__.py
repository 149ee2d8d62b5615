"""Processor time of requests, compared with other implementations: `python -m bench.performance`."""
