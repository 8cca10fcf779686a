"""Parse: one file for each format that describes a system."""
