"""Steps that no framework captured: shapes of known models, and a device that is a roofline, for tests and benchmarks of the search."""
