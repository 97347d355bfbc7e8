"""The tables of `hardware/data`, read row by row; who asks for one file pays for one file."""

from collections.abc import Iterator


def rows(file: str) -> Iterator[dict[str, str]]:
    """The rows of one packaged CSV file, each by its header. An empty cell is "", which means unknown or none."""
    import csv  # here and in `lines`, so that importing the rules costs nothing until a job is checked

    yield from csv.DictReader(lines(file))


def lines(file: str) -> list[str]:
    """The lines of one packaged file; no cell of ours spans two lines."""
    from importlib.resources import files

    return (files("stoker.hardware") / "data" / file).read_text(encoding="utf-8").splitlines()


def figure(cell: str) -> float | None:
    """A number, or None where the table leaves it open."""
    return float(cell) if cell else None


def members(cell: str) -> tuple[str, ...]:
    """The members of a cell that holds a list: `1|2|4`."""
    return tuple(cell.split("|")) if cell else ()
