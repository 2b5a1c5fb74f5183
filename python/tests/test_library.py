# SPDX-License-Identifier: Apache-2.0
"""The array library of a callable, found by the functions that it uses."""
import functools

import numpy as np
import pytest

import kernels
import qkvet
from qkvet._inspected import library_of

jax = pytest.importorskip("jax", reason="the package jax is not installed")
import jax.numpy as jnp


def of_jax(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(jnp.float32(q.shape[-1]))
    return jax.nn.softmax(scores, -1) @ v


def by_a_helper(q, k, v):
    return of_jax(q, k, v)


def and_back(q, k, v):
    return np.asarray(of_jax(q, k, v))


class Attention:
    def __call__(self, q, k, v):
        return of_jax(q, k, v)


@pytest.mark.parametrize("function,library", [
    (kernels.attention, "numpy"), (of_jax, "jax"), (by_a_helper, "jax"),
    (and_back, "numpy"), (jax.jit(of_jax), "jax"), (Attention(), "jax"),
    (functools.partial(of_jax), "jax"), (len, "numpy")])
def test_the_library_is_found(function, library):
    assert library_of(function) == library


def test_a_function_of_jax_is_judged_without_a_declaration():
    report = qkvet.check(of_jax, cases=40)
    assert report.ok, report.text
