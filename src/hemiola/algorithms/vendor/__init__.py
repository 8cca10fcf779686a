"""Algorithms of vendors' libraries as programs: what users have today, to compare with."""
