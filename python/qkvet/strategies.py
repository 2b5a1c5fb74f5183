# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies: cases of attention, drawn and shrunk by Hypothesis.

    @hypothesis.given(qkvet.strategies.cases(causal=["top_left"]))
    def test_attention(case):
        qkvet.replay(case, my_attention).raise_on_failure()
"""
from hypothesis import strategies as st

_SHORT = {"top_left": "tl", "bottom_right": "br"}


@st.composite
def cases(draw, *, dtypes=("f32",), causal=(), grouped_heads=False,
          cross_lengths=True, most=24, most_heads=4):
    """Texts of cases for `qkvet.replay` and the command `qkvet replay`.

    dtypes: storage types. causal: the rules "top_left" and "bottom_right" that the
    callable takes; calls without one are drawn, too. grouped_heads: allow Hkv
    below H. cross_lengths: allow Tk other than Tq. most: the largest T and d.
    most_heads: the largest number of heads.
    """
    def extent(largest):
        return draw(st.integers(1, largest))

    words = [draw(st.sampled_from(list(dtypes))), f"B{extent(2)}"]
    kv_heads = extent(most_heads)
    group = extent(max(1, most_heads // kv_heads)) if grouped_heads else 1
    words.append(f"H{kv_heads * group}")
    if group > 1:
        words.append(f"Hkv{kv_heads}")
    queries = extent(most)
    keys = extent(most) if cross_lengths else queries
    words += [f"Tq{queries}", f"Tk{keys}", f"d{extent(most)}"]
    rule = draw(st.sampled_from([None, *causal]))
    if rule is not None:
        words.append(f"causal={_SHORT[rule]}")
    words.append(f"seed={draw(st.integers(0, 999999))}")
    return ",".join(words)
