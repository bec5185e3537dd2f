"""Make runs in processes of their own, so that none finds what another has compiled.

What was measured may be kept in files, so that hours of measuring can be made in parts.
"""

import hashlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

MARK = "RESULT "


def tell(found):
    """Print what a process has measured, for the process that started it."""
    print(MARK + json.dumps(found))


def in_a_process(script, *arguments, timeout=None):
    """Return what `script --one ARGUMENTS` measured, or None if it took over `timeout` seconds."""
    command = [sys.executable, script, "--one", *map(str, arguments)]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=timeout, check=True
        )
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    return json.loads(lines[-1].removeprefix(MARK))


@cache
def fingerprint():
    """Return a hash of our own code, so that runs of other versions are not taken for ours."""
    loaded = [
        module
        for name, module in sys.modules.items()
        if name.startswith("nnghmc.") and not name.startswith("nnghmc.paper")
    ]
    code = b"".join(sorted(Path(module.__file__).read_bytes() for module in loaded))
    return hashlib.sha256(code).hexdigest()[:8]
