"""Joint fusion: which operators of a training step are compiled together, and which gradients travel together."""
