"""The chunk language: a Python program that moves chunks by reference, traced into a ChunkDag."""
