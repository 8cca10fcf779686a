"""Estimates: closed forms for searches, each with its measured distance to the replay."""
