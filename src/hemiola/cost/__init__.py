"""Cost: the one owner of seconds for decisions: prices by replay, estimates in closed form, and bounds."""
