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
    if softcap:
        raise qkvet.Refused("no softcap here")
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
    added = None
    if alibi_slopes is not None:  # [H] or [B, H]
        slopes = alibi_slopes.reshape(-1, q.shape[2], 1, 1)
        added = -slopes * np.abs(diagonal - columns).astype(np.float32)
    q, k, v = (one.swapaxes(1, 2) for one in (q, k, v))
    return attend(q, k, v, softmax_scale, hidden, added).swapaxes(1, 2)


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


# ---- Serving ----------------------------------------------------------------


def weighed(q, k, v, scale, hidden=None, softcap=None, added=None, sinks=None):
    """q [Tq, H, d], k and v [Tk, Hkv, d]: o [Tq, H, d], and lse [Tq, H] to base
    2."""
    q, k, v = (one.swapaxes(0, 1) for one in (q, k, v))
    k, v = (np.repeat(one, len(q) // len(k), 0) for one in (k, v))
    scores = q @ k.swapaxes(-1, -2) * np.float32(
        q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = np.float32(softcap) * np.tanh(scores / np.float32(softcap))
    if added is not None:
        scores = scores + added
    if hidden is not None:
        scores = np.where(hidden, np.float32(-np.inf), scores)
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(
            sinks[:, None, None], (*scores.shape[:2], 1))], -1)
        v = np.concatenate([v, np.zeros((len(v), 1, v.shape[2]), v.dtype)], 1)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), np.float32(0), top))
    total = weights.sum(-1, keepdims=True)
    o = weights @ v / np.where(total == 0, np.float32(1), total)
    with np.errstate(divide="ignore"):
        lse = (np.log2(total) + top / np.float32(np.log(2)))[..., 0]
    return o.swapaxes(0, 1), lse.swapaxes(0, 1)


def hidden_of(queries, keys, causal, window_left):
    rows, columns = np.indices((queries, keys))
    diagonal = rows + keys - queries
    hidden = columns > diagonal if causal else np.zeros((queries, keys), bool)
    if window_left >= 0:
        hidden = hidden | (columns < diagonal - window_left)
    return hidden


def single_prefill_with_kv_cache(q, k, v, custom_mask=None, causal=False,
                                 sm_scale=None, window_left=-1,
                                 logits_soft_cap=None, return_lse=False):
    assert not (causal and custom_mask is not None)
    hidden = hidden_of(len(q), len(k), causal, window_left)
    if custom_mask is not None:
        hidden = hidden | ~custom_mask
    o, lse = weighed(q, k, v, sm_scale, hidden, logits_soft_cap)
    return (o, lse) if return_lse else o


def single_decode_with_kv_cache(q, k, v, sm_scale=None, window_left=-1,
                                logits_soft_cap=None, return_lse=False):
    o, lse = single_prefill_with_kv_cache(
        q[None], k, v, None, False, sm_scale, window_left, logits_soft_cap, True)
    return (o[0], lse[0]) if return_lse else o[0]


class RaggedPrefill:
    """As BatchPrefillWithRaggedKVCacheWrapper."""

    def plan(self, qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk,
             causal=False, sm_scale=None, window_left=-1, logits_soft_cap=None,
             q_data_type="float16"):
        assert qo_indptr.dtype == kv_indptr.dtype == np.int32
        self.heads = num_qo_heads, num_kv_heads, head_dim_qk
        self.offsets = qo_indptr, kv_indptr
        self.words = {"causal": causal, "sm_scale": sm_scale,
                      "window_left": window_left,
                      "logits_soft_cap": logits_soft_cap, "return_lse": True}

    def member(self, q, k, v):
        return single_prefill_with_kv_cache(q, k, v, **self.words)

    def run(self, q, k, v, return_lse=False):
        assert (q.shape[1], k.shape[1], q.shape[2]) == self.heads
        parts = [self.member(q[a:b], k[c:d], v[c:d]) for a, b, c, d in zip(
            *(one[i:] for one in self.offsets for i in (0, 1)))]
        o, lse = (np.concatenate(part) for part in zip(*parts))
        return (o, lse) if return_lse else o


class PagedPrefill(RaggedPrefill):
    """As BatchPrefillWithPagedKVCacheWrapper."""

    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices,
             paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim_qk,
             page_size, **words):
        self.pages = paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len
        self.page_size = page_size
        super().plan(qo_indptr, paged_kv_indptr, num_qo_heads, num_kv_heads,
                     head_dim_qk, **words)

    def keys(self, cache, member):
        offsets, indices, last = self.pages
        pages = indices[offsets[member]:offsets[member + 1]]
        missing = self.page_size - last[member] if len(pages) else 0
        rows = cache[pages].reshape(-1, *cache.shape[2:])
        return rows[:len(rows) - missing]

    def run(self, q, paged_kv_cache, return_lse=False):
        parts = [self.member(q[a:b], *(self.keys(one, n) for one in
                                       paged_kv_cache))
                 for n, (a, b) in enumerate(zip(self.offsets[0],
                                                self.offsets[0][1:]))]
        o, lse = (np.concatenate(part) for part in zip(*parts))
        return (o, lse) if return_lse else o


class PagedDecode(PagedPrefill):
    """As BatchDecodeWithPagedKVCacheWrapper."""

    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads,
             head_dim, page_size, **words):
        super().plan(np.arange(len(indptr), dtype=np.int32), indptr, indices,
                     last_page_len, num_qo_heads, num_kv_heads, head_dim,
                     page_size, **words)


class LosesLastPage(PagedPrefill):
    """Takes the last page for a full one."""

    def keys(self, cache, member):
        offsets, indices, _ = self.pages
        return cache[indices[offsets[member]:offsets[member + 1]]].reshape(
            -1, *cache.shape[2:])


