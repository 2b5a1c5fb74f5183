# SPDX-License-Identifier: Apache-2.0
"""Sets with answers that are known without a softmax: by counting, or in decimal
from numbers in a textbook. Fractions are rounded once."""
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from golden.generate import exactly
from golden.generate.sets import Generator
from golden.generate.storage import store

HAND = Generator(__file__, "hand", "by hand")
TYPES = ("f64", "f32", "f16", "bf16")
ALL_FILES = ",q=file,k=file,v=file"


def four(rows):
    """[T,c] as one head of one member."""
    return np.asarray(rows, np.float64)[None, None]


def inputs_of(dtype, q, k, v):
    return {"q": store(q, dtype), "k": store(k, dtype), "v": store(v, dtype)}


def truth(o, lse=None, weights=None):
    given = {"o": o, "lse": lse, "weights": weights}
    return {name: store(x, "f64") for name, x in given.items()
            if x is not None}


def add(name, case, pins, inputs, outputs, **more):
    HAND.add_set(name, case + ALL_FILES, pins, "exact", inputs, outputs,
                 **more)


def nested(rows):
    """The stored values of one head, as lists of floats."""
    return rows.values()[0, 0].tolist()


# ---- What the textbooks show ------------------------------------------------

def equal_scores():
    """Rows 1; 1/2 1/2; 1/3 1/3 1/3; 1/4 1/4 1/4 1/4."""
    T = 4
    thirds = [[float(Fraction(int(j <= i), i + 1)) for j in range(T)]
              for i in range(T)]
    lse = [exactly.ln(i + 1) for i in range(T)]
    for dtype in TYPES:
        inputs = inputs_of(dtype, np.zeros((1, 1, T, 2)),
                           four(np.arange(8).reshape(4, 2)), four(np.eye(T)))
        add(f"equal_scores_{dtype}",
            f"{dtype},B1,H1,Tq4,Tk4,d2,dv4,causal=br",
            "four tokens with equal scores under a causal mask: 1; 1/2 1/2; "
            "1/3 1/3 1/3; 1/4 1/4 1/4 1/4",
            inputs, truth(four(thirds), np.array([[lse]]), four(thirds)))


def weighted(name, shares, values, wanted, dtype):
    """One query with the softmax `shares`, as far as scores can be stored: the
    score of key j is the logarithm of its share, which k holds."""
    keys = [[math.log(share) if share else 0.0] for share in shares]
    T = len(shares)
    query = [[0.0]] * (T - 2) + [[1.0]] if 0.0 in shares else [[1.0]]
    inputs = inputs_of(dtype, four(query), four(keys), four(values))
    q, k, v = (nested(inputs[name]) for name in "qkv")
    # A share of 0 is a key in the future of row 1.
    sees = (lambda i, j: j <= i) if 0.0 in shares else (lambda i, j: True)
    weights, o, lse = exactly.attend(q, k, v, Decimal(1), sees)
    np.testing.assert_allclose(o[-1], wanted, rtol=3e-7)
    causal = ",causal=tl" if 0.0 in shares else ""
    text = ", ".join(f"{share:.2f}" for share in shares)
    add(f"{name}_{dtype}",
        f"{dtype},B1,H1,Tq{len(query)},Tk{T},d1,dv2{causal},scale=1",
        f"weights {text} of the last row give {tuple(wanted)}",
        inputs, truth(four(o), np.array([[lse]]), four(weights)))


def weighted_values():
    for dtype in ("f64", "f32"):
        weighted("weighted_two_of_three", (0.80, 0.20, 0.0),
                 [(10, 1), (4, 2), (7, 3)], (8.8, 1.2), dtype)
        weighted("weighted_three", (0.05, 0.90, 0.05),
                 [(1, 9), (3, 6), (5, 2)], (3.0, 5.95), dtype)


def weighted_by_copies():
    """The same shares exactly: 0.80 is four equal keys of five, 0.05 is one of
    twenty."""
    shows = ((("four_fifths", ((4, (10, 1)), (1, (4, 2))))),
             ("nine_tenths", ((1, (1, 9)), (18, (3, 6)), (1, (5, 2)))))
    for name, parts in shows:
        rows = [value for count, value in parts for _ in range(count)]
        T = len(rows)
        o = [[float(Fraction(sum(column), T)) for column in zip(*rows)]]
        weights = [[float(Fraction(1, T))] * T]
        for dtype in TYPES:
            inputs = inputs_of(dtype, four([[2.0, -1.0]]),
                               four([[0.5, 1.0]] * T), four(rows))
            add(f"copies_{name}_{dtype}",
                f"{dtype},B1,H1,Tq1,Tk{T},d2,scale=0.25",
                f"{T} equal keys that share out values: {o[0]}", inputs,
                truth(four(o), np.array([[[exactly.ln(T)]]]), four(weights)))


