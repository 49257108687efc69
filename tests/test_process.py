# SPDX-License-Identifier: Apache-2.0
"""Where a process keeps what it compiled."""

import jax
import pytest

from holdfast import process


@pytest.fixture
def kept_options():
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_compiled_functions_are_kept_where_jax_was_told(monkeypatch, tmp_path, kept_options):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "mine"))
    process.use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
    assert process.thread_limits(1)["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "mine")


def test_and_in_the_users_cache_where_it_was_not(monkeypatch, tmp_path):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert process.compilation_cache() == f"{tmp_path}/holdfast/jax"
