# SPDX-License-Identifier: Apache-2.0
"""Adapters for the calls of serving libraries: ragged batches, pages, and
wrappers that plan a call before they run it. `qkvet.adapters` has their names.

Signatures: FlashInfer 0.6 (flashinfer/prefill.py, flashinfer/decode.py) and vLLM
(vllm/v1/attention/ops/triton_unified_attention.py, vllm/_custom_ops.py).
"""
import numpy as np

from ._adapt import adapter, bthd_of
from .declare import Refused

_FLASHINFER = {"like": "flashinfer", "arrays": "torch", "device": "cuda",
               "layouts": "bthd", "precision": {"preset": "flash_half"}}
_COMMON = ("causal_bottom_right scale default_scale lse grouped_heads "
           "cross_lengths window softcap")


# ---- Arrays of any framework ------------------------------------------------


def _ints(near, values):
    """int32, of the framework and on the device of `near`."""
    if hasattr(near, "new_tensor"):  # torch
        import torch
        return torch.tensor(values, dtype=torch.int32, device=near.device)
    return np.array(values, np.int32)


def _joined(parts):
    if hasattr(parts[0], "new_tensor"):
        import torch
        return torch.cat(parts)
    return np.concatenate(parts)


def _zeros(near, shape):
    if hasattr(near, "new_zeros"):
        return near.new_zeros(shape)
    return np.zeros(shape, near.dtype)


def _numbers(array):
    return [int(one) for one in array]


def _offsets(lengths):
    return [0, *np.cumsum(lengths).tolist()]


def _padded(packed, lengths, queries):
    """[tokens, ...] as [B, T, ...]; rows beyond a member's length are 0."""
    out = _zeros(packed, (len(lengths), queries, *packed.shape[1:]))
    for member, (first, n) in enumerate(zip(_offsets(lengths), lengths)):
        out[member, :n] = packed[first:first + n]
    return out


class _Queries:
    """Queries of all members, one after the other: `rows` [tokens, H, d], and
    `offsets`, the beginning of each member and the end. A packed batch has this
    form already."""

    def __init__(self, q, q_len, cu_seqlens_q):
        self._queries, rows = q.shape[2], bthd_of(q)
        if cu_seqlens_q is not None:
            self.offsets = _numbers(cu_seqlens_q)
            # Rows after those of the last member are unused.
            self._parts = [self.offsets[-1]]
        else:
            self._parts = ([q.shape[2]] * len(rows) if q_len is None
                           else _numbers(q_len))
            self.offsets = _offsets(self._parts)
        self.rows = _joined([one[:n] for one, n in zip(rows, self._parts)])

    def answer(self, packed):
        """[tokens, H, ...] in the layout of the call, [B, H, T, ...]."""
        return bthd_of(_padded(packed, self._parts, self._queries))

    def longest(self):
        return max(b - a for a, b in zip(self.offsets, self.offsets[1:]))


class _Batch:
    """A packed call, or one of whole members, as one ragged batch: `rows`, which
    are q, k and v [tokens, H, d], and `offsets` of q and of k."""

    def __init__(self, q, k, v, cu_seqlens_q, cu_seqlens_k):
        self._shape = len(q), q.shape[2]
        rows = [bthd_of(one) for one in (q, k, v)]
        self.packed = cu_seqlens_q is not None
        if self.packed:
            self.offsets = [_numbers(cu_seqlens_q), _numbers(cu_seqlens_k)]
            # Tokens after those of the last member are unused.
            queries, keys = (one[-1] for one in self.offsets)
            self.rows = [one[0][:n] for one, n in zip(rows, (queries, keys, keys))]
        else:
            self.offsets = [_offsets([one.shape[1]] * len(one))
                            for one in rows[:2]]
            self.rows = [one.reshape(-1, *one.shape[2:]) for one in rows]

    def answer(self, packed):
        """[tokens, H, ...] in the layout of the call, [B, H, T, ...]."""
        members, queries = self._shape
        if self.packed:
            return bthd_of(_padded(packed, [self.offsets[0][-1]], queries))
        return bthd_of(packed.reshape(members, queries, *packed.shape[1:]))

    def longest(self):
        return [max(b - a for a, b in zip(one, one[1:])) for one in self.offsets]


_LISTS = ("page_indptr", "page_indices", "last_page_len")


