# SPDX-License-Identifier: Apache-2.0
"""Reads the spelling of a case, as far as golden sets use it."""
import re
from dataclasses import dataclass, field

EXTENTS = ("Hkv", "Tq", "Tk", "dv", "cap", "win", "first", "rollback", "B",
           "H", "T", "D", "d")
EXTENT = re.compile("^(" + "|".join(EXTENTS) + r")(\d+)$")
TYPES = ("f64", "f32", "f16", "bf16")
LISTS = ("window", "qlen", "kvlen", "cuq", "cuk")


@dataclass
class Case:
    text: str
    q_type: str = "f32"
    kv_type: str = "f32"
    o_type: str = "f32"
    extents: dict = field(default_factory=dict)
    causal: str = ""  # "", "tl" or "br"
    unbatched: bool = False
    is_merge: bool = False
    words: dict = field(default_factory=dict)  # of the tokens KEY=VALUE
    lists: dict = field(default_factory=dict)  # window, qlen, ... as numbers

    def __getattr__(self, name):
        """Extents by their names; None where the case has no such one."""
        if name not in EXTENTS:
            raise AttributeError(name)
        return self.extents.get(name)

    @property
    def is_layer(self):
        return "T" in self.extents

    @property
    def is_story(self):
        return "story" in self.words

    def from_file(self, name):
        return self.words.get(name, "").split(".")[0] == "file"

    @property
    def values_in_keys(self):
        """The values are the first dv channels of the keys."""
        return self.words.get("values") == "keys"

    def own(self, name):
        """The letters after the dot of a mask or a bias; all if there are none."""
        return (self.words[name].split(".") + ["bhqk"])[1]


def add_token(case, token):
    extent = EXTENT.match(token)
    key, _, value = token.partition("=")
    if token in TYPES:
        case.q_type = case.kv_type = case.o_type = token
    elif extent:
        case.extents[extent[1]] = int(extent[2])
    elif token == "unbatched":
        case.unbatched = True
    elif token == "merge":
        case.is_merge = True
    elif key == "causal":
        case.causal = value or "br"
    elif key in ("q", "kv", "o") and value in TYPES:
        setattr(case, key + "_type", value)
    elif key in LISTS:
        case.lists[key] = [int(n) for n in value.split(".")]
    elif value:
        case.words[key] = value
    else:
        raise ValueError(f"{case.text}: what is {token}?")


def commands_of(case):
    return [word.split(".") for word in case.words["story"].split("+")]


def fit_to_story(case):
    """Tq and Tk: the most queries and tokens that one sequence is given."""
    queries, tokens = {"": 1}, {"": 1}
    for verb, *words in commands_of(case):
        if verb in ("attend", "step"):
            queries[words[0]] = queries.get(words[0], 0) + int(words[1])
        if verb in ("append", "step"):
            tokens[words[0]] = tokens.get(words[0], 0) + int(words[1])
    case.extents["Tq"] = max(queries.values())
    case.extents["Tk"] = max(tokens.values())


def parse(text):
    case = Case(text)
    for token in text.split(","):
        add_token(case, token)
    e = case.extents
    if case.is_merge:  # attention of one query a row over scores that are given
        e.update(Tq=1, d=1)
    e.setdefault("Hkv", e["H"])
    if case.is_layer:
        e.setdefault("d", e["D"] // e["H"])
    e.setdefault("dv", e["d"])
    if case.is_story:
        fit_to_story(case)
    return case


def layer_inputs(case):
    e = case
    q, k, v = e.H * e.d, e.Hkv * e.d, e.Hkv * e.dv
    wanted = {"x": (e.B, e.T, e.D), "w_q": (e.D, q), "w_k": (e.D, k),
              "w_v": (e.D, v), "w_o": (e.H * e.dv, e.D)}
    widths = {"q": q, "k": k, "v": v, "o": e.D}
    for letter in case.words.get("biases", ""):
        wanted["b_" + letter] = (widths[letter],)
    return {name: (shape, case.q_type) for name, shape in wanted.items()}


def member_count(case):
    return len(case.lists["cuq"]) - 1 if "cuq" in case.lists else case.B


def keys_of_entry(case):
    """The number of keys of a list's entry: 1, or the size of a block."""
    counts = case.words["keys"].removeprefix("file").partition(".")[0]
    return int(counts.partition("x")[2] or 1)


def input_shapes(case):
    """{name: (shape, type)} of the tensors that a set of this case holds."""
    if case.is_layer:
        return layer_inputs(case)
    e = case
    if case.is_merge:
        return {"v": ((e.B, e.H, e.Tk, e.dv), e.kv_type),
                "bias": ((e.B, e.H, 1, e.Tk), e.q_type)}
    wanted = {"q": ((e.B, e.H, e.Tq, e.d), e.q_type),
              "k": ((e.B, e.Hkv, e.Tk, e.d), e.kv_type),
              "v": ((e.B, e.Hkv, e.Tk, e.dv), e.kv_type)}
    if case.values_in_keys:
        del wanted["v"]
    per_head = "f64" if e.q_type == "f64" else "f32"
    for name, dtype in (("mask", "u8"), ("bias", e.q_type)):
        if case.from_file(name):
            sides = zip("bhqk", (e.B, e.H, e.Tq, e.Tk))
            shape = tuple(n if letter in case.own(name) else 1
                          for letter, n in sides)
            wanted[name] = (shape, dtype)
    if case.words.get("keys", "").startswith("file"):
        counts, _, letters = case.words["keys"][len("file"):].partition(".")
        entries = counts.partition("x")[0]
        heads = e.Hkv if "h" in letters else 1
        wanted["key_indices"] = ((e.B, heads, e.Tq, int(entries)), "i32")
        if "n" in letters:
            wanted["topk_length"] = ((e.B, e.Tq), "i32")
    if case.words.get("segments", "").startswith("file"):
        kind = "i64" if case.words["segments"].endswith(".i64") else "i32"
        wanted["segments_q"] = ((e.B, e.Tq), kind)
        wanted["segments_k"] = ((e.B, e.Tk), kind)
    if case.words.get("ranges", "").startswith("file"):
        count, _, kind = case.words["ranges"][len("file"):].partition(".")
        wanted["full_ranges"] = ((e.B, int(count), 2), kind or "i32")
    if case.from_file("tree"):
        wanted["tree_mask"] = ((e.B, e.Tq, e.Tq), "u8")
    if case.from_file("sink"):
        wanted["sink"] = ((e.H,), per_head)
    if case.from_file("alibi"):
        of_each = case.words["alibi"] == "file.bh"
        wanted["slopes"] = ((member_count(case), e.H) if of_each else (e.H,),
                            per_head)
    return wanted
