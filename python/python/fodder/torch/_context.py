"""Which item an exception is about: added to what a decoder, a transform or a collate function raises."""

from __future__ import annotations

import fodder


def annotate(error: Exception, note: str) -> None:
    """Adds a line to an exception, whose type stays. It is part of the traceback, also of one from a worker."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n{note}", *error.args[1:])
    elif not error.args:
        error.args = (note,)


def describe_item(dataset: fodder.Dataset, id: int) -> str:
    """The item as a user finds it: dataset, id and path."""
    try:
        name = f" ({dataset.names[id]!r})"
    except Exception:  # The node may be away, which must not hide what went wrong.
        name = ""
    return f"item {id}{name} of dataset {dataset.name!r}"
