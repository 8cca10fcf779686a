"""Simulator: how long a plan takes on a system, and how long anything must take."""
