"""Sources: where hemiola compile takes its program from: a script, an MSCCLang script, or the library."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hemiola.algorithms import library
from hemiola.collectives import FACTS
from hemiola.errors import ScriptError
from hemiola.language.entry import load_entry
from hemiola.language.parameters import split_words
from hemiola.language.program import Program

if TYPE_CHECKING:
    from hemiola.language.msccl import Recorded


@dataclass(frozen=True, slots=True)
class Source:
    """Something that builds programs."""

    build: Callable[[Mapping[str, str]], Program]
    """Parameters as written, to a program."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    one_form: str | None = None
    """Why it cannot be built for both places; None when it can."""
    disabled: frozenset[str] = frozenset()
    """Passes that it turns off."""
    notes: tuple[str, ...] = ()
    """What the person who runs it should know."""

    def programs(self, *, both_places: bool) -> dict[str, Program]:
        """The program as asked under "", or the one for each place under its name."""
        if not both_places:
            return {"": self.build(self.arguments)}
        if self.one_form is not None:
            raise ScriptError(f"{self.one_form}; leave --both-places out")
        if {"in-place", "in_place"} & set(self.arguments):
            raise ScriptError("--both-places and --in-place were both given; leave one of them out")
        places = {"inplace": "true", "outofplace": "false"}
        return {place: self.build({**self.arguments, "in-place": value}) for place, value in places.items()}


def find_source(
    where: str, words: Sequence[str], options: Mapping[str, str], *, name: str | None, msccl: bool
) -> Source:
    """The source called ``where``; ``words`` come after ``--`` and ``options`` before it."""
    if msccl:
        return _msccl_source(where, words, options, name)
    written = [*(f"--{key}={value}" for key, value in options.items()), *words]
    if _is_script(where):
        entry = load_entry(where, name)
        arguments = split_words(written)
        lacks = f"{where}: {entry.build.__name__} has no parameter in_place, so it has one form only"
        return Source(lambda given: entry.run(dict(given)), arguments, None if entry.has_places else lacks)
    if name is not None:
        raise ScriptError(
            f"--name chooses among the programs of a script, but {where} is a library algorithm"
        )
    arguments = split_words(written)
    kind = library.find(where).kind
    why = (
        None
        if FACTS[kind].can_be_in_place
        else f"{where}: {kind} has no in-place form, so it has one form only"
    )
    return Source(lambda given: library.build(where, given), arguments, why)


def _is_script(where: str) -> bool:
    return where.endswith(".py") or os.sep in where or os.path.exists(where)


def _msccl_source(where: str, words: Sequence[str], options: Mapping[str, str], name: str | None) -> Source:
    if options:
        given = ", ".join(f"--{key}" for key in options)
        raise ScriptError(f"{given}: an MSCCLang script has arguments of its own; write them after --")
    from hemiola.language.msccl import run_script  # nobody else needs what it imports

    chosen = _choose(where, run_script(where, words).programs, name)
    return Source(
        lambda _: chosen.program,
        one_form=f"{where}: an MSCCLang script records its collective in one form",
        disabled=chosen.disabled_passes,
        notes=chosen.notes,
    )


def _choose(where: str, programs: Sequence[Recorded], name: str | None) -> Recorded:
    names = _different_names([recorded.program.name for recorded in programs])
    if name is None and len(programs) > 1:
        raise ScriptError(f"{where}: there are several programs: {', '.join(names)}; choose one with --name")
    if name is None or name in names:
        return programs[0 if name is None else names.index(name)]
    alike = [one for one in names if one.rpartition("#")[0] == name]
    if alike:
        raise ScriptError(
            f"{where}: several programs are called '{name}'; choose one of {', '.join(alike)} with --name"
        )
    raise ScriptError(f"{where}: there is no program '{name}'; there is {', '.join(names)}")


def _different_names(names: Sequence[str]) -> list[str]:
    """Names of which several are alike get a number, in the order of the script: ring#1, ring#2."""
    return [
        f"{name}#{names[:number].count(name) + 1}" if names.count(name) > 1 else name
        for number, name in enumerate(names)
    ]
