"""Real data: found in a folder or fetched, checked, and coded as the paper's shapes ask."""

import gzip
import hashlib
import lzma
import os
import sys
from io import BytesIO
from zipfile import ZipFile

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pooch
import pytest

from nnghmc.paper import data, regressions
from nnghmc.paper.data import DataError, DataSet, File

CONTENTS = b"1,2,3\n"
SHA256 = hashlib.sha256(CONTENTS).hexdigest()


def data_set(url="https://example.org/a.zip", member="inside/a.csv", sha256=SHA256):
    return DataSet("A data set", "Somebody (2000)", (File("a/a.csv", url, member, sha256),))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    (tmp_path / "a").mkdir()
    return tmp_path


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(pooch, "retrieve", refuse)


@pytest.mark.parametrize(
    ("ending", "packed"), [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress)]
)
def test_a_file_of_the_folder_is_read_as_it_is_or_unpacked(folder, no_network, ending, packed):
    (folder / "a" / f"a.csv{ending}").write_bytes(packed(CONTENTS))
    (file,) = data_set().contents()
    assert file.read() == CONTENTS


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("given", [True, False])
def test_missing_data_without_a_network_tell_both_ways_out(tmp_path, monkeypatch, given):
    if given:
        monkeypatch.setenv(data.FOLDER, str(tmp_path))
    else:
        monkeypatch.delenv(data.FOLDER, raising=False)
    with pytest.raises(DataError, match=r"no route to host.*network.*NNGHMC_DATA.*a/a.csv"):
        data_set().contents()


def test_downloading_without_pooch_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    monkeypatch.setitem(sys.modules, "pooch", None)
    words = r'Pooch.*pip install "nnghmc\[paper\]".*NNGHMC_DATA.*a/a.csv'
    with pytest.raises(DataError, match=words):
        data_set().contents()


