# SPDX-License-Identifier: Apache-2.0
"""NumPy functions with the signatures of known libraries."""
import numpy as np

import qkvet


def attend(q, k, v, scale, hidden=None, added=None):
    """[..., H, T, d] of each; key/value heads are repeated."""
    group = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(one, group, -3) for one in (k, v))
    scale = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    scores = q @ k.swapaxes(-1, -2) * scale
    if added is not None:
        scores = scores + added
    if hidden is not None:
        scores = np.where(hidden, np.float32(-np.inf), scores)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)


def beyond(queries, keys, shift):
    rows, columns = np.indices((queries, keys))
    return columns > rows + shift


def scaled_dot_product_attention(query, key, value, attn_mask=None,
                                 dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    assert enable_gqa or query.shape[1] == key.shape[1]
    hidden = added = None
    if is_causal:
        hidden = beyond(query.shape[2], key.shape[2], 0)
    elif attn_mask is not None and attn_mask.dtype == np.bool_:
        hidden = ~attn_mask
    else:
        added = attn_mask
    return attend(query, key, value, scale, hidden, added)


def flash_attn_func(q, k, v, softmax_scale=None, causal=False,
                    window_size=(-1, -1), softcap=0.0, alibi_slopes=None):
    if softcap or alibi_slopes is not None:
        raise qkvet.Refused("no softcap and no slopes here")
    queries, keys = q.shape[1], k.shape[1]
    left, right = window_size
    right = 0 if causal else right
    rows, columns = np.indices((queries, keys))
    diagonal = rows + keys - queries
    hidden = np.zeros((queries, keys), bool)
    if right >= 0:
        hidden |= columns > diagonal + right
    if left >= 0:
        hidden |= columns < diagonal - left
    q, k, v = (one.swapaxes(1, 2) for one in (q, k, v))
    return attend(q, k, v, softmax_scale, hidden).swapaxes(1, 2)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
                           max_seqlen_k, softmax_scale=None, causal=False):
    o = np.zeros((*q.shape[:2], v.shape[2]), q.dtype)
    for n in range(len(cu_seqlens_q) - 1):
        rows = slice(cu_seqlens_q[n], cu_seqlens_q[n + 1])
        keys = slice(cu_seqlens_k[n], cu_seqlens_k[n + 1])
        assert rows.stop - rows.start <= max_seqlen_q
        assert keys.stop - keys.start <= max_seqlen_k
        if rows.stop == rows.start or keys.stop == keys.start:
            continue
        o[rows] = flash_attn_func(q[None, rows], k[None, keys], v[None, keys],
                                  softmax_scale, causal)[0]
    return o


def dot_product_attention(query, key, value, bias=None, mask=None, scale=None,
                          is_causal=False, query_seq_lengths=None,
                          key_value_seq_lengths=None):
    hidden = np.zeros((1, 1, query.shape[1], key.shape[1]), bool)
    if is_causal:
        hidden = hidden | beyond(query.shape[1], key.shape[1], 0)
    if mask is not None:
        hidden = hidden | ~mask
    if key_value_seq_lengths is not None:
        columns = np.arange(key.shape[1])
        hidden = hidden | (columns >= key_value_seq_lengths[:, None, None, None])
    q, k, v = (one.swapaxes(1, 2) for one in (query, key, value))
    return attend(q, k, v, scale, hidden, bias).swapaxes(1, 2)


@qkvet.kernel(options="scale cross_lengths")
def time_first(q, k, v, scale=None):
    """[B, T, H, d]"""
    q, k, v = (one.swapaxes(1, 2) for one in (q, k, v))
    return attend(q, k, v, scale).swapaxes(1, 2)
