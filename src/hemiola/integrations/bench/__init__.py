"""Bench: the same collective by several libraries, with one process per rank, measured in turns on one machine."""
