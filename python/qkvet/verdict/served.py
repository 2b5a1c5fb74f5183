# SPDX-License-Identifier: Apache-2.0
"""Calls at the sizes that are served: the candidate computes all of it, the
definition judges a sample of its rows."""
import numpy as np

from .. import case as cases
from ..call import read_safetensors, reference

# Options of a case that a sampled row keeps; with others it is judged whole.
_CAUSAL = {"br": "bottom_right", "tl": "top_left"}
_NUMBERS = ("scale", "softcap")
_OTHERS = ("seed", "data", "file")


class Call:
    """A served call: its arrays and its options."""

    def __init__(self, served):
        one = cases.parse(served.case)
        self.text, self.extents = one.text, one.extents
        self.inputs = dict(one.inputs)
        if served.data is not None:
            given = read_safetensors(served.data)
            self.inputs.update({name: given[name] for name in "qkv"})
        self.options = {}
        self.unknown = ""  # the first option that rows cannot be sampled under
        for token in one.text.split(","):
            key, equals, value = token.partition("=")
            if not equals:
                continue
            if key == "causal":
                self.options["causal"] = _CAUSAL[value]
            elif key == "window":
                self.options["window"] = [int(n) for n in value.split(".")]
            elif key in _NUMBERS:
                self.options[key] = float(value)
            elif key not in (*_OTHERS, *"qkv"):
                self.unknown = key
                if key == "page":
                    self.options["page_size"] = int(value)

        if "page_size" in self.options:
            for name in "kv":
                self.inputs[name] = self._pages(self.inputs[name])

    def _pages(self, rows):
        """[pages, Hkv, page_size, d]: the rows of each member where its block
        table finds them."""
        size, table = self.options["page_size"], self.inputs["block_table"]
        pool = np.zeros((int(table.max()) + 1, rows.shape[1], size, rows.shape[3]),
                        rows.dtype)
        for member, length in enumerate(self.inputs["kv_len"]):
            for number in range(-(-int(length) // size)):
                part = rows[member, :, number * size:(number + 1) * size]
                pool[table[member, number], :, :part.shape[1]] = part
        return pool

    @property
    def out_bytes(self):
        q, v = self.inputs["q"], self.inputs["v"]
        return int(np.prod(q.shape[:-1])) * v.shape[-1] * max(q.itemsize, 4)

    @property
    def room(self):
        """Bytes of all tensors."""
        return sum(one.nbytes + 64 for one in self.inputs.values()) + self.out_bytes

    def fresh(self, random, number):
        """Other numbers for the same call: the channels of q and k in another
        order, v negated; every second time with keys a sixteenth as large and
        queries four times as large, which a path for small numbers would take."""
        channels = random.permutation(self.inputs["q"].shape[-1])
        q, k = (np.ascontiguousarray(self.inputs[name][..., channels])
                for name in "qk")
        if number % 2 == 1:
            q, k = q * q.dtype.type(4), k * k.dtype.type(1 / 16)
        return {**self.inputs, "q": q, "k": k, "v": -self.inputs["v"]}

    def visible(self, rows):
        """[rows, Tk]: which keys each of the rows sees."""
        Tq, Tk = self.inputs["q"].shape[2], self.inputs["k"].shape[2]
        i, j = np.asarray(rows)[:, None], np.arange(Tk)[None, :]
        bottom = Tk - Tq if self.options.get("causal") != "top_left" else 0
        seen = np.ones((len(rows), Tk), bool)
        if "causal" in self.options:
            seen &= j <= i + bottom
        if "window" in self.options:
            left, right = self.options["window"]
            seen &= (left < 0) | (j >= i + bottom - left)
            seen &= (right < 0) | (j <= i + bottom + right)
        return seen

    def judge(self, o, inputs, rows, random, precision):
        """The place that is off by most bounds, as a dictionary, and how many
        elements were judged."""
        q, k, v = (inputs[name] for name in "qkv")
        B, H, Tq, _ = q.shape
        wanted = (*q.shape[:-1], v.shape[-1])
        if o.shape != wanted:
            return {"at": "o", "actual": str(list(o.shape)),
                    "expected": str(list(wanted)), "allowed": "this shape",
                    "ratio": float("inf")}, 0
        worst, judged = None, 0
        heads = random.choice(B * H, min(B * H, max(1, rows // 8)), replace=False)
        for number in heads:
            b, h = divmod(int(number), H)
            g = h // (H // k.shape[1])
            # First and last rows are where tiles and causal rules err.
            some = sorted({0, Tq - 1, *map(int, random.integers(0, Tq, 8))})
            exact = reference(
                q[b:b + 1, h:h + 1][:, :, some], k[b:b + 1, g:g + 1],
                v[b:b + 1, g:g + 1], mask=self.visible(some)[None, None],
                precision=precision or None,
                **{name: self.options[name] for name in _NUMBERS
                   if name in self.options})
            actual = np.asarray(o[b, h, some], np.float64)
            expected, bound = exact.o[0, 0], exact.bound["o"][0, 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.abs(actual - expected) / bound
            ratio = np.where(actual == expected, 0,
                             np.where(np.isnan(ratio), np.inf, ratio))
            # A row without a key follows the dialect, which the laws judge.
            ratio[np.isnan(expected)] = 0
            judged += ratio.size
            at = np.unravel_index(int(ratio.argmax()), ratio.shape)
            if worst is None or ratio[at] > worst["ratio"]:
                low, high = (expected[at] + sign * bound[at] for sign in (-1, 1))
                worst = {"at": f"o[b={b},h={h},i={some[at[0]]},c={at[1]}]",
                         "actual": f"{actual[at]:.8g}",
                         "expected": f"{expected[at]:.8g}",
                         "allowed": f"{low:.8g} .. {high:.8g}",
                         "ratio": float(ratio[at])}
        return worst, judged
