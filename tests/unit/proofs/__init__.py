"""Tests that prove a property over hundreds of generated cases or failures, or start programs. `make check` leaves them out."""
