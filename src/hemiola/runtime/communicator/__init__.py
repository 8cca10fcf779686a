"""Communicator: the collectives of a group of ranks, and how a call is prepared, queued and run."""
