"""Existing MSCCLang scripts, run unchanged and without that package: ``run_script`` gives native programs."""

from hemiola.language.msccl.run import MscclScript as MscclScript
from hemiola.language.msccl.run import Recorded as Recorded
from hemiola.language.msccl.run import run_script as run_script
