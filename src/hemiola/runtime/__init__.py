"""The runtime: ranks find each other, prove that they belong, and run plans on real data."""
