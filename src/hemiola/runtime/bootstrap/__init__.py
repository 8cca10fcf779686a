"""Bootstrap: how the ranks of a job find, authenticate and connect to each other before the first collective."""
