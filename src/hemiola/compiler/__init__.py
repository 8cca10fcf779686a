"""The compiler: from a ChunkDag to a proven Plan, by the visible list of passes in compile.py."""
