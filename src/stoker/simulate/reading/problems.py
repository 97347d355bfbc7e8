"""Everything that is wrong with a file, told at once."""

from __future__ import annotations

from stoker.core.errors import BadSpec, Violation

MOST_TOLD = 20
CORRECT_THEM = "correct these lines of the file, or take them out"


class Wrong(Exception):
    """A row that cannot be true: what, and what to do."""

    def __init__(self, what: str, fix: str = "") -> None:
        self.what = what
        self.fix = fix
        super().__init__(what)


class LeftOut(Exception):
    """A row that is true, but no job to replay: why."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Problems:
    """The problems of one file, the first twenty in words."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._told: list[Violation] = []
        self._count = 0
        self._fix = ""

    def add(self, line: int | str, problem: Wrong) -> None:
        """Note what is wrong with a line."""
        self._count += 1
        self._fix = self._fix or problem.fix
        if len(self._told) < MOST_TOLD:
            self._told.append(Violation(f"{self._file}:{line}", problem.what))

    def raise_them(self) -> None:
        """Raise BadSpec with all of them, if there are any."""
        if not self._count:
            return
        more = self._count - len(self._told)
        rest = [Violation(self._file, f"and {more:,} more")] if more else []
        raise BadSpec([*self._told, *rest], fix=self._fix or CORRECT_THEM)
