import pytest

from nnghmc.errors import SettingsError
from nnghmc.platform import memory


def test_there_is_memory_and_all_of_it_is_not_enough_for_everything():
    assert 2**20 < memory.available_memory() < 2**60
    memory.require_memory(1024, "a kilobyte", "")
    with pytest.raises(SettingsError, match=r"everything needs about .* GiB.*Buy more\."):
        memory.require_memory(2.0**62, "everything", "Buy more.")


def test_a_container_counts(monkeypatch, tmp_path):
    (tmp_path / "max").write_text("5000000\n")
    (tmp_path / "current").write_text("4000000\n")
    files = (str(tmp_path / "max"), str(tmp_path / "current"))
    monkeypatch.setattr(memory, "CGROUP_FILES", (files, files))
    assert memory.available_memory() == 1_000_000
    (tmp_path / "max").write_text("max\n")
    assert memory.available_memory() > 2**20
