"""Placement: where the axes of a job go on the levels of a system, and what that costs."""
