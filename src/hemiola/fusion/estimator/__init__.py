"""The seconds of groups of operators, learned: features, a physical prior, a graph network answered in NumPy, and its labels."""
