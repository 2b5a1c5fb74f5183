# SPDX-License-Identifier: Apache-2.0
"""Heat maps of calls: their contents and colours."""
import numpy as np
import pytest

import kernels
import qkvet
from qkvet import inspect


def call(spoil=0.0, at=(0, 1, 2, 3)):
    q, k, v = np.random.default_rng(1).standard_normal((3, 2, 2, 6, 8),
                                                       dtype=np.float32)
    o = kernels.attention(q, k, v)
    o[at] += spoil
    return inspect.call(o, q, k, v)


def test_how_far_an_element_is_off():
    right = inspect.off_by_bounds(call())
    assert right.shape == (2, 2, 6, 8)
    assert 0 < right.max() < 1
    wrong = inspect.off_by_bounds(call(1e-3))
    assert wrong[0, 1, 2, 3] > 1
    assert (np.delete(wrong.ravel(), np.ravel_multi_index(
        (0, 1, 2, 3), wrong.shape)) < 1).all()
    assert np.isinf(inspect.off_by_bounds(call(np.nan))[0, 1, 2, 3])


def test_tensors_in_time_first():
    q, k, v = np.random.default_rng(1).standard_normal((3, 1, 2, 6, 8),
                                                       dtype=np.float32)
    o = kernels.attention(q, k, v)
    swapped = inspect.call(*(one.swapaxes(1, 2) for one in (o, q, k, v)),
                           layout="bthd")
    assert inspect.off_by_bounds(swapped).max() < 1


def test_the_worst_head_is_drawn(tmp_path):
    pytest.importorskip("matplotlib",
                        reason="the package matplotlib is not installed")
    path = tmp_path / "o.png"
    figure = inspect.figure(call(1e-3), path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert figure.get_suptitle() == "member 0, head 1"
    left, middle, right = figure.axes[:3]
    assert (left.get_title(), middle.get_title()) == ("expected o", "actual o")
    # Only values beyond the bound are red.
    image = right.images[0]
    colours = image.cmap(image.norm(image.get_array()))
    red = (colours[..., 0] > 0.6) & (colours[..., 1] < 0.7)
    assert np.argwhere(red).tolist() == [[2, 3]]
    # A requested head without an error.
    calm = inspect.figure(call(1e-3), member=1, head=0).axes[2].images[0]
    assert calm.get_array().max() < 1


def test_what_is_not_finite_is_counted_and_pink():
    pytest.importorskip("matplotlib",
                        reason="the package matplotlib is not installed")
    figure = inspect.figure(call(np.nan))
    assert figure.axes[1].get_title() == "actual o, 1 not finite (pink)"
    assert np.ma.getmaskarray(figure.axes[1].images[0].get_array()).sum() == 1


def test_an_output_that_is_not_there_is_one_line():
    with pytest.raises(qkvet.WrongUse, match="weights is no output of this call "
                                             "that can be drawn; allowed: o$"):
        inspect.figure(call(), "weights")
