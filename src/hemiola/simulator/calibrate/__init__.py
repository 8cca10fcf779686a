"""Fits of the replay to times that were measured with our own runtime."""
