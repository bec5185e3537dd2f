"""The Python in README and guide runs as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def programs(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [block for block in blocks if block.startswith("import ")]


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, i) for page in ("README.md", "docs/guide.md") for i in range(len(programs(page)))],
)
def test_program_runs(page, number):
    names = {}
    exec(compile(programs(page)[number], page, "exec"), names)
    if "run" in names:
        assert names["run"].handed_over
        assert names["run"].notes == ()
    else:
        assert names["info"].acceptance_rate > 0


def test_both_pages_have_programs():
    assert len(programs("README.md")) == 1
    assert len(programs("docs/guide.md")) == 3
