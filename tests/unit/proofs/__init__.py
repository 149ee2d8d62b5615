"""Tests of properties over hundreds of generated cases or faults, and tests that start programs. `make check` omits
them."""
