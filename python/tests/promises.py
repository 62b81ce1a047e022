"""Refuses to skip, under CI, a test that docs/SEMANTICS.md names: a promise that CI does not check is not kept.

A pytest plugin that conftest.py loads. crates/fodder-testing does the same for the tests in Rust.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

SEMANTICS = Path(__file__).parents[2] / "docs" / "SEMANTICS.md"


def promised_tests() -> set[str]:
    """The tests that hold a promise: every name in backticks in the last column of a table."""
    rows = (line for line in SEMANTICS.read_text().splitlines() if line.startswith("| "))
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.rsplit("|", 2)[-2])}


def _fail(report, names) -> None:
    if os.environ.get("CI") and report.skipped and names:
        report.outcome = "failed"
        report.longrepr = (
            f"{', '.join(sorted(names))}: promised by docs/SEMANTICS.md, may not be skipped: {report.longrepr}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    _fail(report, promised_tests() & {item.originalname})
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A module that is skipped whole, because a package is missing."""
    report = yield
    if report.skipped and isinstance(collector, pytest.Module):
        _fail(report, promised_tests() & set(re.findall(r"^def (test_\w+)", collector.path.read_text(), re.M)))
    return report
