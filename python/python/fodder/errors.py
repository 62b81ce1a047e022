"""What can go wrong, named by what to do next. Everything is a `FodderError`.

Where Python has a word for it, the exception is that too: code that catches `LookupError`, `ValueError`,
`ConnectionError`, `PermissionError` or `IndexError` goes on working.
"""

from __future__ import annotations

__all__ = [
    "Closed",
    "Conflict",
    "Corrupt",
    "Denied",
    "FodderError",
    "Full",
    "Internal",
    "Invalid",
    "NotFound",
    "OriginNotFound",
    "OutOfRange",
    "Stale",
    "Unavailable",
]


class FodderError(Exception):
    """Something that Fodder could not do."""


class NotFound(FodderError, LookupError):
    """It does not exist: correct the name. The message says which names there are."""


# In this order: the other way around, the message is a tuple, and `errno` and `filename` are None.
class OriginNotFound(FileNotFoundError, NotFound):
    """The directory that should be the origin does not exist."""


class OutOfRange(FodderError, IndexError):
    """There is no item with that index."""


class Invalid(FodderError, ValueError):
    """The request is wrong: correct it, retrying is useless."""


class Conflict(FodderError):
    """It exists already, or contradicts what was said before."""


class Stale(FodderError):
    """The data changed at its origin: open the dataset again."""


class Denied(FodderError, PermissionError):
    """The credentials do not allow it."""


class Unavailable(FodderError, ConnectionError):
    """The node or its origin does not answer now: try again later."""


class Closed(Unavailable):
    """The node is shutting down, or has removed the dataset."""


class Full(FodderError):
    """No room: make some, or ask for less."""


class Corrupt(FodderError):
    """Bytes are not what they should be."""


class Internal(FodderError):
    """A fault of Fodder itself: please report it."""
