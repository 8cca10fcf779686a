"""What was measured and found, for people."""
