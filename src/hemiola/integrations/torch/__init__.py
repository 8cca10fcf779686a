"""Hemiola as a backend of torch.distributed: a process group in Python over the runtime's Communicator."""
