# SPDX-License-Identifier: Apache-2.0
"""Objects that are KV caches."""
import pathlib
import re

import kernels
import numpy as np
import pytest
import qkvet
from qkvet import _cache


def assert_fails(cache, law):
    report = qkvet.check(cache, laws=[law], cases=200, diagnose=0)
    assert report.verdict == "failed", report.text


def test_a_right_cache_conforms():
    report = qkvet.check(kernels.Cache, cases=400)
    assert report.ok, report.text
    assert report.law("cache_decode_equals_prefill").verdict == "passed"


def test_a_reset_that_keeps_a_token_is_found():
    report = qkvet.check(kernels.KeepsOnReset, cases=300)
    assert report.verdict == "failed", report.text
    assert report.failures[0].cause, report.text


def test_the_options_are_those_of_the_header():
    header = (pathlib.Path(__file__).parents[2]
              / "include/qkvet/cache.h").read_text()
    found = dict(re.findall(
        r"#define QKVET_CACHE_(\w+) \(UINT64_C\(1\) << (\d+)\)", header))
    found.pop("ROPE")
    assert _cache.OPTIONS == {name.lower(): 1 << int(bit)
                              for name, bit in found.items()}


@qkvet.cache(options="scale default_scale grouped_heads", cache="window")
class Windowed(kernels.Cache):
    late = 0

    def __init__(self, window, first_tokens, rollback, **sizes):
        super().__init__(**sizes)
        self.window, self.first = window, first_tokens

    def hidden(self, rows, keys, tokens):
        at = rows + tokens - rows.shape[0]
        behind = at - keys >= self.window + self.late
        return (keys > at) | (behind & (keys >= self.first) if self.window else False)


class SeesOneMore(Windowed):
    late = 1


def test_a_window_is_judged():
    report = qkvet.check(Windowed, cases=400)
    assert report.ok, report.text
    assert_fails(SeesOneMore, "cache_agrees_with_history")


@qkvet.cache(options="scale default_scale grouped_heads",
             cache="int8_per_channel int8_per_token")
class Codes(kernels.Cache):
    """Keeps the values of the codes."""

    def __init__(self, stored, scales, k_scale, v_scale, **sizes):
        super().__init__(**sizes)
        self.scales, self.given = scales, (k_scale, v_scale)

    def nearest(self, array, given):
        if self.scales is None:
            return array
        unit = (given[:, None] if self.scales == "per_channel" else
                np.abs(array).max(-1, keepdims=True) / np.float32(127))
        codes = np.rint(np.divide(array, unit, out=np.zeros_like(array),
                                  where=unit != 0))
        return (np.clip(codes, -127, 127) * unit).astype(np.float32)

    def append(self, sequence, k, v):
        super().append(sequence, *(self.nearest(one, unit)
                                   for one, unit in zip((k, v), self.given)))

    def read_back(self, sequence):
        return self.rows[sequence]


class OneScale(Codes):
    def nearest(self, array, given):
        if self.scales == "per_channel":
            given = np.full_like(given, given.max())
        return super().nearest(array, given)


def test_codes_are_judged():
    report = qkvet.check(Codes, cases=400)
    assert report.ok, report.text
    assert report.law("cache_stores_what_it_is_given").verdict == "passed"
    assert report.law("cache_answers_from_what_it_stores").verdict == "passed"
    assert_fails(OneScale, "cache_stores_what_it_is_given")


@qkvet.cache(options="scale default_scale grouped_heads",
             cache="alibi sink softcap mask bias")
class Scores(kernels.Cache):
    def __init__(self, slopes, sink, softcap, **sizes):
        super().__init__(**sizes)
        self.slopes, self.sink, self.softcap = slopes, sink, softcap

    def attend(self, sequence, q, mask, bias):
        k, v = (np.repeat(one, q.shape[0] // one.shape[0], 0)
                for one in self.rows[sequence])
        scores = q @ k.swapaxes(-1, -2) * self.scale
        if self.softcap is not None:
            scores = self.softcap * np.tanh(scores / np.float32(self.softcap))
        rows, keys = np.indices(scores.shape[-2:])
        far = self.far(rows + k.shape[1] - q.shape[1] - keys, q)
        if self.slopes is not None:
            scores = scores - self.slopes[:, None, None] * far.astype(np.float32)
        if bias is not None:
            scores = scores + self.added(bias, q)
        hidden = far < 0 if mask is None else (far < 0) | ~mask
        scores = np.where(hidden, np.float32(-np.inf), scores)
        if self.sink is not None:
            sink = np.broadcast_to(self.sink[:, None, None], scores[..., :1].shape)
            scores = np.concatenate([scores, sink], -1)
            v = np.concatenate([v, np.zeros_like(v[:, :1])], 1)
        return kernels.softmax_values(scores.astype(np.float32), v)

    def far(self, far, q):
        return far

    def added(self, bias, q):
        return bias


class AlibiOfTheQueries(Scores):
    def far(self, far, q):
        return np.where(far < 0, far, np.minimum(far, q.shape[1] - 1))


class BiasInPrefillOnly(Scores):
    def added(self, bias, q):
        return bias if q.shape[1] > 1 else 0


def test_what_is_added_to_scores_is_judged():
    report = qkvet.check(Scores, cases=400)
    assert report.ok, report.text
    assert_fails(AlibiOfTheQueries, "cache_agrees_with_history")
    assert_fails(BiasInPrefillOnly, "cache_decode_equals_prefill")


def test_a_word_that_is_none_is_refused():
    with pytest.raises(qkvet.WrongUse, match="cache = 'ring'; allowed: grows, window"):
        qkvet.check(kernels.Cache, cases=1, cache="ring")