def unified_attention(q, k, v, out, cu_seqlens_q, max_seqlen_q, seqused_k,
                      max_seqlen_k, softmax_scale, causal, window_size,
                      block_table, softcap, q_descale, k_descale, v_descale,
                      alibi_slopes=None, output_scale=None, qq_bias=None,
                      sinks=None):
    assert causal and q_descale is None
    for n, keys in enumerate(seqused_k):
        rows = slice(cu_seqlens_q[n], cu_seqlens_q[n + 1])
        queries = rows.stop - rows.start
        assert queries <= max_seqlen_q and keys <= max_seqlen_k
        pages = block_table[n][:-(-keys // k.shape[1])]
        of_member = [one[pages].reshape(-1, *one.shape[2:])[:keys]
                     for one in (k, v)]
        hidden = hidden_of(queries, keys, True, window_size[0])
        added = None
        if alibi_slopes is not None:
            from_first = np.arange(keys) - (keys - queries)
            added = alibi_slopes[:, None, None] * from_first.astype(np.float32)
        out[rows] = weighed(q[rows], *of_member, softmax_scale, hidden, softcap,
                            added, sinks)[0]


def paged_attention_v1(out, query, key_cache, value_cache, num_kv_heads, scale,
                       block_tables, seq_lens, block_size, max_seq_len,
                       alibi_slopes, kv_cache_dtype, k_scale, v_scale):
    assert kv_cache_dtype == "auto" and k_scale == v_scale == 1
    assert key_cache.flags.c_contiguous and value_cache.flags.c_contiguous
    _, heads, groups, size, x = key_cache.shape
    assert (heads, size) == (num_kv_heads, block_size) and x == 4
    for n, keys in enumerate(seq_lens):
        assert keys <= max_seq_len
        pages = block_tables[n][:-(-keys // size)]
        k = key_cache[pages].transpose(0, 3, 1, 2, 4).reshape(-1, heads, groups * x)
        v = value_cache[pages].transpose(0, 3, 1, 2).reshape(
            -1, heads, value_cache.shape[2])
        added = None
        if alibi_slopes is not None:
            added = (alibi_slopes[:, None, None]
                     * (np.arange(keys) - (keys - 1)).astype(np.float32))
        out[n] = weighed(query[n][None], k[:keys], v[:keys], scale,
                         hidden_of(1, keys, False, -1), 0, added)[0][0]


def paged_attention_of_rows(out, query, key_cache, *others):
    """Reads the keys of a page as [d, tokens], the layout of values."""
    pages, heads, groups, size, x = key_cache.shape
    taken = key_cache.reshape(pages, heads, groups, x, size).swapaxes(3, 4)
    paged_attention_v1(out, query, np.ascontiguousarray(taken), *others)


# ---- FlashMLA ---------------------------------------------------------------


def weighed_latent(q, rows, scale, width, hidden, sink=None):
    """o [T, H, width] and lse [T, H] of q [T, H, d] over rows [Tk, d]."""
    scores = np.einsum("thc,jc->thj", q, rows) * np.float32(scale)
    scores = np.where(hidden[:, None], np.float32(-np.inf), scores)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isneginf(top), np.float32(0), top)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    values = np.where(hidden.all(0)[:, None], np.float32(0), rows[:, :width])
    o = np.einsum("thj,jc->thc", weights, values) / np.where(total == 0, 1, total)
    if sink is not None:
        with np.errstate(over="ignore"):
            o = o / (1 + np.exp(sink[None] - lse))[..., None]
    return o, lse


def flash_mla_sparse_fwd(q, kv, indices, sm_scale, d_v=512, attn_sink=None,
                         topk_length=None):
    if kv.shape[1] != 1:
        raise qkvet.Refused("one latent head")
    assert indices.dtype == np.int32
    hidden = np.ones((len(q), len(kv)), bool)
    for i, listed in enumerate(indices[:, 0]):
        if topk_length is not None:
            listed = listed[:topk_length[i]]
        hidden[i, listed[(listed >= 0) & (listed < len(kv))]] = False
    o, lse = weighed_latent(q, kv[:, 0], sm_scale, d_v, hidden, attn_sink)
    return o, None, np.where(np.isneginf(lse), np.float32(np.inf), lse)


def flash_mla_with_kvcache(q, k_cache, block_table, cache_seqlens, head_dim_v,
                           tile_scheduler_metadata, num_splits=None,
                           softmax_scale=None, causal=False, indices=None):
    if k_cache.shape[2] != 1:
        raise qkvet.Refused("one latent head")
    assert k_cache.flags.c_contiguous
    size, scale = k_cache.shape[1], softmax_scale or q.shape[-1] ** -0.5
    o = np.zeros((*q.shape[:3], head_dim_v), np.float32)
    lse = np.zeros((q.shape[0], q.shape[2], q.shape[1]), np.float32)
    for b, keys in enumerate(cache_seqlens):
        pages = block_table[b][:-(-keys // size)]
        rows = k_cache[pages, :, 0].reshape(-1, q.shape[-1])[:keys]
        hidden = hidden_of(q.shape[1], keys, causal, -1)
        if indices is not None:
            slots = (pages[:, None] * size + np.arange(size)).ravel()[:keys]
            hidden = hidden | ~(slots == indices[b][..., None]).any(1)
        o[b], of_rows = weighed_latent(q[b], rows, scale, head_dim_v, hidden)
        lse[b] = of_rows.T
    return o, lse


def flash_mla_of_last_channels(q, k_cache, *others, **words):
    """Takes the values from the end of a row."""
    turned = np.roll(k_cache, 64, -1)
    return flash_mla_with_kvcache(np.roll(q, 64, -1),
                                  np.ascontiguousarray(turned), *others, **words)
