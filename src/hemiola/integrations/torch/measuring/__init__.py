"""Seconds of operators and of compiled groups, measured in processes of their own."""
