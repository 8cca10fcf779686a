"""How long a plan takes on a system, where the time goes, and how far that is from the bound."""
