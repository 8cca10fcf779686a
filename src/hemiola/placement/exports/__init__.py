"""Exports: a placement in the forms in which people apply it, a file for each."""
