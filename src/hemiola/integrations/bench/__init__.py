"""Bench: the same collective by several libraries, one process a rank, taking turns on one machine."""
