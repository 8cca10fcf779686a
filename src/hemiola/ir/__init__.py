"""The three levels of a collective: ChunkDag, InstructionDag, Plan; their laws, texts and files."""