SCORES = [[2, 1, 0, -1], [1, 3, 2, 0], [2, 1, 4, 3], [0, 1, 2, 3]]
VALUES = [(1, 0), (0, 1), (2, 2), (9, 9)]


def score_matrix():
    """q is the matrix of scores, k the unit matrix."""
    for dtype in TYPES:
        for scale, factor, text in ((Decimal(1), 1, ",scale=1"),
                                    (exactly.usual_scale(4), 2, "")):
            inputs = inputs_of(dtype, four(SCORES) * factor, four(np.eye(4)),
                               four(VALUES))
            q, k, v = (nested(inputs[name]) for name in "qkv")
            weights, o, lse = exactly.attend(q, k, v, scale,
                                             lambda i, j: j <= i)
            assert max(max(row) for row in o[:3]) < 2.0000001
            kind = "given" if text else "usual"
            add(f"score_matrix_{kind}_scale_{dtype}",
                f"{dtype},B1,H1,Tq4,Tk4,d4,dv2,causal=br{text}",
                "a causal matrix of scores: row 2 sees 2, 1, 4 and never the "
                "value (9, 9) of key 3",
                inputs, truth(four(o), np.array([[lse]]), four(weights)))


# ---- Uniform, one-hot, needle -----------------------------------------------

def uniform():
    """Equal keys: a row is the mean of the values that it sees."""
    T = 7
    values = [[(3 * j + c * c) % 8 - 3 for c in range(5)] for j in range(T)]
    rules = (("all", "scale=1", lambda i: range(T)),
             ("causal", "causal=tl,scale=1", lambda i: range(i + 1)),
             ("window", "scale=1,window=2.1",
              lambda i: range(max(0, i - 2), min(T, i + 2))))
    # Every score of row i is 3 - i.
    queries, keys = four([[i, -i, 1] for i in range(T)]), four([[0, 1, 3]] * T)
    for kind, tokens, seen in rules:
        o = [[float(Fraction(sum(values[j][c] for j in seen(i)),
                             len(seen(i)))) for c in range(5)]
             for i in range(T)]
        lse = [exactly.ln(len(seen(i)), 3 - i) for i in range(T)]
        add(f"uniform_{kind}", f"f32,B1,H1,Tq{T},Tk{T},d3,dv5,{tokens}",
            "equal scores: a row is the mean of the values that it sees",
            inputs_of("f32", queries, keys, four(values)),
            truth(four(o), np.array([[lse]])))


def one_hot():
    """V is the unit matrix, so the answer is the weights."""
    T = 6
    for own in range(T):
        keys = [[0.0]] * T
        keys[own] = [1.0]
        case = f"f32,B1,H1,Tq1,Tk{T},d1,dv{T},scale=1"
        inputs = inputs_of("f32", four([[1.0]]), four(keys), four(np.eye(T)))
        weights, o, lse = exactly.attend(
            nested(inputs["q"]), nested(inputs["k"]), nested(inputs["v"]),
            Decimal(1), lambda i, j: True)
        assert o[0][own] == max(o[0]) and weights == o
        add(f"one_hot_{own}", case,
            f"key {own} has the weight e/(e + 5), the others 1/(e + 5)",
            inputs, truth(four(o), np.array([[lse]]), four(weights)))


def needle():
    """One key is 1024 ahead of all others: its value is the answer, for e^-1024
    of anything here is nothing in any storage type."""
    T, d = 70, 4
    for n, at in enumerate((0, 1, 15, 16, 31, 32, 63, 64, 69)):
        rng = np.random.RandomState(100 + at)
        keys = rng.randint(-2, 3, (1, 1, T, d)).astype(np.float64)
        keys[..., 0] = -8
        keys[0, 0, at, 0] = 120
        queries = rng.randint(0, 2, (1, 1, 2, d)).astype(np.float64)
        queries[..., 0] = 16
        values = rng.randint(-8, 9, (1, 1, T, 3)).astype(np.float64)
        values[0, 0, at] = (1, -2, 5)
        o = np.repeat(values[:, :, at:at + 1], 2, axis=2)
        scores = 0.5 * (queries @ keys.transpose(0, 1, 3, 2))
        dtype = TYPES[n % 4]
        add(f"needle_{at}", f"{dtype},B1,H1,Tq2,Tk{T},d{d},dv3,scale=0.5",
            f"key {at} of {T} takes all: its value comes out",
            inputs_of(dtype, queries, keys, values),
            truth(o, scores[..., at]))