def _page_table(near, page_size, block_table=None, kv_len=None, **lists):
    """FlashInfer's: offsets into one list of page numbers, and the tokens of the
    last page of each member. A call that has them hands them on as they are."""
    if lists:
        return [lists[name] for name in _LISTS]
    lengths = _numbers(kv_len)
    counts = [-(-n // page_size) for n in lengths]
    pages = [int(page) for row, n in zip(block_table, counts) for page in row[:n]]
    last = [(n - 1) % page_size + 1 if n else 0 for n in lengths]
    return [_ints(near, one) for one in (_offsets(counts), pages, last)]


# ---- FlashAttention -----------------------------------------------------------


@adapter(options="causal_bottom_right scale default_scale grouped_heads "
         "cross_lengths packed", dtypes="f16 bf16", arrays="torch",
         precision={"preset": "flash_half"}, layouts="bthd")
def flash_attn_varlen(function):
    """flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
    max_seqlen_k, softmax_scale=None, causal=False), tensors [tokens, H, d]."""
    def call(q, k, v, *, causal=None, scale=None, cu_seqlens_q=None,
             cu_seqlens_k=None):
        batch = _Batch(q, k, v, cu_seqlens_q, cu_seqlens_k)
        return batch.answer(function(
            *batch.rows, *(_ints(q, one) for one in batch.offsets),
            *batch.longest(), softmax_scale=scale, causal=causal is not None))
    return call


# ---- FlashInfer -------------------------------------------------------------


def _window(window, causal):
    """window_left: the one side that FlashInfer has."""
    if window is None:
        return {}
    left, right = window
    if right >= 0 and not causal:
        raise Refused("a window to the right: there is one to the left alone")
    return {"window_left": left}


def _capped(softcap):
    return {} if softcap is None else {"logits_soft_cap": softcap}


def _member_mask(mask, member, causal):
    if mask is None:
        return {}
    if causal:
        raise Refused("a custom mask switches causal off")
    rows = mask[member]
    if not bool((rows == rows[:1]).all()):
        raise Refused("a mask of its own for each head")
    return {"custom_mask": rows[0]}


def _members(of_one, batch):
    """o [B, H, T, d] and lse [B, H, T] of (o [T, H, d], lse [T, H]) for each."""
    answers = [of_one(member) for member in range(batch)]
    return tuple(bthd_of(_joined([one[part][None] for one in answers]))
                 for part in (0, 1))


@adapter(**_FLASHINFER, options=_COMMON + " mask")
def flashinfer_single_prefill(function):
    """flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=None,
    causal=False, sm_scale=None, window_left=-1, logits_soft_cap=None,
    return_lse=False) with tensors [T, H, d]; members of a batch one by one."""
    def call(q, k, v, *, causal=None, scale=None, window=None, softcap=None,
             mask=None):
        rows = [bthd_of(one) for one in (q, k, v)]
        words = {"causal": causal is not None, "sm_scale": scale,
                 "return_lse": True, **_window(window, causal),
                 **_capped(softcap)}
        return _members(lambda n: function(
            *(one[n] for one in rows), **words, **_member_mask(mask, n, causal)),
            len(q))
    return call


@adapter(**_FLASHINFER, options=_COMMON, tq="max 1")
def flashinfer_single_decode(function):
    """flashinfer.single_decode_with_kv_cache(q, k, v, sm_scale=None,
    window_left=-1, logits_soft_cap=None, return_lse=False) with q [H, d] and k, v
    [T, Hkv, d]: the query is the last token."""
    def call(q, k, v, *, causal=None, scale=None, window=None, softcap=None):
        rows = [bthd_of(one) for one in (q, k, v)]
        # No token is to the right of the last one.
        words = {"sm_scale": scale, "return_lse": True,
                 **_window(window, causal=True), **_capped(softcap)}

        def of_one(n):
            o, lse = function(rows[0][n][0], rows[1][n], rows[2][n], **words)
            return o[None], lse[None]

        return _members(of_one, len(q))
    return call


class _Wrapper:
    """A wrapper that `make` makes when it is first needed: plan(), then run()."""

    def __init__(self, make):
        self._make, self._made = make, None

    def __call__(self, plan, run, **words):
        if self._made is None:
            self._made = self._make()
        self._made.plan(*plan, **words)
        return self._made.run(*run, return_lse=True)


def _planned(q, causal, scale, window, softcap):
    """Words of every plan(). Types are given as they are: the framework's."""
    return {"causal": causal is not None, "sm_scale": scale,
            "q_data_type": q.dtype, **_window(window, causal),
            **_capped(softcap)}


@adapter(**_FLASHINFER, options=_COMMON + " packed")
def flashinfer_batch_prefill(make):
    """make() -> a BatchPrefillWithRaggedKVCacheWrapper (or what has its
    plan(qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk, causal=,
    sm_scale=, window_left=, logits_soft_cap=, q_data_type=) and run(q, k, v,
    return_lse=True)) over tensors [tokens, H, d]."""
    wrapper = _Wrapper(make)

    def call(q, k, v, *, causal=None, scale=None, window=None, softcap=None,
             cu_seqlens_q=None, cu_seqlens_k=None):
        batch = _Batch(q, k, v, cu_seqlens_q, cu_seqlens_k)
        returned = wrapper(
            (*(_ints(q, one) for one in batch.offsets), q.shape[1], k.shape[1],
             q.shape[3]), batch.rows, **_planned(q, causal, scale, window,
                                                 softcap))
        return tuple(map(batch.answer, returned))
    return call


@adapter(**_FLASHINFER, options=_COMMON +
         " lengths paged paged_csr packed_pages", flags="pages_only")
def flashinfer_batch_prefill_paged(make):
    """make() -> a BatchPrefillWithPagedKVCacheWrapper: plan(qo_indptr,
    paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads,
    num_kv_heads, head_dim_qk, page_size, ...) and run(q, (k_cache, v_cache),
    return_lse=True), pages [tokens, Hkv, d]."""
    wrapper = _Wrapper(make)

    def call(q, k, v, *, page_size, q_len=None, cu_seqlens_q=None, causal=None,
             scale=None, window=None, softcap=None, **pages):
        queries = _Queries(q, q_len, cu_seqlens_q)
        returned = wrapper(
            (_ints(q, queries.offsets),
             *_page_table(q, page_size, **pages), q.shape[1], k.shape[1],
             q.shape[3], page_size),
            (queries.rows, (bthd_of(k), bthd_of(v))),
            **_planned(q, causal, scale, window, softcap))
        return tuple(map(queries.answer, returned))
    return call


@adapter(**_FLASHINFER, options=_COMMON + " lengths paged paged_csr",
         flags="pages_only", tq="max 1")
def flashinfer_batch_decode(make):
    """make() -> a BatchDecodeWithPagedKVCacheWrapper: plan(indptr, indices,
    last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, ...) and
    run(q, (k_cache, v_cache), return_lse=True) with q [B, H, d]."""
    wrapper = _Wrapper(make)

    def call(q, k, v, *, page_size, q_len=None, causal=None, scale=None,
             window=None, softcap=None, **pages):
        words = _planned(q, True, scale, window, softcap)
        del words["causal"]  # there is one query, the last token
        o, lse = wrapper(
            (*_page_table(q, page_size, **pages), q.shape[1], k.shape[1],
             q.shape[3], page_size),
            (bthd_of(q)[:, 0], (bthd_of(k), bthd_of(v))), **words)
        return o[:, :, None], lse[:, :, None]
    return call


# ---- vLLM -------------------------------------------------------------------


@adapter(like="vllm", arrays="torch", device="cuda", layouts="bthd",
         precision={"preset": "flash_half"}, causal="bottom_right",
         options="scale grouped_heads cross_lengths window softcap alibi sink "
         "lengths paged packed_pages", flags="pages_only")
def vllm_unified(function):
    """unified_attention(q, k, v, out, cu_seqlens_q, max_seqlen_q, seqused_k,
    max_seqlen_k, softmax_scale, causal, window_size, block_table, softcap,
    q_descale, k_descale, v_descale, alibi_slopes=None, sinks=None): q and out
    [tokens, H, d], k and v [pages, tokens, Hkv, d]; it writes `out`."""
    def call(q, k, v, *, block_table, page_size, kv_len, scale, q_len=None,
             cu_seqlens_q=None, window=None, softcap=None, sink=None,
             slopes=None):
        if sink is not None and slopes is not None:
            raise Refused("slopes count from the first query, which a sink sees")
        queries = _Queries(q, q_len, cu_seqlens_q)
        out = _zeros(queries.rows, queries.rows.shape)
        words = {name: one for name, one in (("alibi_slopes", slopes),
                                             ("sinks", sink)) if one is not None}
        function(queries.rows, bthd_of(k), bthd_of(v), out,
                 _ints(q, queries.offsets), queries.longest(),
                 _ints(q, _numbers(kv_len)), max(_numbers(kv_len)), scale, True,
                 window or (-1, -1), block_table, softcap or 0.0, None, None,
                 None, **words)
        return queries.answer(out)
    return call


def _one_scale(near):
    """For a cache that is stored as it is."""
    if hasattr(near, "new_tensor"):
        import torch
        return torch.ones(1, dtype=torch.float32, device=near.device)
    return np.ones(1, np.float32)


@adapter(like="vllm_paged_attention", arrays="torch", device="cuda",
         precision={"preset": "flash_half"})
def vllm_paged_attention(function):
    """paged_attention_v1(out, query, key_cache, value_cache, num_kv_heads, scale,
    block_tables, seq_lens, block_size, max_seq_len, alibi_slopes,
    kv_cache_dtype, k_scale, v_scale): query and out [B, H, d], key_cache [pages,
    Hkv, d / x, tokens, x], value_cache [pages, Hkv, d, tokens], both where they
    lie and nothing copied; it writes `out`."""
    def call(q, k, v, *, block_table, page_size, channel_group, kv_len, scale,
             slopes=None, causal=None, q_len=None):
        # The one query is the last token; a member without one is as good as any.
        assert channel_group == k.shape[4]
        rows = bthd_of(q)[:, 0]
        out = _zeros(rows, rows.shape)
        lengths, one = _numbers(kv_len), _one_scale(q)
        function(out, rows, k.swapaxes(2, 3), v.swapaxes(2, 3), k.shape[1],
                 scale, block_table, _ints(q, lengths), page_size, max(lengths),
                 slopes, "auto", one, one)
        return out[:, :, None]
    return call
