"""Slow tests, which `make check` omits: tests of properties over hundreds of generated cases or faults, and tests that
start programs."""