# ---- Lattice, count, hull ---------------------------------------------------

def lattice():
    """Whole and quarter numbers: scores are exact in any order of sums."""
    for number, dtype in enumerate(TYPES):
        rng = np.random.RandomState(40 + number)
        q = rng.randint(-4, 5, (1, 1, 3, 4)).astype(np.float64)
        k = rng.randint(-4, 5, (1, 1, 9, 4)) / 4
        v = rng.randint(-4, 5, (1, 1, 9, 2)).astype(np.float64)
        for causal, offset in (("", 9), (",causal=br", 6), (",causal=tl", 0)):
            weights, o, lse = exactly.attend(
                q[0, 0].tolist(), k[0, 0].tolist(), v[0, 0].tolist(),
                Decimal("0.5"), lambda i, j: j <= i + offset)
            add(f"lattice_{causal[-2:] or 'all'}_{dtype}",
                f"{dtype},B1,H1,Tq3,Tk9,d4,dv2{causal},scale=0.5",
                "whole and quarter numbers: every score is exact, whatever "
                "the order of its sum",
                inputs_of(dtype, q, k, v),
                truth(four(o), np.array([[lse]]), four(weights)))


def count():
    """q = 0 and V of 0 and 1: the answer is the share of ones, so that each key
    that is lost or doubled shows."""
    for T, dtype in ((1000, "f32"), (1000, "f16"), (257, "bf16"),
                     (129, "f64"), (97, "f32"), (33, "f16"), (1, "f32")):
        rng = np.random.RandomState(T)
        ones = rng.randint(0, 2, (1, 1, T, 2)).astype(np.float64)
        share = [[float(Fraction(int(n), T)) for n in ones[0, 0].sum(axis=0)]]
        inputs = inputs_of(dtype, np.zeros((1, 1, 1, 1)),
                           rng.randint(-3, 4, (1, 1, T, 1)), ones)
        add(f"count_{T}_{dtype}", f"{dtype},B1,H1,Tq1,Tk{T},d1,dv2",
            f"{T} keys of equal score, values 0 and 1: the share of ones",
            inputs, truth(four(share), np.array([[[exactly.ln(T)]]])))


def hull():
    """Equal values are returned for any weights, also the largest number of the type."""
    shows = [("tenths", dtype, 0.1) for dtype in TYPES]
    shows += [("most_f16", "f16", 65504.0),
              ("half_most_f32", "f32", 2.0**120),
              ("least", "f32", 2.0**-126)]
    for name, dtype, value in shows:
        rng = np.random.RandomState(7)
        q, k = rng.randn(1, 1, 3, 8), rng.randn(1, 1, 11, 8)
        stored = store(np.full((1, 1, 11, 2), value), dtype)
        inputs = inputs_of(dtype, q, k, stored.values())
        name = name if dtype in name or name == "least" else f"{name}_{dtype}"
        add(f"hull_{name}", f"{dtype},B1,H1,Tq3,Tk11,d8,dv2",
            "equal values come out whatever the weights are",
            inputs, truth(stored.values()[:, :, :3]))


def one_key():
    """A single key has weight 1 for any score."""
    for dtype, size in (("f32", 0.0), ("f32", 3e4), ("f16", 200.0),
                        ("bf16", 1e10)):
        q = np.full((1, 2, 1, 4), size)
        k = np.full((1, 1, 1, 4), -size)
        v = store(np.array([[[[0.1, -7.0, 1e-3]]]]), dtype).values()
        scale = 0.5
        score = store(q, dtype).values()[0, 0, 0, 0] ** 2 * -4 * scale
        add(f"one_key_{int(math.log10(size + 1))}_{dtype}",
            f"{dtype},B1,H2,Hkv1,Tq1,Tk1,d4,dv3",
            f"one key has weight 1 at a score of {score:g}",
            inputs_of(dtype, q, k, v),
            truth(np.repeat(v, 2, axis=1), np.full((1, 2, 1), score),
                  np.ones((1, 2, 1, 1))))


def make():
    for write in (equal_scores, weighted_values, weighted_by_copies,
                  score_matrix, uniform, one_hot, needle, lattice, count, hull,
                  one_key):
        write()
    return HAND
