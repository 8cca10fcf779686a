"""Calibrate: a system whose constants are those that were measured on it."""
