"""Bounds: times that no algorithm can beat."""
