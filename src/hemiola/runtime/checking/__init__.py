"""Checking: collectives on random data, with every element of the result compared with its expected value."""
