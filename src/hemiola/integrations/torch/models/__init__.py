"""Seven training steps to fuse: the six of DisCo's evaluation and a language model as they are written today."""
