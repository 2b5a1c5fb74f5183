# SPDX-License-Identifier: Apache-2.0
"""Signatures of known libraries: each adapter turns a function with that
signature into a callable with the signature of `qkvet.kernel`.

    qkvet.check(torch.nn.functional.scaled_dot_product_attention,
                adapter=qkvet.adapters.torch_sdpa)

An adapter computes nothing: it reorders axes and renames arguments. Options that
the signature lacks are not declared; calls that it rejects raise `Refused`.
`swapaxes` moves the axes, so an adapter works for any framework: use
arrays="numpy" for a NumPy function with the signature of flash_attn.
"""
import numpy as np

from ._adapt import adapter, bthd_of
from ._onnx import onnx_attention
from ._mla import flash_mla, flash_mla_decode
from ._serving import (flash_attn_varlen, flashinfer_batch_decode,
                       flashinfer_batch_prefill, flashinfer_batch_prefill_paged,
                       flashinfer_single_decode, flashinfer_single_prefill,
                       vllm_paged_attention, vllm_unified)
from .declare import Refused

__all__ = ["bthd", "flash_attn", "flash_attn_varlen", "flash_mla",
           "flash_mla_decode", "flashinfer_batch_decode",
           "flashinfer_batch_prefill", "flashinfer_batch_prefill_paged",
           "flashinfer_single_decode", "flashinfer_single_prefill",
           "flex_attention", "jax_dot_product_attention", "onnx_attention",
           "torch_sdpa", "vllm_paged_attention", "vllm_unified"]


def _hide(bias, mask):
    """The bias, with -infinity where the mask does not attend."""
    if hasattr(bias, "masked_fill"):  # torch
        return bias.masked_fill(~mask, float("-inf"))
    return np.where(mask, bias, bias.dtype.type(-np.inf))


@adapter(like="torch_sdpa", arrays="torch")
def torch_sdpa(function):
    """torch.nn.functional.scaled_dot_product_attention(query, key, value,
    attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False)"""
    def call(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
        if causal and (mask is not None or bias is not None):
            raise Refused("is_causal takes no attn_mask beside it")
        added = bias if mask is None else mask
        if mask is not None and bias is not None:
            added = _hide(bias, mask)
        words = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
        return function(q, k, v, attn_mask=added, is_causal=causal is not None,
                        scale=scale, **words)
    return call


@adapter(options="causal_bottom_right scale default_scale grouped_heads "
         "cross_lengths window softcap alibi alibi_per_member",
         dtypes="f16 bf16", arrays="torch",
         precision={"preset": "flash_half"}, layouts="bthd")
def flash_attn(function):
    """flash_attn_func(q, k, v, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, alibi_slopes=None) of FlashAttention 2 and
    3, tensors [B, T, H, d]; o alone."""
    def call(q, k, v, *, causal=None, scale=None, window=None, softcap=None,
             slopes=None):
        words = {"softmax_scale": scale, "causal": causal is not None}
        if window is not None:
            words["window_size"] = window
        if softcap is not None:
            words["softcap"] = softcap
        if slopes is not None:
            words["alibi_slopes"] = slopes
        return bthd_of(function(bthd_of(q), bthd_of(k), bthd_of(v), **words))
    return call


@adapter(options="causal_top_left causal_bottom_right scale default_scale "
         "grouped_heads cross_lengths mask bias", dtypes="f32 f16 bf16",
         arrays="torch", flags="compiles_per_shape")
def flex_attention(function):
    """torch.nn.attention.flex_attention.flex_attention(query, key, value,
    score_mod=None, scale=None, enable_gqa=False): masks and biases are a
    score_mod."""
    def call(q, k, v, *, causal=None, scale=None, mask=None, bias=None):
        shift = k.shape[2] - q.shape[2] if causal == "bottom_right" else 0

        def score_mod(score, b, h, i, j):
            if bias is not None:
                score = score + bias[b, h, i, j]
            if mask is not None:
                score = score.masked_fill(~mask[b, h, i, j], float("-inf"))
            if causal:
                score = score.masked_fill(j > i + shift, float("-inf"))
            return score

        plain = causal is None and mask is None and bias is None
        return function(q, k, v, score_mod=None if plain else score_mod,
                        scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return call


@adapter(options="causal_top_left scale default_scale grouped_heads "
         "cross_lengths mask bias lengths", dtypes="f32", arrays="jax",
         layouts="bthd", masked_nonfinite="not_ignored",
         padding_nonfinite="not_ignored", flags="compiles_per_shape")
def jax_dot_product_attention(function):
    """jax.nn.dot_product_attention(query, key, value, bias=None, mask=None,
    scale=None, is_causal=False, query_seq_lengths=None,
    key_value_seq_lengths=None), arrays [B, T, H, d]."""
    def call(q, k, v, *, causal=None, scale=None, mask=None, bias=None,
             q_len=None, kv_len=None):
        words = {}
        if q_len is not None:
            words["query_seq_lengths"] = q_len.astype("int32")
        if kv_len is not None:
            words["key_value_seq_lengths"] = kv_len.astype("int32")
        return bthd_of(function(
            bthd_of(q), bthd_of(k), bthd_of(v), bias=bias, mask=mask, scale=scale,
            is_causal=causal is not None, **words))
    return call


@adapter(layouts="bthd")
def bthd(function):
    """A function with the signature of `kernel`, but arrays [B, T, H, d]."""
    def call(q, k, v, **options):
        returned = function(bthd_of(q), bthd_of(k), bthd_of(v), **options)
        if isinstance(returned, (tuple, list)):
            return (bthd_of(returned[0]), *returned[1:])
        return bthd_of(returned)
    return call
