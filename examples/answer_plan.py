#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers a plan of `qkvet judge --ask` with NumPy: python3 answer_plan.py FOLDER."""
import csv
import pathlib
import sys

import numpy as np


def masked_scores(q, k, causal, scale):
    """q [B,H,Tq,d], k [B,H,Tk,d] -> [B,H,Tq,Tk], -inf at hidden keys"""
    scores = q @ k.swapaxes(2, 3) * scale
    if causal != "none":
        rows, keys = scores.shape[2:]
        last = keys - rows if causal == "bottom_right" else 0
        seen = np.tri(rows, keys, last, dtype=bool)
        scores = np.where(seen, scores, -np.inf)
    return scores


def attention(q, k, v, causal, scale):
    """q [B,H,Tq,d], k [B,Hkv,Tk,d], v [B,Hkv,Tk,dv] -> o [B,H,Tq,dv]"""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = masked_scores(q, k, causal, scale)
    top = scores.max(axis=3, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(axis=3, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)  # no key: zeros


def gradient(q, k, v, d_o, o, lse, causal, scale):
    """o and lse [B,H,Tq] as attention gave them -> d_q, d_k, d_v"""
    heads = k.shape[1]
    k, v = (np.repeat(x, q.shape[1] // heads, axis=1) for x in (k, v))
    p = np.exp(masked_scores(q, k, causal, scale) - lse[..., None])
    d_p = d_o @ v.swapaxes(2, 3)
    d_s = p * (d_p - (d_o * o).sum(axis=3, keepdims=True))
    d_k = scale * d_s.swapaxes(2, 3) @ q
    d_v = p.swapaxes(2, 3) @ d_o
    per_group = lambda x: x.reshape(len(x), heads, -1, *x.shape[2:]).sum(2)
    return scale * d_s @ k, per_group(d_k), per_group(d_v)


plan = pathlib.Path(sys.argv[1])
with open(plan / "calls.tsv", newline="") as rows:
    for call in csv.DictReader(rows, delimiter="\t"):
        inputs = [pair.split("=")[1] for pair in call["inputs"].split(",")]
        tensors = [np.load(plan / f"{stored}.npy") for stored in inputs]
        words = call["causal"], np.float32(call["scale"])
        if call["operation"] == "backward":
            outputs = gradient(*tensors, *words)
        else:
            outputs = [attention(*tensors, *words)]
        for name, output in zip(call["outputs"].split(","), outputs):
            np.save(plan / f"{call['call']}.{name}.npy",
                    output.astype(tensors[0].dtype))
