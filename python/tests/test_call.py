# SPDX-License-Identifier: Apache-2.0
"""One call, judged by the bound of each element."""
import numpy as np
import pytest

import kernels
import qkvet
import signatures


def call(dtype=np.float32):
    rng = np.random.default_rng(5)
    return [rng.standard_normal((2, 3, n, 16)).astype(dtype) for n in (7, 9, 9)]


def test_a_right_answer_is_close():
    q, k, v = call()
    report = qkvet.assert_close(kernels.attention(q, k, v), q, k, v)
    assert report.ok


def test_an_answer_that_a_loose_tolerance_takes_is_not():
    q, k, v = call()
    wrong = kernels.attention(q * np.float32(1.001), k, v)
    np.testing.assert_allclose(wrong, kernels.attention(q, k, v), atol=1e-2)
    with pytest.raises(qkvet.LawFailed, match="allowed"):
        qkvet.assert_close(wrong, q, k, v)


def test_a_report_names_no_file_that_is_gone():
    q, k, v = call()
    with pytest.raises(qkvet.LawFailed) as failed:
        qkvet.assert_close(kernels.attention(q * np.float32(2), k, v), q, k, v)
    text = str(failed.value)
    assert "qkvet judge" not in text and "call.safetensors" not in text
    # QKVet's own frames, which pytest hides.
    frames = [entry for entry in failed.traceback
              if "qkvet" in str(entry.path) and "tests" not in str(entry.path)]
    assert frames and all(entry.frame.f_locals.get("__tracebackhide__")
                          for entry in frames)


def test_a_window_has_two_sides():
    q, k, v = call()
    for window in (2, "2", (1, 2, 3)):
        with pytest.raises(qkvet.WrongUse, match="allowed: .left, right."):
            qkvet.assert_close(q, q, k, v, window=window)


def test_words_of_a_call():
    q, k, v = call()
    hidden = signatures.beyond(7, 9, 2)
    o = signatures.attend(q, k, v, 0.3, hidden)
    assert qkvet.assert_close(o, q, k, v, causal="bottom_right", scale=0.3).ok
    for words in ({"scale": 0.3}, {"causal": "bottom_right"},
                  {"causal": "top_left", "scale": 0.3}):
        with pytest.raises(qkvet.LawFailed):
            qkvet.assert_close(o, q, k, v, **words)
    mask = np.broadcast_to(~hidden, (2, 3, 7, 9))
    assert qkvet.assert_close(o, q, k, v, scale=0.3, mask=mask).ok


def test_a_window_and_a_softcap():
    q, k, v = call()
    # Query i is at key i + 2, and sees that key and the one before it.
    keys, row = np.arange(9), np.arange(7)[:, None] + 2
    hidden = (keys > row) | (keys < row - 1)
    o = signatures.attend(q, k, v, 0.25, hidden)
    assert qkvet.assert_close(o, q, k, v, window=(1, 0)).ok
    for window in ((1, 1), (2, 0), (0, 0)):
        with pytest.raises(qkvet.LawFailed):
            qkvet.assert_close(o, q, k, v, window=window)
    capped = qkvet.reference(q, k, v, window=(1, 0), softcap=0.5)
    assert np.all(capped.weights[..., hidden] == 0)
    plain = qkvet.reference(q, k, v, window=(1, 0))
    assert not np.allclose(capped.o, plain.o)


def test_time_first():
    q, k, v = call()
    o = kernels.attention(q, k, v)
    swapped = [one.swapaxes(1, 2) for one in (o, q, k, v)]
    assert qkvet.assert_close(*swapped, layout="bthd").ok


def test_what_is_no_call_is_one_line():
    q, k, v = call()
    with pytest.raises(qkvet.WrongUse, match="causal = 'left'"):
        qkvet.assert_close(q, q, k, v, causal="left")
    with pytest.raises(qkvet.WrongUse) as wrong:
        qkvet.assert_close(kernels.attention(q, k, v), q, k[:, :2], v)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("layout", [None, "bthd"])
def test_the_reference_and_its_bound(layout):
    q, k, v = call()
    hidden = signatures.beyond(7, 9, 2)
    exact = signatures.attend(*(one.astype(np.float64) for one in (q, k, v)),
                              0.3, hidden)
    given = (q, k, v) if layout is None else [
        one.swapaxes(1, 2) for one in (q, k, v)]
    said = qkvet.reference(*given, causal="bottom_right", scale=np.float32(0.3),
                           layout=layout)
    np.testing.assert_allclose(said.o, exact, rtol=1e-6)
    assert said.weights.shape == (2, 3, 7, 9)
    np.testing.assert_allclose(said.weights.sum(-1), 1, rtol=1e-12)
    o = signatures.attend(q, k, v, 0.3, hidden)
    assert (np.abs(o - said.o) <= said.bound["o"]).all()
    assert (said.bound["o"] < 1e-4).all()
    # A coarser arithmetic allows more.
    coarse = qkvet.reference(*given, causal="bottom_right", scale=0.3,
                             layout=layout, precision={"exp_error": "1e-4"})
    assert (coarse.bound["o"] > said.bound["o"]).all()
    with pytest.raises(qkvet.WrongUse):
        qkvet.reference(q, k[:, :, :3], v)
