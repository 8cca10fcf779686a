"""Reduction programs for JAX: ``hemiola.jax.ReductionExecutor`` carries one out inside ``shard_map``."""

try:
    from hemiola.integrations.jax.executor import ReductionExecutor as ReductionExecutor
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError(
        "hemiola.jax needs JAX, which is not installed; pip install jax (a build for CPUs is enough)",
        name="jax",
    ) from error
