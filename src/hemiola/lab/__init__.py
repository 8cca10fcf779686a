"""The lab: a small cluster of network namespaces and shaped links on one machine, for real measurements."""
