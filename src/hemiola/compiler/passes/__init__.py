"""One file per pass; the list in order is in hemiola.compiler.compile."""
