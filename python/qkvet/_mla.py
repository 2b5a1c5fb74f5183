# SPDX-License-Identifier: Apache-2.0
"""Adapters for the calls of FlashMLA: one cache of latent rows, with the values in
the first channels. `qkvet.adapters` has their names.

Signatures: FlashMLA, flash_mla/flash_mla_interface.py. v is a view of k in every
such call (values_in_keys) and is not copied.
"""
import sys

import numpy as np

from ._adapt import adapter, bthd_of
from ._serving import _ints, _numbers, _zeros
from .declare import Refused


def _integers(array):
    """A small array of integers on any device, in NumPy."""
    return np.asarray(array.tolist(), np.int64)


@adapter(like="flash_mla", arrays="torch", device="cuda",
         precision={"preset": "flash_half"})
def flash_mla(function):
    """flash_mla_sparse_fwd(q, kv, indices, sm_scale, d_v=512, attn_sink=None,
    topk_length=None): q [T, H, d], kv [Tk, Hkv, d], indices [T, Hkv, topk], and
    it returns o [T, H, d_v], the maxima and lse [T, H]; members one by one."""
    def call(q, k, v, *, scale, key_indices=None, topk_length=None, sink=None):
        if key_indices is None:
            raise Refused("a query sees what its list names, and needs one")
        rows, keys, lists = bthd_of(q), bthd_of(k), bthd_of(key_indices)
        if lists.shape[2] != k.shape[1]:
            raise Refused("a list for each key/value head is taken alone")
        o = _zeros(rows, (*rows.shape[:3], v.shape[3]))
        lse = np.zeros(rows.shape[:3], np.float32)
        if hasattr(q, "new_zeros"):  # torch
            lse = q.float().new_zeros(rows.shape[:3])
        for b, (one, of_keys, listed) in enumerate(zip(rows, keys, lists)):
            words = {"attn_sink": sink, "topk_length":
                     None if topk_length is None else topk_length[b]}
            o[b], _, lse[b] = function(one, of_keys, listed, scale, v.shape[3],
                                       **words)[:3]
        return bthd_of(o), bthd_of(lse)
    return call


def _slots(lists, table, page_size):
    """Places in sequences [B, T, n] as slots of the pool; -1 stays."""
    pages = np.take_along_axis(table[:, None], np.clip(
        lists // page_size, 0, table.shape[1] - 1), 2)
    inside = (lists >= 0) & (lists < table.shape[1] * page_size)
    return np.where(inside, pages * page_size + lists % page_size, -1)


@adapter(like="flash_mla_decode", arrays="torch", device="cuda",
         precision={"preset": "flash_half"})
def flash_mla_decode(function):
    """flash_mla_with_kvcache(q, k_cache, block_table, cache_seqlens, head_dim_v,
    tile_scheduler_metadata, num_splits=None, softmax_scale=None, causal=False,
    indices=None): q [B, T, H, d], k_cache [pages, tokens, Hkv, d], and it returns
    o [B, T, H, dv] and lse [B, H, T]. The metadata are what get_mla_metadata() of
    the function's module returns, or None where there is no such function.

    With options of key_lists beside those of the convention `indices` are given,
    [B, T, topk] slots of the pool; FlashMLA itself takes these over 8 bits alone."""
    plan = getattr(sys.modules.get(function.__module__), "get_mla_metadata", None)

    def call(q, k, v, *, block_table, page_size, kv_len, scale=None, causal=None,
             key_indices=None, q_len=None):
        if causal is not None and q_len is not None:
            raise Refused("the queries of all members are as many")
        words = {}
        if key_indices is not None:
            if causal is not None or key_indices.shape[1] != 1:
                raise Refused("lists are those of one head, and not causal")
            lists = _integers(key_indices)[:, 0]
            lengths = _integers(kv_len)[:, None, None]
            # A key after the last one is none, whatever its slot contains.
            lists = np.where(lists < lengths, lists, -1)
            words["indices"] = _ints(q, _slots(lists, _integers(block_table),
                                               page_size).tolist())
        o, lse = function(bthd_of(q), bthd_of(k), block_table,
                          _ints(q, _numbers(kv_len)), v.shape[3],
                          None if plan is None else plan()[0],
                          softmax_scale=scale, causal=causal is not None, **words)
        return bthd_of(o), lse
    return call
