"""Reduction programs inside JAX's shard_map."""
