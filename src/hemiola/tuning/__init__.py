"""Tuning: which plan is best for which size, by tables that are open to read and to edit."""
