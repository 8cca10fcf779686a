"""Topology: descriptions of machines, from a laptop to a cluster, and where bytes go in them."""
