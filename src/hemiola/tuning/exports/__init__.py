"""Exports: tuned windows in the forms in which runtimes take them, a file for each."""
