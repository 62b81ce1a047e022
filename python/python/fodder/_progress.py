"""A progress bar where somebody sees it: tqdm's if it is installed, else one line of text."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable

from fodder._size import human

_Told = Callable[[dict[str, Any]], object]


@contextlib.contextmanager
def bar(title: str, wanted: bool | _Told) -> Iterator[_Told]:
    """What to tell how far a warming is."""
    if callable(wanted):
        yield wanted
    elif not wanted or not (_in_notebook() or sys.stderr.isatty()):
        yield lambda said: None
    else:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            yield _line(title)
            sys.stderr.write("\n")
        else:
            with tqdm(desc=title, unit="B", unit_scale=True, unit_divisor=1024) as shown:
                yield lambda said: _tell(shown, said)


def _tell(shown: Any, said: dict[str, Any]) -> None:
    shown.total = said["bytes"] or None
    shown.n = said["bytes_there"]
    shown.refresh()


def _line(title: str) -> _Told:
    shown_at = 0.0

    def tell(said: dict[str, Any]) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at < 0.2 and not said["finished"]:
            return
        shown_at = time.monotonic()
        share = said["bytes_there"] / said["bytes"] if said["bytes"] else 1.0
        sys.stderr.write(
            f"\r{title}: {share:4.0%}  {human(said['bytes_there'])} of {human(said['bytes'])}"
            f"  {human(said['bytes_per_second'])}/s   "
        )
        sys.stderr.flush()

    return tell


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"
