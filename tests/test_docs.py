"""The Python in the documentation runs as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": 1,
    "docs/guide.md": 3,
    "docs/models.md": 2,
    "docs/frontends/jax.md": 1,
    "docs/frontends/numpyro.md": 1,
    "docs/frontends/pymc.md": 1,
}


def programs(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [block for block in blocks if block.startswith("import ")]


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, i) for page in PAGES for i in range(len(programs(page)))],
)
def test_program_runs(page, number, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(programs(page)[number], page, "exec"), names)
    if "run" in names:
        run = names["run"]
        assert run.handed_over or "NUTS is the faster way" in run.story[0]
        assert run.notes == ()
    else:
        assert names["info"].acceptance_rate > 0


def test_every_page_has_its_programs():
    assert {page: len(programs(page)) for page in PAGES} == PAGES
