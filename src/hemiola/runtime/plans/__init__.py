"""Plans: which plan serves a call of a collective, and why another plan does not."""
