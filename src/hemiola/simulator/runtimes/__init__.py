"""Runtime models: how each runtime cuts a plan into messages and moves them, as one value that the replay reads."""
