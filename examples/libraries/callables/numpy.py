# SPDX-License-Identifier: Apache-2.0
"""NumPy as a callable: a definition to start from, and a control that must
fail."""
import numpy as np


def callable(q, k, v, *, scale=None, mask=None):
    scale = q.dtype.type(q.shape[3] ** -0.5 if scale is None else scale)
    scores = q @ k.swapaxes(2, 3) * scale
    if mask is not None:
        scores = np.where(mask, scores, scores.dtype.type(-np.inf))
    top = scores.max(axis=3, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=3, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v  # no key: zeros


def callable_without_scale(q, k, v, *, scale=None, mask=None):
    return callable(q, k, v, scale=1, mask=mask)
