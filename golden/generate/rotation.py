# SPDX-License-Identifier: Apache-2.0
"""Rotary positions (Su et al., "RoFormer", 2021), by complex multiplication,
and the tables that a case makes, which core/cases.md defines: row p is the
p-th power of an exact turn. They are rounded to f32, to f64 where q is that."""
import numpy as np


def half_tangent(n, pairs):
    """The tangent of half the angle of pair n: it halves 13 times over all pairs,
    and is linear in between."""
    whole, rest = divmod(13 * n, pairs)
    return 0.5 * (1 - rest / pairs / 2) / 2 ** whole


def rope_tables(case, rows):
    """Complex [rows, pairs]: cos + i sin. The products are those of the case,
    in its order, so that the tables are the same bit for bit."""
    pairs = case.d // 2
    t = np.array([half_tangent(n, pairs) for n in range(pairs)])
    turn_cos, turn_sin = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    x, y = np.ones(pairs), np.zeros(pairs)
    cos, sin = [], []
    for _ in range(rows):
        cos.append(x)
        sin.append(y)
        x, y = x * turn_cos - y * turn_sin, x * turn_sin + y * turn_cos
    dtype = np.float64 if case.q_type == "f64" else np.float32
    shape = (rows, pairs)
    real, imaginary = (np.array(table).reshape(shape).astype(dtype)
                       for table in (cos, sin))
    return real.astype(np.float64) + 1j * imaginary.astype(np.float64)


def rotate(rows, positions, tables, style):
    """`rows` [..., T, d], `positions` [..., T]."""
    half = rows.shape[-1] // 2
    if style == "half":
        numbers = rows[..., :half] + 1j * rows[..., half:]
    else:
        numbers = rows[..., 0::2] + 1j * rows[..., 1::2]
    turned = numbers * tables[positions]
    if style == "half":
        return np.concatenate([turned.real, turned.imag], axis=-1)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(rows.shape)
