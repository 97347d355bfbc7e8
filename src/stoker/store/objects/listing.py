"""The names below a folder, in the order in which Cloud Storage lists them, page by page.

That order is by the bytes of the whole name, and `/` is one of them: `a-b` comes before `a/b`, which comes before `a0`. So a
folder sorts among its neighbours with its `/`, and going down the sorted entries gives the names in order, lazily. Text compares
by code points, which is the order of its UTF-8 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stoker.core.errors import BadSpec
from stoker.store.names import is_harmless, is_part
from stoker.store.root import Entry, Root

LARGEST_PAGE = 5000
_ODD = re.compile(r"[\\%:]|^\.|[^\x00-\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a page is to hold."""

    prefix: str = ""
    delimiter: str = ""  # a name that has it behind the prefix is cut after it, and what is left is shown once
    start: str = ""  # this name and those after it
    end: str = ""  # names before this one; empty: all
    after: str = ""  # goes on after this name or common prefix, with which the page before ended
    limit: int = 1000
    with_folders: bool = False  # an object whose name ends in the delimiter is shown beside its common prefix

    def has(self, name: str) -> bool:
        """Whether a name is one of those."""
        return name.startswith(self.prefix) and self.start <= name and not (self.end and name >= self.end)

    def may_have_below(self, folder: str) -> bool:
        """Whether any name that begins with `folder/` can be one of those, and behind the page before."""
        if not (folder.startswith(self.prefix) or self.prefix.startswith(folder)) or (self.end and folder >= self.end):
            return False
        return all(bound <= folder or bound.startswith(folder) for bound in (self.start, self.after))

    def common(self, name: str) -> str:
        """The common prefix by which a name is shown; empty if it is shown itself."""
        at = name.find(self.delimiter, len(self.prefix)) if self.delimiter else -1
        return "" if at < 0 else name[: at + len(self.delimiter)]


@dataclass(frozen=True, slots=True)
class Page:
    """Names, common prefixes, and where the next page goes on; empty: there is none."""

    names: Sequence[str]
    prefixes: Sequence[str]
    next: str = ""


def page(names: Iterator[str], wanted: Wanted, is_object: frozenset[str] = frozenset()) -> Page:
    """One page of the wanted names, which come in order. `is_object`: those of names ending in the delimiter that are objects."""
    found: list[str] = []
    prefixes: list[str] = []
    last = wanted.after
    for name in names:
        common = wanted.common(name)
        shown = common or name
        if shown <= last:
            continue  # the page before has it, or this one as a prefix
        if len(found) + len(prefixes) >= wanted.limit:
            return Page(found, prefixes, last)
        last = shown
        if common:
            prefixes.append(common)
        if not common or (wanted.with_folders and name == common and name in is_object):
            found.append(name)
    return Page(found, prefixes)


@dataclass(frozen=True, slots=True)
class Walk:
    """Goes through the folder of a bucket. `folders`: the objects that stand for a folder."""

    root: Root
    wanted: Wanted
    folders: frozenset[str]

    def names(self) -> Iterator[str]:
        """The names that are wanted, in order. With the delimiter `/`, a folder is one name, and not gone through.

        Raises BadSpec for a prefix that leads out of the bucket.
        """
        wanted, top = self.wanted, self.wanted.prefix[: self.wanted.prefix.rfind("/") + 1]
        if top in self.folders and wanted.has(top):
            yield top
        # Folders may be nested deeper than Python's calls.
        self.root.check(top)
        below = [iter(self._entries(top))]
        while below:
            name = next(below[-1], "")
            if not name:
                below.pop()
            elif not name.endswith("/"):
                yield name
            elif wanted.delimiter == "/" and wanted.common(name):
                if self._has_any(name):
                    yield name
            else:
                if name in self.folders and wanted.has(name):
                    yield name
                below.append(iter(self._entries(name)))

    def _has_any(self, folder: str) -> bool:
        """Whether there is an object in a folder; one of files alone may be empty."""
        inside = replace(self.wanted, prefix=folder, delimiter="", after="")
        return folder > self.wanted.after and any(True for _ in Walk(self.root, inside, self.folders).names())

    def _entries(self, folder: str) -> list[str]:
        """What is in a folder and may be wanted, in order; the names of folders end in `/`."""
        try:
            entries = self.root.entries(folder)
        except (OSError, BadSpec):
            return []  # it has gone meanwhile, was never there, is not for us to read, or a link by now that leads out
        found = []
        for entry in entries:
            name = folder + entry.name
            if is_part(entry.name) or not _is_lawful(entry.name, name):
                continue
            if entry.is_folder:
                if self.wanted.may_have_below(name + "/"):
                    found.append(name + "/")
            elif name > self.wanted.after and self.wanted.has(name) and self._is_file(entry, name):
                found.append(name)
        return sorted(found)

    def _is_file(self, entry: Entry, name: str) -> bool:
        """Whether it is a file, or a link to one of this bucket. Links to folders are not followed: they may go in circles."""
        return self.root.is_file(name) if entry.is_link else entry.is_file


def _is_lawful(own: str, name: str) -> bool:
    """Whether an object can have this name. `own`: its last part, the rest of it being lawful."""
    if not _ODD.search(own):
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False  # bytes that are no text
    return is_harmless(name)
