#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers a plan of `qkvet emit` with NumPy: python3 answer_plan.py FOLDER."""
import csv
import pathlib
import sys

import numpy as np


def attention(q, k, v, causal, scale):
    """q [B,H,Tq,d], k [B,Hkv,Tk,d], v [B,Hkv,Tk,dv] -> o [B,H,Tq,dv]"""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * scale
    if causal != "none":
        rows, keys = scores.shape[2:]
        last = keys - rows if causal == "bottom_right" else 0
        seen = np.tri(rows, keys, last, dtype=bool)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=3, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(axis=3, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)  # no key: zeros


plan = pathlib.Path(sys.argv[1])
with open(plan / "calls.tsv", newline="") as rows:
    for call in csv.DictReader(rows, delimiter="\t"):
        folder = plan / call["folder"]
        q, k, v = (np.load(folder / f"{name}.npy") for name in "qkv")
        o = attention(q, k, v, call["causal"], np.float32(call["scale"]))
        np.save(folder / "o.npy", o.astype(q.dtype))