def test_data_of_the_folder_need_no_pooch(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    (folder / "a" / "a.csv").write_bytes(CONTENTS)
    (file,) = data_set().contents()
    assert file.read() == CONTENTS


def test_another_file_under_the_name_is_refused(folder, no_network):
    (folder / "a" / "a.csv").write_bytes(b"4,5,6\n")
    with pytest.raises(DataError, match=f"should be {SHA256[:12]}"):
        data_set().contents()


@pytest.mark.parametrize("member", ["inside/a.csv", "inside/a.csv.gz", None])
def test_what_is_fetched_is_taken_out_of_its_archive(tmp_path, monkeypatch, member):
    monkeypatch.delenv(data.FOLDER, raising=False)
    archive = tmp_path / "fetched"
    packed = gzip.compress(CONTENTS) if member and member.endswith(".gz") else CONTENTS
    if member is None:
        archive.write_bytes(packed)
    else:
        with ZipFile(archive, "w") as made:
            made.writestr(member, packed)
    asked = {}

    def retrieve(url, known_hash, path, downloader):
        asked.update(url=url, path=str(path), bar=downloader.progressbar)
        return str(archive)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    (file,) = data_set(member=member).contents()
    assert file.read() == CONTENTS
    assert asked["url"] == "https://example.org/a.zip"
    assert "nnghmc" in asked["path"]
    assert isinstance(asked["bar"], data.DownloadBar)


def test_the_bar_of_a_download_goes_as_pooch_asks(capsys):
    bar = data.DownloadBar("A data set")
    bar.total = 2000
    bar.update(500)
    bar.reset()
    bar.update(2000)
    bar.close()
    assert bar.total == 2000
    assert "A data set" in capsys.readouterr().err


@pytest.mark.parametrize(
    "known", [data.COVER_TYPE, data.ONLINE_NEWS, data.CENSUS_INCOME, data.DOTA2]
)
def test_every_data_set_names_its_owners_and_its_licence(known):
    assert "CC BY 4.0" in known.credit
    assert "doi 10.24432/" in known.credit
    assert all(file.url.startswith("https://") for file in known.files)


def use(monkeypatch, *contents):
    """Let every data set have these contents."""
    monkeypatch.setattr(DataSet, "contents", lambda self: [BytesIO(part) for part in contents])


def as_csv(table):
    return "\n".join(",".join(f"{value:g}" for value in row) for row in table).encode()


def test_cover_type_has_an_intercept_and_no_indicators_that_sum_to_one(monkeypatch):
    generator = np.random.default_rng(0)
    measured = generator.integers(0, 100, (30, 10))
    wilderness = np.eye(4)[np.r_[np.ones(10, int), generator.integers(0, 4, 20)]]
    soil = np.eye(40)[np.arange(30) % 40]
    kinds = 1 + np.arange(30) % 7
    use(monkeypatch, as_csv(np.column_stack([measured, wilderness, soil, kinds])))
    found = regressions.cover_type()
    assert found.features.shape == (30, 1 + 10 + 3 + 39)
    np.testing.assert_allclose(found.features[:, 0], 1)
    np.testing.assert_allclose(found.features[:, 1:11].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found.features[:, 1:11].std(axis=0), 1)
    np.testing.assert_array_equal(found.features[:, 11:14], np.delete(wilderness, 1, axis=1))
    np.testing.assert_array_equal(found.labels, kinds == 2)
    assert "CC BY 4.0" in found.words


def news_table(rows=40):
    generator = np.random.default_rng(0)
    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    names = ["timedelta", "n_unique_tokens", *(f"measured_{number}" for number in range(43))]
    names += [f"data_channel_is_{number}" for number in range(6)]
    names += [*(f"weekday_is_{day}" for day in days), "is_weekend"]
    table = pd.DataFrame(generator.normal(size=(rows, len(names))), columns=names)
    table.insert(0, "url", "https://example.org")
    table["n_unique_tokens"] = generator.uniform(size=rows)
    table["shares"] = np.arange(rows) + 1
    return table


def test_online_news_keeps_the_44_columns_that_are_measured_and_the_rows_that_are_sound(
    monkeypatch,
):
    table = news_table()
    table.loc[7, "n_unique_tokens"] = 701.0
    monkeypatch.setattr(regressions, "NEWS_SHAPE", (40, 61))
    monkeypatch.setattr(regressions, "NEWS_MEAN_SHARES", 20.5)
    use(monkeypatch, table.to_csv(index=False).replace(",", ", ").encode())
    found = regressions.online_news()
    assert found.features.shape == (39, 44)
    np.testing.assert_allclose(found.features.std(axis=0), 1)
    np.testing.assert_array_equal(found.labels, np.delete(np.arange(40) >= 20, 7))


def test_online_news_of_another_shape_is_refused(monkeypatch):
    use(monkeypatch, news_table().to_csv(index=False).encode())
    with pytest.raises(DataError, match="39,644 rows"):
        regressions.online_news()


def test_census_income_is_read_from_indices_of_what_is_present(monkeypatch):
    use(monkeypatch, b"-1 3:1 11:1 \n+1 1:1 123:1\n", b"+1 2:1\n")
    found = regressions.census_income()
    assert found.features.shape == (3, 123)
    assert [list(np.flatnonzero(row > 0)) for row in found.features] == [[2, 10], [0, 122], [1]]
    np.testing.assert_allclose(np.unique(found.features.std(axis=0)), [0, 1], atol=1e-12)
    np.testing.assert_array_equal(found.labels, [0, 1, 1])


def test_dota2_loses_its_constant_columns(monkeypatch):
    generator = np.random.default_rng(0)
    table = generator.integers(-1, 2, (20, 117)).astype(float)
    table[:, [27, 111]] = 0
    use(monkeypatch, as_csv(table[:15]), as_csv(table[15:]))
    found = regressions.dota2()
    assert found.features.shape == (20, 114)
    assert np.isfinite(found.features).all()
    np.testing.assert_array_equal(found.labels, table[:, 0] > 0)


@pytest.mark.skipif(data.FOLDER not in os.environ, reason="the real data are not here")
@pytest.mark.parametrize(
    ("load", "shape"),
    [
        (regressions.online_news, (39_643, 44)),
        (regressions.census_income, (48_842, 123)),
        (regressions.dota2, (102_944, 114)),
    ],
)
def test_the_real_data_have_the_paper_s_shapes(load, shape):
    found = load()
    assert found.features.shape == shape
    assert 0.2 < found.labels.mean() < 0.6


def test_the_approximation_is_around_the_mode_and_as_wide_as_the_posterior_is_curved():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(500, 3))
    labels = (features @ [1.0, -1.0, 0.5] + generator.logistic(size=500) > 0).astype(float)
    found = regressions.Regression(features, labels, data.DOTA2, "")
    about = found.approximation()
    posterior = found.posterior(about.mean)
    np.testing.assert_allclose(posterior.potential_and_gradient(about.mean)[1], 0, atol=1e-8)
    curvature = jax.hessian(posterior.potential)(jnp.asarray(about.mean))
    np.testing.assert_allclose(about.covariance @ curvature, np.eye(3), atol=1e-8)
    drawn = about.draws(20_000, seed=0)
    np.testing.assert_allclose(np.cov(drawn.T), about.covariance, atol=0.03 * 0.02)
    np.testing.assert_allclose(drawn.mean(axis=0), about.mean, atol=0.005)
    along = about.axes.T @ about.covariance @ about.axes
    np.testing.assert_allclose(along, np.diag(np.linalg.eigvalsh(about.covariance)), atol=1e-12)
