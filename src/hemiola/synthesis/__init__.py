"""Reduction programs: found on a small table of states, priced, proven and carried out."""
