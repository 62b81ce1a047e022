"""How a dataset stands, for people."""

from __future__ import annotations

from typing import Any

from fodder._size import human


class Stats:
    """How a dataset stands. Prints well, in a notebook too; the numbers are in `counts`, and each is an attribute."""

    _KINDS = [
        ("hits_mem", "memory"),
        ("hits_ssd", "SSD"),
        ("hits_hdd", "disk"),
        ("prefetched", "prefetched"),
        ("substituted", "substituted"),
        ("joined", "joined"),
        ("from_peers", "other nodes"),
        ("from_origin", "origin"),
        ("bypass", "bypass"),
    ]

    def __init__(self, counts: dict[str, Any]) -> None:
        self.counts = counts

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["counts"][name]
        except KeyError:
            raise AttributeError(
                f"there is no count {name!r}; there are: {', '.join(self.__dict__['counts'])}"
            ) from None

    @property
    def hits(self) -> int:
        """Reads that a tier answered with what was asked for."""
        return int(self.hits_mem + self.hits_ssd + self.hits_hdd + self.prefetched)

    @property
    def reads(self) -> int:
        """All reads."""
        return int(sum(self.counts[key] for key, _ in self._KINDS))

    def _rows(self) -> list[tuple[str, str]]:
        count = self.counts
        # Not the ratio of the bytes: on disk, data occupies whole blocks.
        share = count["cached_pieces"] / max(count["pieces"], 1)
        rows = [
            ("dataset", f"{count['name']} ({count['layout']}, {count['policy']})"),
            ("origin", count["origin"]),
            ("items", f"{count['items']:,} in {count['objects']:,} objects"),
            ("cached", f"{share:.0%} of {human(count['total_bytes'])}, {human(count['cached_bytes'])} on disk"),
        ]
        if self.reads:
            kinds = [f"{word} {count[key]:,}" for key, word in self._KINDS if count[key]]
            rows.append(("reads", f"{self.reads:,}, {self.hits / self.reads:.0%} hits: {', '.join(kinds)}"))
        rows.append(("served", f"{human(count['bytes_served'])}, {human(count['bytes_from_origin'])} from the origin"))
        if count["explanation"]:
            rows.append(("policy", count["explanation"]))
        return rows

    def __repr__(self) -> str:
        return "\n".join(f"{key:8} {value}" for key, value in self._rows())

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(key)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for key, value in self._rows()
        )
        return f"<table>{rows}</table>"
