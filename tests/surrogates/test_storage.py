import io
import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import (
    GradientData,
    Posterior,
    QuadraticPlus,
    Surrogate,
    fit,
    from_log_density,
    load_surrogate,
    sample,
)
from nnghmc.errors import SettingsError, SurrogateFileError


@pytest.fixture
def surrogate():
    positions = np.random.default_rng(0).normal(size=(100, 2))
    data = GradientData.of_points(positions, positions + 0.2 * np.sin(2 * positions))
    return fit(QuadraticPlus(), data, jax.random.key(0))


@pytest.fixture
def stored(surrogate, tmp_path):
    path = tmp_path / "learned.surrogate"
    surrogate.save(path)
    return path


def rewritten(path, **changes):
    """The file with some entries of its header changed."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    header.update(changes)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return path


def test_a_pickle_is_refused_and_not_run(tmp_path):
    class Harm:
        def __reduce__(self):
            return (open, (str(tmp_path / "harm"), "w"))

    path = tmp_path / "evil.surrogate"
    path.write_bytes(pickle.dumps(Harm()))
    with pytest.raises(SurrogateFileError, match="not a surrogate's file"):
        load_surrogate(path)
    objects = tmp_path / "objects.surrogate"
    with objects.open("wb") as file:
        np.savez(file, header=np.array([Harm()], dtype=object))
    with pytest.raises(SurrogateFileError, match="not a surrogate's file"):
        load_surrogate(objects)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_torn_file_is_refused(stored, share):
    whole = stored.read_bytes()
    stored.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(SurrogateFileError, match="damaged"):
        load_surrogate(stored)


def test_flipped_bytes_are_refused(stored):
    whole = bytearray(stored.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 8] = bytes(8 * [255])
    stored.write_bytes(bytes(whole))
    with pytest.raises(SurrogateFileError, match="damaged"):
        load_surrogate(stored)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "something else"}, "foreign"),
        ({"format_version": 99}, "format 99"),
        ({"learned": {"class": "Posterior", "fields": {}}}, "Posterior"),
        ({"learned": {"class": "Sum", "fields": {}}}, "Sum has the parts"),
        ({"learned": {"value": "words"}}, "not a learned gradient"),
        ({"learned": {"array": "array0"}}, "not a learned gradient"),
        ({"dim": 3}, "damaged"),
        ({"report": {}}, "damaged"),
        ({"dim": float("inf")}, "damaged"),
        ({"learned": {"class": "Learned", "fields": {}}}, "damaged"),
        ({"names": ["a"], "shapes": [[5]]}, "damaged"),
    ],
)
def test_a_foreign_or_damaged_header_is_told(stored, changes, words):
    with pytest.raises(SurrogateFileError, match=words):
        load_surrogate(rewritten(stored, **changes))


def test_numbers_that_are_none_are_refused(stored):
    with np.load(stored) as file:
        arrays = {name: file[name] for name in file.files}
    for spoiled in (np.full_like(arrays["array0"], np.nan), arrays["array0"].astype(complex)):
        with stored.open("wb") as file:
            np.savez(file, **{**arrays, "array0": spoiled})
        with pytest.raises(SurrogateFileError, match="not all finite numbers"):
            load_surrogate(stored)


def test_missing_files_and_other_arrays_are_told(tmp_path):
    with pytest.raises(SurrogateFileError, match="does not exist"):
        load_surrogate(tmp_path / "nowhere")
    with (tmp_path / "arrays.npz").open("wb") as file:
        np.savez(file, x=np.ones(3))
    with pytest.raises(SurrogateFileError, match="header is missing"):
        load_surrogate(tmp_path / "arrays.npz")
    buffer = io.BytesIO()
    np.save(buffer, np.ones(3))
    (tmp_path / "single.npy").write_bytes(buffer.getvalue())
    with pytest.raises(SurrogateFileError, match="not a surrogate's file"):
        load_surrogate(tmp_path / "single.npy")


def test_a_folder_that_is_not_there_is_told(surrogate, tmp_path):
    with pytest.raises(SurrogateFileError, match="could not be written"):
        surrogate.save(tmp_path / "nowhere" / "learned.surrogate")


def posterior(names):
    return Posterior(
        lambda p, data: -0.5 * sum(jnp.sum(part**2) for part in p.values()),
        None,
        None,
        {name: np.zeros(2 // len(names)) for name in names},
    )


def test_a_surrogate_knows_which_posterior_it_fits(tmp_path):
    run = sample(posterior("a"), 5, 2, warmup=5, progress=False)
    assert isinstance(run.surrogate, Surrogate)
    run.surrogate.save(tmp_path / "a")
    loaded = load_surrogate(tmp_path / "a")
    loaded.check_fits(posterior("a"))
    with pytest.raises(SettingsError, match=r"\('a',\).*\('a', 'b'\)"):
        loaded.check_fits(posterior("ab"))
    with pytest.raises(SettingsError, match="2 dimensions cannot serve a posterior of 3"):
        sample(Posterior(lambda p, data: -jnp.sum(p**2), None, None, np.zeros(3)), surrogate=loaded)
    with pytest.raises(SettingsError, match="Give the two posteriors"):
        loaded.with_prior(lambda p: 0.0, None)
    single = from_log_density(lambda p: -jnp.sum(p["a"] ** 2), {"a": np.zeros(2)})
    with pytest.raises(SettingsError, match="prior apart from its likelihood"):
        run.surrogate.with_prior(single, single)
    with pytest.raises(SettingsError, match="new must be a Posterior"):
        run.surrogate.with_prior(None, 3.0)
    with pytest.raises(SettingsError, match="both priors must be of the parameters"):
        run.surrogate.with_prior(posterior("a"), posterior("ab"))
