import io
import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nnghmc
from nnghmc import (
    GradientData,
    Posterior,
    QuadraticPlus,
    Surrogate,
    fit,
    from_log_density,
    load_surrogate,
)
from nnghmc.errors import SettingsError, SurrogateFileError
from nnghmc.model.layout import ParameterLayout
from nnghmc.platform.files import as_bytes, from_bytes


def fitted(layout=None):
    positions = np.random.default_rng(0).normal(size=(100, 2))
    data = GradientData.of_points(positions, positions + 0.2 * np.sin(2 * positions))
    return fit(QuadraticPlus(), data, jax.random.key(0), layout=layout)


@pytest.fixture(scope="module")
def surrogate():
    return fitted()


@pytest.fixture
def stored(surrogate, tmp_path):
    path = tmp_path / "learned.surrogate"
    surrogate.save(path)
    return path


def rewritten(path, **changes):
    """Change some entries of the header of a file."""
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


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_refused(stored, fraction):
    whole = stored.read_bytes()
    stored.write_bytes(whole[: int(fraction * len(whole))])
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
def test_a_foreign_or_damaged_header_is_refused(stored, changes, words):
    with pytest.raises(SurrogateFileError, match=words):
        load_surrogate(rewritten(stored, **changes))


def test_arrays_that_are_not_finite_numbers_are_refused(stored):
    with np.load(stored) as file:
        arrays = {name: file[name] for name in file.files}
    for spoiled in (np.full_like(arrays["array0"], np.nan), arrays["array0"].astype(complex)):
        with stored.open("wb") as file:
            np.savez(file, **{**arrays, "array0": spoiled})
        with pytest.raises(SurrogateFileError, match="not all finite numbers"):
            load_surrogate(stored)


def test_missing_files_and_other_arrays_raise_a_clear_error(tmp_path):
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


def test_a_missing_folder_raises_a_clear_error(surrogate, tmp_path):
    with pytest.raises(SurrogateFileError, match="could not be written"):
        surrogate.save(tmp_path / "nowhere" / "learned.surrogate")


FIELDS = ("positions", "potentials", "gradients", "chains", "trajectories", "steps", "weights")


def assert_same_data(found, expected):
    for name in FIELDS:
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_arrays_keep_held_out_data_if_asked_to(surrogate):
    arrays = from_bytes(as_bytes(surrogate.as_arrays(held_out=True)))
    restored = Surrogate.from_arrays(arrays, "the store")
    assert_same_data(restored.held_out, surrogate.held_out)
    assert len(restored.held_out) == surrogate.report.held_out > 0
    without = surrogate.as_arrays()
    assert set(arrays) - set(without) == {f"held_out.{name}" for name in FIELDS}
    assert Surrogate.from_arrays(without, "the store").held_out is None


def test_nothing_held_out_stays_nothing(surrogate):
    loaded = Surrogate.from_arrays(surrogate.as_arrays(), "the store")
    again = Surrogate.from_arrays(loaded.as_arrays(held_out=True), "the store")
    assert again.held_out is None


def test_a_saved_file_holds_no_held_out_data(surrogate, stored):
    assert surrogate.held_out is not None
    assert load_surrogate(stored).held_out is None
    with np.load(stored) as file:
        assert not any(name.startswith("held_out") for name in file.files)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gradients", lambda array: array[:-1]),
        ("positions", lambda array: array[:, :1]),
        ("chains", lambda array: array[:, np.newaxis]),
        ("potentials", lambda array: array.astype("U8")),
        ("unknown", lambda array: np.zeros(3)),
        ("steps", None),
    ],
)
def test_damaged_held_out_data_are_refused(surrogate, name, change):
    arrays = surrogate.as_arrays(held_out=True)
    before = arrays.pop(f"held_out.{name}", None)
    if change is not None:
        arrays[f"held_out.{name}"] = change(before)
    with pytest.raises(SurrogateFileError, match="the store is damaged"):
        Surrogate.from_arrays(arrays, "the store")


def test_held_out_data_of_other_dimensions_are_refused(surrogate):
    arrays = surrogate.as_arrays(held_out=True)
    for name in ("held_out.positions", "held_out.gradients"):
        arrays[name] = arrays[name][:, :1]
    with pytest.raises(SurrogateFileError, match="held-out data of 1 in 2 dimensions"):
        Surrogate.from_arrays(arrays, "the store")


def test_a_layout_replaces_the_restored_one():
    layout = posterior("ab").layout
    arrays = fitted(layout).as_arrays()
    restored = Surrogate.from_arrays(arrays, "the store").layout
    assert (restored.treedef, restored.names, restored.shapes) == (None, ("a", "b"), ((1,), (1,)))
    assert Surrogate.from_arrays(arrays, "the store", layout=layout).layout is layout
    with pytest.raises(SurrogateFileError, match=r"of 3 dimensions.*and it has 2"):
        Surrogate.from_arrays(arrays, "the store", layout=ParameterLayout.of(np.zeros(3)))


def posterior(names):
    return Posterior(
        lambda p, data: -0.5 * sum(jnp.sum(part**2) for part in p.values()),
        None,
        None,
        {name: np.zeros(2 // len(names)) for name in names},
    )


def three_dimensions():
    return Posterior(lambda p, data: -jnp.sum(p**2), None, None, np.zeros(3))


def test_a_surrogate_knows_which_posterior_it_fits(tmp_path):
    surrogate = fitted(posterior("a").layout)
    surrogate.save(tmp_path / "a")
    loaded = load_surrogate(tmp_path / "a")
    loaded.check_fits(posterior("a"))
    with pytest.raises(SettingsError, match=r"\('a',\).*\('a', 'b'\)"):
        loaded.check_fits(posterior("ab"))
    with pytest.raises(SettingsError, match="2 dimensions cannot serve a posterior of 3"):
        loaded.check_fits(three_dimensions())


def test_sampling_refuses_a_surrogate_of_other_dimensions(surrogate):
    method = nnghmc.NNgHMC(surrogate=surrogate)
    with pytest.raises(SettingsError, match="2 dimensions cannot serve a posterior of 3"):
        nnghmc.sample(three_dimensions(), method=method, progress=False)


def test_priors_that_cannot_be_replaced_raise_a_clear_error(tmp_path):
    surrogate = fitted(posterior("a").layout)
    surrogate.save(tmp_path / "a")
    with pytest.raises(SettingsError, match="Pass the two posteriors"):
        load_surrogate(tmp_path / "a").with_prior(lambda p: 0.0, None)
    single = from_log_density(lambda p: -jnp.sum(p["a"] ** 2), {"a": np.zeros(2)})
    with pytest.raises(SettingsError, match="prior that is separate from its likelihood"):
        surrogate.with_prior(single, single)
    with pytest.raises(SettingsError, match="new must be a Posterior"):
        surrogate.with_prior(None, 3.0)
    with pytest.raises(SettingsError, match="both priors must be those of the surrogate's param"):
        surrogate.with_prior(posterior("a"), posterior("ab"))
