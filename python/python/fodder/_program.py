"""Where the program `fodder` is, and the one command that the package runs with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import warnings

from fodder.errors import Invalid, NotFound, Unavailable

# The exit status of the program for arguments that it does not understand.
_MISUSED = 2

# How the program begins what it says about a failure.
_ERROR = "error: "

# How a line begins that a user should see though the program succeeded.
_WARNING = "warning: "


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
        "cannot find the program `fodder`, neither next to Python nor on the PATH: install the wheel, or set "
        "FODDER_PROGRAM to its path"
    )


def join(command: list[str]) -> tuple[str, str]:
    """Has a node of this host serve a dataset: its address, and what the dataset is called there.

    It ends when the program does, which bounds what should be quick. How long the first listing of an origin takes
    nobody knows, and a node that loses its only client while it lists begins from nothing the next time.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotFound(f"cannot run {command[0]}: {error}") from error
    if done.returncode != 0:
        complaint = done.stderr.strip().removeprefix(_ERROR)
        if done.returncode == _MISUSED:
            # What follows the first paragraph is how to use the program, which the caller did not type.
            raise Invalid(complaint.split("\n\n")[0])
        raise Unavailable(complaint)
    for line in done.stderr.splitlines():
        if line.startswith(_WARNING):
            # The caller of `fodder.open`, which called this.
            warnings.warn(line.removeprefix(_WARNING), UserWarning, stacklevel=3)
    said = json.loads(done.stdout)
    return said["address"], said["dataset"]
