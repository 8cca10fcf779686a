"""The planner: a whole job, from the degrees of its parallelism to the files that apply it."""
