"""Make runs in processes of their own, so that none finds what another has compiled."""

import json
import subprocess
import sys

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
