"""Where the program `fodder` is, and the one command that the package runs with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig

from fodder.errors import Invalid, NotFound, Unavailable

# Longer than a node may take to come up.
_PATIENCE_S = 90
# How the program ends when it does not understand its arguments.
_MISUSED = 2


def find() -> str:
    """The path of the program: `FODDER_PROGRAM`, else the one that this package brought, else the one on the PATH."""
    named = os.environ.get("FODDER_PROGRAM")
    if named:
        return named
    beside = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    user = sysconfig.get_preferred_scheme("user") if hasattr(sysconfig, "get_preferred_scheme") else "posix_user"
    beside.append(sysconfig.get_path("scripts", scheme=user))
    # `pip install --target DIR` puts it into DIR/bin.
    beside.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in beside:
        path = os.path.join(folder, "fodder")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("fodder")
    if found:
        return found
    raise NotFound(
        "the program `fodder`, which serves data, is not beside Python and not on the PATH: "
        "install the wheel, or say where it is with FODDER_PROGRAM"
    )


def join(command: list[str]) -> tuple[str, str]:
    """Has a node of this host serve a dataset: its address, and what the dataset is called there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except OSError as error:
        raise NotFound(f"cannot run {command[0]}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{' '.join(command[:2])}` did not come back for {_PATIENCE_S} s") from error
    if done.returncode == _MISUSED:
        # What follows the first paragraph is how to use the program, which the caller did not type.
        raise Invalid(done.stderr.strip().removeprefix("error: ").split("\n\n")[0])
    if done.returncode != 0:
        raise Unavailable(done.stderr.strip().removeprefix("fodder: "))
    said = json.loads(done.stdout)
    return said["address"], said["dataset"]
