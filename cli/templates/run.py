#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the calls of call.safetensors and compares the answers. Needs NumPy alone.

    run.py                            the answer that failed (answer.safetensors)
    run.py ./libmine.so [KERNEL]      a library of the C interface; also
                                      ./libmine.so:config
    run.py file.py:function           a function, layer or cache as `qkvet check`
                                      takes it; also module:function
    run.py other.safetensors          a recorded answer: tensors c0000/o, ...

Exit code: 0 each element is within its bounds, 1 one is not, 2 wrong use or a
call that the kernel does not take.
"""
import ctypes
import importlib
import json
import os
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    print("run.py needs NumPy", file=sys.stderr)
    sys.exit(2)

HERE = pathlib.Path(__file__).resolve().parent
PAGE = 4096
SHOWN = 5  # wrong elements of an output
# DLPack's code and bits: NumPy's type, that of safetensors, how many bits a
# number has and the exponent of its last one at least. bf16 and fp8 are bits.
TYPES = {(2, 64): ("f8", "F64"), (2, 32): ("f4", "F32"), (2, 16): ("f2", "F16"),
         (4, 16): ("u2", "BF16"), (10, 8): ("u1", "F8_E4M3"),
         (12, 8): ("u1", "F8_E5M2"), (0, 64): ("i8", "I64"),
         (0, 32): ("i4", "I32"), (0, 8): ("i1", "I8"), (1, 8): ("u1", "U8"),
         (6, 8): ("u1", "BOOL")}
CAUSAL = {1: "top_left", 2: "bottom_right"}
ROPE = {1: "half", 2: "interleaved"}
FUSED = (None, "qkv", "qvk", "kqv", "kvq", "vqk", "vkq")


# Outputs that an answer may lack; they are not judged then.
OPTIONAL = ("lse", "weights", "attended", "dropout_mask", "d_bias", "d_sink")


# Fields of a call (their first letters) that a function gets otherwise.
GIVEN_OTHERWISE = ("heads", "kv_heads", "fused", "causal", "scale", "rope",
                   "has_window", "window", "dropout")


class Unfit(Exception):
    """Wrong use, or a call that the kernel does not take: exit code 2."""


# --- Files ---------------------------------------------------------------------


def read_safetensors(path):
    """Tensors by name, and the metadata."""
    try:
        data = pathlib.Path(path).read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        types = {name: kind for kind, name in TYPES.values()}
        metadata = header.pop("__metadata__", {})
        return {name: np.frombuffer(
            data[8 + size + one["data_offsets"][0]:8 + size
                 + one["data_offsets"][1]], types[one["dtype"]]).reshape(
                     one["shape"]) for name, one in header.items()}, metadata
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unfit(f"{path}: {error}") from None


def may_lack(call, name):
    return name in OPTIONAL or (call["operation"] == "layer" and name in "qkv")


def lay(call, given):
    """The tensors of a call in memory: strides, gaps and alignment are those of
    the case. Everything that the call does not define is 0xff, which is NaN."""
    memory, laid = {}, {}
    for name, one in call["tensors"].items():
        kind = np.dtype(TYPES[tuple(one["dtype"][:2])][0])
        shape, strides = one["shape"], [
            stride * kind.itemsize for stride in one["strides"]]
        if "within" in one:
            buffer, at = memory[one["within"]]
        else:
            span = sum((extent - 1) * stride for extent, stride
                       in zip(shape, strides)) if 0 not in shape else 0
            buffer = np.full(span + kind.itemsize + 3 * PAGE, 255, np.uint8)
            at = -buffer.ctypes.data % PAGE + PAGE + one["start"]
        memory[name] = buffer, at
        laid[name] = np.ndarray(shape, kind, buffer, at, strides)
        if name in given and given[name].size:
            # A broadcast tensor has extents of 1 in the file.
            np.ndarray(given[name].shape, kind, buffer, at,
                       strides)[...] = given[name]
    return laid


# --- A library of the C interface ----------------------------------------------


class Library:
    def __init__(self, path, config, name, metadata):
        abi = json.loads(metadata["abi"])
        self.types = {}
        for struct, fields in abi["structs"].items():
            self.types[struct] = type(struct, (ctypes.Structure,), {"_fields_": [
                (field, self.types.get(kind) or getattr(ctypes, kind))
                for field, kind in fields]})
        self.kept, self.plans, self.cache = [], {}, None
        self.reason = ctypes.create_string_buffer(1024)
        self.why = self.new("qkvet_text", data=ctypes.addressof(self.reason),
                            capacity=len(self.reason))
        try:
            opener = ctypes.CDLL(os.path.abspath(path)).qkvet_open
        except (OSError, AttributeError) as error:
            raise Unfit(f"{path}: {error}") from None
        body = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self.parallel_for = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
            ctypes.c_void_p)(lambda _, count, run, data: [
                body(run)(data, i) for i in range(count)] and None)
        host = self.new("qkvet_host", parallel_for=ctypes.cast(
            self.parallel_for, ctypes.c_void_p), **abi["host"])
        library = self.new("qkvet_library")
        text = ctypes.create_string_buffer(config.encode())
        self.opened = host, library, text  # the kernel may keep their addresses
        if self.call(ctypes.cast(opener, ctypes.c_void_p).value, host,
                     ctypes.addressof(text), library, self.why):
            raise Unfit(f"{path}: the library cannot be opened{self.said(': ')}")
        self.kernel = self.find(path, library, name, metadata["kernel"])
        self.table = self.known("qkvet_kernel", self.kernel)
        self.context = None
        if self.table.open:
            context = ctypes.c_void_p()
            if self.call(self.table.open, self.kernel, self.run(1), context,
                         self.why):
                raise Unfit("the kernel cannot run here" + self.said(": "))
            self.context = context.value

    def new(self, struct, **fields):
        made = self.types[struct](**fields)
        if hasattr(made, "struct_size"):
            made.struct_size = ctypes.sizeof(made)
        return made

    def known(self, struct, address):
        """A struct of the library, as far as both sides know it."""
        made = self.types[struct]()
        if address:
            ctypes.memmove(ctypes.addressof(made), address, min(
                ctypes.c_size_t.from_address(address).value,
                ctypes.sizeof(made)))
        return made

    def find(self, path, library, name, default):
        kernels = (ctypes.c_void_p * library.kernel_count).from_address(
            library.kernels)
        names = {ctypes.string_at(self.known("qkvet_kernel", one).name).decode():
                 one for one in kernels}
        for wanted in (name, "" if name else default):
            if wanted in names:
                return names[wanted]
        if name or len(names) != 1:
            raise Unfit(f"{path}: name one of its kernels: " + ", ".join(names))
        return kernels[0]

    def said(self, before=""):
        text = self.reason.value.decode(errors="replace")
        return before + text if text else ""

    def call(self, function, *words, returns=ctypes.c_int32):
        """A function at an address. Structs and results go by their address."""
        self.reason.value = b""
        return ctypes.CFUNCTYPE(returns, *[ctypes.c_void_p] * len(words))(
            function)(*(word if isinstance(word, (int, type(None)))
                        else ctypes.addressof(word) for word in words))

    def run(self, threads):
        return self.new("qkvet_exec", device_type=1, threads=threads)

    def tensor(self, one, array):
        extents, strides = (
            (ctypes.c_int64 * len(one[part]))(*one[part])
            for part in ("shape", "strides"))
        self.kept += [extents, strides]
        return self.new(
            "qkvet_tensor", data=array.ctypes.data, device_type=1,
            ndim=len(one["shape"]), dtype=self.new("qkvet_dtype", **dict(
                zip(("code", "bits", "lanes"), one["dtype"]))),
            shape=ctypes.addressof(extents), strides=ctypes.addressof(strides))

    def arguments(self, struct, call, arrays):
        made = self.new(struct)
        for name, value in call["fields"].items():
            setattr(made, name, self.new("qkvet_dtype", **value)
                    if isinstance(value, dict) else value)
        for name, one in call["tensors"].items():
            if hasattr(made, name):
                setattr(made, name, self.tensor(one, arrays[name]))
        return made

    def workspace(self, function, args, run):
        size = ctypes.c_size_t()
        if not function:
            return
        if self.call(function, self.kernel, self.context, args, size):
            raise Unfit("the kernel cannot say how much workspace it needs")
        memory = np.empty(size.value + PAGE, np.uint8)
        self.kept.append(memory)
        run.workspace = memory.ctypes.data + -memory.ctypes.data % PAGE
        run.workspace_size = size.value

    def answer(self, call, arrays):
        """Fills the outputs. A reason: the kernel refuses the call."""
        self.kept = []
        run = self.run(call["threads"])
        kind = call["operation"]
        if kind in ("forward", "backward"):
            if getattr(self, kind)(call, arrays, run):
                raise Unfit(f"{kind}() refuses the call" + self.said(": "))
            return None
        status = (self.layer if kind == "layer" else self.command)(
            call, arrays, run)
        if kind == "layer" and status in (1, 2) and not call["refusal"]:
            raise Unfit("the kernel does not support the call"
                        + self.said(": "))
        return self.said() if status else None

    def forward(self, call, arrays, run):
        args = self.arguments("qkvet_forward_args", call, arrays)
        if self.table.supports and self.call(self.table.supports, self.kernel,
                                             args, self.why):
            raise Unfit("the kernel does not support the call" + self.said(": "))
        self.workspace(self.table.workspace, args, run)
        if "plan" in call or not self.table.forward:
            return self.planned(call, arrays, args, run)
        return self.call(self.table.forward, self.kernel, self.context, args, run,
                         self.why)

    def planned(self, call, arrays, args, run):
        extension = ctypes.create_string_buffer(b"qkvet.plan/1")
        address = self.table.get_extension and self.call(
            self.table.get_extension, self.kernel, ctypes.addressof(extension),
            returns=ctypes.c_void_p)
        if not address:
            raise Unfit("the kernel has neither forward() nor plans")
        table = self.known("qkvet_plan_table", address)
        use, slot = call.get("plan", ("make", -1))
        planning, batch = self.run(call["threads"]), type(args).from_buffer_copy(
            args)
        # plan() and update() read the lengths and tables, run() all else.
        planned = [name for name, one in call["tensors"].items()
                   if one.get("planned")]
        for name in call["tensors"]:
            getattr(args if name in planned else batch, name).data = None
        if use == "make":
            for old in [n for n in self.plans if n == slot or slot == 0]:
                self.call(table.destroy, self.kernel, self.plans.pop(old))
            plan = ctypes.c_void_p()
            if self.call(table.plan, self.kernel, self.context, batch, planning,
                         plan, self.why):
                raise Unfit("plan() refuses the call" + self.said(": "))
            self.plans[slot] = plan.value
        if not self.plans.get(slot):
            raise Unfit("there is no plan to run")
        if use == "update" and self.call(table.update, self.kernel,
                                         self.plans[slot], batch, planning,
                                         self.why):
            raise Unfit("update() refuses the call" + self.said(": "))
        for name in planned:  # a plan that kept the address reads no batch
            arrays[name][...] = -1
        return self.call(table.run, self.kernel, self.plans[slot], args, run,
                         self.why)

    def backward(self, call, arrays, run):
        table = self.known("qkvet_backward_table", self.table.backward)
        if not table.backward:
            raise Unfit("the kernel has no backward()")
        forward = self.arguments("qkvet_forward_args", call, arrays)
        args = self.arguments("qkvet_backward_args", call, arrays)
        args.forward = ctypes.addressof(forward)
        self.workspace(table.workspace, args, run)
        return self.call(table.backward, self.kernel, self.context, args, run,
                         self.why)

    def layer(self, call, arrays, run):
        table = self.known("qkvet_layer_table", self.table.layer)
        if not table.forward:
            raise Unfit("the kernel has no layer")
        return self.call(table.forward, self.kernel, self.context,
                         self.arguments("qkvet_layer_args", call, arrays), run,
                         self.why)

    def command(self, call, arrays, run):
        kind, fields = call["operation"], call["fields"]
        if not self.table.cache:
            raise Unfit("the kernel has no cache")
        table = self.known("qkvet_cache_table", self.table.cache)
        function = getattr(table, kind)
        if not function:
            raise Unfit("the kernel does not offer " + kind)
        if kind == "create":
            if self.cache:
                self.call(table.destroy, self.kernel, self.cache)
            cache = ctypes.c_void_p()
            status = self.call(function, self.kernel, self.context,
                               self.arguments("qkvet_cache_config", call, arrays),
                               run, cache, self.why)
            self.cache, self.length = cache.value, table.length
            if status or not self.cache:
                raise Unfit("the kernel keeps no such cache" + self.said(": "))
            return status
        if kind == "step":
            words = (self.arguments("qkvet_cache_args", call, arrays), run)
        elif kind == "reorder":
            words = ((ctypes.c_int64 * len(call["parents"]))(*call["parents"]),)
        elif kind == "read_back":
            words = (fields["sequence"], *(
                self.tensor(call["tensors"][name], arrays[name])
                for name in "kv"))
        else:
            words = fields.values()
        return self.call(function, self.kernel, self.cache, *words, self.why)

    def lengths(self, call):
        found = []
        for sequence in range(len(call["lengths"])):
            tokens = ctypes.c_int64(-1)
            self.call(self.length, self.kernel, self.cache, sequence, tokens,
                      self.why)
            found.append(tokens.value)
        return found


# --- A function of Python ------------------------------------------------------


class Function:
    def __init__(self, spec):
        path, name, words = (*spec.split(":", 2), "")[:3]
        words = json.loads(words or "{}")
        self.function = self.find(f"{path}:{name}")
        if "adapter" in words:
            self.function = self.find(words["adapter"])(self.function)
        declared = {**getattr(self.function, "__qkvet__", {}), **words}
        self.words = {key: " ".join(value) if isinstance(value, list) else value
                      for key, value in declared.items()}
        self.framework = self.words.get("arrays", "numpy")

    @staticmethod
    def find(spec):
        path, _, name = spec.partition(":")
        try:
            sys.path.insert(0, os.path.dirname(os.path.abspath(path))
                            if path.endswith(".py") else os.getcwd())
            found = importlib.import_module(
                pathlib.Path(path).stem if path.endswith(".py") else path)
            for part in name.split("."):
                found = getattr(found, part)
            return found
        except (ImportError, AttributeError) as error:
            raise Unfit(f"{spec}: {error}") from None

    def give(self, name, array, dtype):
        if name in ("mask", "tree_mask"):
            array = array.view(np.bool_)
        if self.framework == "torch":
            import torch
            if dtype[0] == 4:
                return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            return torch.from_numpy(array)
        if dtype[0] == 4:
            array = array.view(bfloat16())
        if self.framework == "jax":
            import jax
            return jax.numpy.asarray(array)
        if name not in ("k", "v"):  # pages are written
            array.flags.writeable = False
        return array

    @staticmethod
    def take(name, given, out, dtype):
        """Copies what came back to the output. A ValueError: it is no such
        array."""
        if given is None:
            raise ValueError(f"{name} is None")
        if hasattr(given, "detach"):
            given = given.detach()
            if "bfloat16" in str(given.dtype):
                import torch
                given = given.contiguous().view(torch.int16)
                given = given.numpy().view(np.uint16)
        given = np.asarray(given)
        if dtype[0] == 4 and given.dtype.name == "bfloat16":
            given = given.view(np.uint16)
        if given.shape != out.shape or given.dtype != out.dtype:
            raise ValueError(
                f"{name} is {given.dtype} {list(given.shape)}; expected "
                f"{TYPES[tuple(dtype[:2])][1]} {list(out.shape)}")
        out[...] = given

    def inputs(self, call, arrays):
        return {name: self.give(name, arrays[name], one["dtype"])
                for name, one in call["tensors"].items()
                if name not in call["outputs"]}

    def store(self, call, arrays, returned):
        for name in call["outputs"]:
            if returned.get(name) is None and may_lack(call, name):
                arrays[name] = None
            else:
                self.take(name, returned.get(name), arrays[name],
                          call["tensors"][name]["dtype"])

    def answer(self, call, arrays):
        kind = call["operation"]
        if "plan" in call:
            raise Unfit("a plan lives between calls, which a function does not")
        try:
            getattr(self, kind if kind in ("forward", "backward", "layer")
                    else "command")(call, arrays)
            return None
        except Exception as error:
            if type(error).__name__ == "Refused" and not call["refusal"]:
                raise Unfit(f"the function refuses the call: {error}") from None
            if isinstance(error, Unfit) or kind in ("forward", "backward"):
                raise
            return str(error)

    def options(self, call, given):
        fields = call["fields"]
        options = {name: number for name, number in fields.items()
                   if not name.startswith(GIVEN_OTHERWISE)}
        if "causal" in fields and "causal" not in self.words and (
                "causal_only" not in self.words.get("flags", "")):
            options["causal"] = CAUSAL[fields["causal"]]
        if fields.get("scale_given"):
            options["scale"] = fields.get("scale", 0.0)
        if fields.get("has_window"):
            options["window"] = (fields.get("window_left", 0),
                                 fields.get("window_right", 0))
        if "rope" in fields:
            options["rope"] = (ROPE[fields["rope"]], *(
                given.pop(name) for name in (
                    "rope_cos", "rope_sin", "q_positions", "k_positions",
                    "positions") if name in given))
        return options

    def forward(self, call, arrays):
        given = self.inputs(call, arrays)
        options = self.options(call, given)
        qkv = [given.pop(name) for name in "qkv"]
        returned = self.function(*qkv, **given, **options)
        if not isinstance(returned, dict):
            returned = dict(zip(("o", "lse", "weights"), returned if isinstance(
                returned, (tuple, list)) else (returned,)))
        self.store(call, arrays, returned)

    def backward(self, call, arrays):
        way, *more = self.words.get("gradient", "").split() or [None]
        given = self.inputs(call, arrays)
        options = self.options(call, given)
        o, lse, d_o = (given.pop(name) for name in ("o", "lse", "d_o"))
        leaves = {name: given.pop(name) for name in ("q", "k", "v", *more)
                  if name in given}
        names = list(leaves)

        def call_with(*values):
            of = dict(zip(names, values))
            back = self.function(of.pop("q"), of.pop("k"), of.pop("v"), **of,
                                 **given, **options)
            back = back.get("o") if isinstance(back, dict) else back
            return back[0] if isinstance(back, (tuple, list)) else back

        if way == "function":
            qkv = [leaves[name] for name in "qkv"]
            rest = {name: leaves[name] for name in names[3:]}
            found = self.function.backward(*qkv, o, lse, d_o, **given, **options,
                                           **rest)
        elif way == "autograd":
            import torch
            values = [one.detach().requires_grad_(True)
                      for one in leaves.values()]
            found = torch.autograd.grad(call_with(*values), values, d_o,
                                        allow_unused=True)
        elif way == "vjp":
            import jax
            found = jax.vjp(call_with, *leaves.values())[1](d_o)
        else:
            raise Unfit("the function declares no gradient")
        self.store(call, arrays, found if isinstance(found, dict) else dict(
            zip(("d_" + name for name in names), found)))

    def layer(self, call, arrays):
        given = self.inputs(call, arrays)
        fields = call["fields"]
        options = self.options(call, given)
        options.update({name: fields.get(name, 0)
                        for name in ("heads", "kv_heads")})
        if "fused" in fields:
            options["fused"] = FUSED[fields["fused"]]
        first = [given.pop(name) for name in ("x", "w_q", "w_k", "w_v", "w_o")]
        returned = self.function(*first, **given, **options)
        self.store(call, arrays, returned if isinstance(returned, dict)
                   else {"y": returned})

    def command(self, call, arrays):
        kind, fields = call["operation"], call["fields"]
        given = self.inputs(call, arrays)
        if kind == "create":
            self.cache = self.function(**self.config(fields, given))
            self.window, self.rollback = (fields.get(name, 0) for name in
                                          ("window", "rollback"))
            self.longest = [0] * fields["sequences"]
            return
        if kind == "reorder":
            self.offered(kind)(call["parents"])
            self.longest = [self.longest[parent] for parent in call["parents"]]
            return
        sequence = fields["sequence"]
        words = [value for name, value in fields.items() if name != "sequence"]
        if not 0 <= sequence < len(self.longest):
            raise ValueError(f"no sequence has number {sequence}")
        if kind == "step":
            self.step(call, arrays, sequence, given)
        elif kind == "read_back":
            for name, found in zip("kv", self.offered(kind)(sequence)):
                self.take(name, found, arrays[name][0],
                          call["tensors"][name]["dtype"])
        else:
            if kind == "truncate":
                self.check_reach(sequence, words[0])
            self.offered(kind)(sequence, *words)
            if kind == "fork":
                self.longest[words[0]] = self.longest[sequence]
            else:
                self.holds(sequence)

    def offered(self, name):
        if not hasattr(self.cache, name):
            raise Unfit("the cache does not offer " + name)
        return getattr(self.cache, name)

    def holds(self, sequence):
        tokens = self.cache.length(sequence)
        self.longest[sequence] = (max(self.longest[sequence], tokens)
                                  if tokens else 0)

    def check_reach(self, sequence, token):
        if self.window and token < self.longest[sequence] - self.rollback:
            raise ValueError("tokens are out of reach behind the window")

    def config(self, fields, given):
        """What the class is made with: its sizes, and what it declares."""
        made = {name: fields.get(name, 0) for name in (
            "sequences", "heads", "kv_heads", "d", "dv", "capacity")}
        made["scale"] = (fields.get("scale", 0.0) if "scale_given" in fields
                         else None)
        scales = (None, "per_token", "per_channel")[fields.get("scales", 0)]
        stored = "stored" in fields and {0: "int8", 10: "fp8"}[
            fields["stored"]["code"]] or None
        for words, more in (
                (("window",), {name: fields.get(name, 0) for name in (
                    "window", "first_tokens", "rollback")}),
                (("int8", "fp8"), {"stored": stored, "scales": scales, **{
                    name: given.get(name) for name in ("k_scale", "v_scale")}}),
                (("alibi",), {"slopes": given.get("slopes")}),
                (("sink",), {"sink": given.get("sink")}),
                (("softcap",), {"softcap": fields.get("softcap")})):
            if any(word.startswith(words) for word in self.declared()):
                made.update(more)
            elif any(one is not None and np.any(one != 0)
                     for one in more.values()):
                raise Unfit(f"the cache declares no {words[0]}")
        return made

    def declared(self):
        return self.words.get("cache", "").split()

    def step(self, call, arrays, sequence, given):
        rows = {name: one[0] for name, one in given.items()
                if name in ("k", "v", "q", "mask", "bias")}
        if {"rope_cos", "mask", "bias"} & set(given) - set(self.declared()):
            raise Unfit("the cache declares no rope, mask or bias")
        if ("k" in rows) != ("v" in rows) or not rows:
            raise ValueError("a step needs k and v together, or q")
        if "q" in rows:
            tokens = self.cache.length(sequence) + (
                rows["k"].shape[1] if "k" in rows else 0)
            queries = rows["q"].shape[1]
            if queries > tokens:
                raise ValueError(f"{queries} queries of {tokens} tokens")
            self.check_reach(sequence, tokens - queries + 1)
        if "k" in rows:
            self.cache.append(sequence, rows["k"], rows["v"])
            self.holds(sequence)
        if "q" in rows:
            o = self.cache.attend(sequence, rows["q"], **{
                name: rows.get(name) for name in ("mask", "bias")
                if name in self.declared()})
            self.take("o", o, arrays["o"][0], call["tensors"]["o"]["dtype"])
            arrays["lse"] = None

    def lengths(self, call):
        return [int(self.cache.length(sequence))
                for sequence in range(len(call["lengths"]))]


def bfloat16():
    try:
        from ml_dtypes import bfloat16 as kind
    except ImportError:
        raise Unfit("bf16 arrays of NumPy need the package ml_dtypes") from None
    return kind


# --- A recorded answer ---------------------------------------------------------


class Recorded:
    def __init__(self, path):
        self.path = path
        self.tensors, self.metadata = read_safetensors(path)

    def answer(self, call, arrays):
        self.name = call["name"]
        if f"{self.name}/refused" in self.metadata:
            return self.metadata[f"{self.name}/refused"]
        for name in call["outputs"]:
            found = self.tensors.get(f"{self.name}/{name}")
            out = arrays[name]
            if found is None and may_lack(call, name):
                arrays[name] = None
                continue
            if found is None or found.shape != out.shape or (
                    found.dtype != out.dtype):
                raise Unfit(f"{self.path}: {self.name}/{name} is missing or not "
                            f"{TYPES[tuple(call['tensors'][name]['dtype'][:2])][1]}"
                            f" {list(out.shape)}")
            out[...] = found
        return None

    def lengths(self, call):
        found = json.loads(self.metadata.get(f"{self.name}/lengths", "[]"))
        if len(found) != len(call["lengths"]):
            raise Unfit(f"{self.path}: the metadata lack {self.name}/lengths of "
                        f"{len(call['lengths'])} sequences")
        return found


# --- The verdict ---------------------------------------------------------------


def numbers(array, dtype):
    if tuple(dtype[:2]) == (4, 16):
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def text(x, dtype):
    """The shortest text that reads back as the number."""
    x = np.float64(x) if dtype[1] == 64 else np.float32(x)
    if not np.isfinite(x):
        return str(x)
    plain = np.format_float_positional(x, trim="-")
    short = np.format_float_scientific(x, trim="-", exp_digits=2)
    return plain if len(plain) <= len(short) else short


def rounding(x, dtype):
    """By how much storing may have moved a number that is now x."""
    bits, least = {(2, 64): (53, -1075), (2, 32): (24, -150), (2, 16): (11, -25),
                   (4, 16): (8, -134)}[tuple(dtype[:2])]
    exponent = np.frexp(np.where(np.isfinite(x), x, 0))[1] - 1 - bits
    return np.ldexp(1.0, np.where(x == 0, least, np.maximum(exponent, least)))


def element(one, index):
    """o[b=0,h=1,i=2,c=3]; a layer without a batch is element 0 of one."""
    index = (0, *index) if len(index) == 2 else index
    return f"{one['shown']}[" + ",".join(
        f"{x}={n}" for x, n in zip(one["letters"], index)) + "]"


class Judge:
    def __init__(self, tensors, call, calls):
        self.tensors, self.call = tensors, call
        self.place = call["place"] or (
            f"call {calls.index(call) + 1} of {len(calls)}"
            if len(calls) > 1 else "")
        self.place += ": " if self.place else ""

    def part(self, name, kind):
        return self.tensors.get(f"{self.call['name']}/{name}.{kind}")

    def output(self, name, array, staged=""):
        """Whether an element is wrong; the worst ones are printed."""
        one = self.call["tensors"][name]
        dtype = one["dtype"]
        if array is None:
            print(f"{self.place}{one['shown']} is not returned and not judged")
            return False
        actual = numbers(array, dtype)
        value, bound, low, high = (self.part(name, staged + kind) for kind in (
            "expected", "bound", "least", "largest"))
        right = np.isinf(bound) | ((low <= actual) & (actual <= high))
        right |= np.isnan(value) & np.isnan(actual)
        if right.all():
            return False
        error = np.abs(actual - value)
        if dtype[1] == 16 or self.call["operation"] == "backward":
            error -= rounding(actual, dtype)  # which the bound does not count
        ratio = np.where(right, -1, np.where(error > 0, error / bound, np.inf))
        worst = np.argsort(-ratio, axis=None, kind="stable")
        wrong = int((~right).sum())
        for n in worst[:min(wrong, SHOWN)]:
            at = np.unravel_index(n, right.shape)
            print(f"{self.place}{element(one, at)} expected "
                  f"{text(value[at], dtype)} allowed {text(low[at], dtype)} .. "
                  f"{text(high[at], dtype)} actual {text(actual[at], dtype)}")
        if wrong > SHOWN:
            print(f"{self.place}{one['shown']}: {wrong} of {right.size} elements are wrong")
        return True

    def end(self, refused):
        """Whether the call ends as it must not."""
        due = self.call["refusal"]
        if refused is None if due is None else bool(refused):
            return False
        print(self.place + ("expected a result: the call is legal actual refused: "
                            f"{refused}" if due is None else
                            f"expected {due} actual " + (
                                "accepted" if refused is None
                                else "refused without a reason")))
        return True

    def stages(self, arrays):
        """The first wrong stage of a layer: q, k and v are one, and later ones
        are not judged. An answer whose earlier stages are the recorded ones has
        bounds that do not contain their errors."""
        failed, recorded = False, True
        for name in self.call["outputs"]:
            projected = name in ("q", "k", "v")
            if failed and not projected:
                break
            staged = recorded and self.part(name, "staged.expected") is not None
            failed |= self.output(name, arrays[name], "staged." if staged else "")
            then = self.part(name, "recorded")
            recorded = (recorded or not projected) and then is not None and (
                arrays[name] is not None and np.array_equal(
                    numbers(arrays[name], self.call["tensors"][name]["dtype"]),
                    then, equal_nan=True))
        return failed

    def lengths(self, found):
        for s, (wanted, tokens) in enumerate(zip(self.call["lengths"], found)):
            if wanted != tokens:
                print(f"{self.place}length of sequence {chr(97 + s)} expected "
                      f"{wanted} actual {tokens}")
                return True
        return False


def judge_pairs(same_bits, calls, answers):
    """Whether two elements that must have the same bits have others."""
    for name, call, other, factor, first, second in same_bits:
        if answers[call][name] is None or answers[other][name] is None:
            continue
        dtype = calls[call]["tensors"][name]["dtype"]
        one, two = (numbers(answers[n][name], dtype) for n in (call, other))
        left, right = one.ravel()[first] * factor, two.ravel()[second]
        wrong = np.flatnonzero((left != right) & ~(
            np.isnan(left) & np.isnan(right)))
        for n in wrong[:1]:
            at, to = (f"call {which + 1} of {len(calls)}: " + element(
                calls[call]["tensors"][name],
                np.unravel_index(elements[n], array.shape))
                for which, elements, array in ((call, first, one),
                                               (other, second, two)))
            times = f" times {factor:g}" if factor != 1 else ""
            print(f"{at}{times} is {text(left[n], dtype)}, and must have the same "
                  f"bits as {to}, which is {text(right[n], dtype)}")
            return True
    return False


def main(words):
    tensors, metadata = read_safetensors(HERE / "call.safetensors")
    calls = json.loads(metadata["calls"])
    target = words[0] if words else str(HERE / "answer.safetensors")
    ends = [n for n, letter in enumerate(target + ":") if letter == ":"
            and os.path.isfile(target[:n])]
    if target.endswith(".safetensors"):
        kernel = Recorded(target)
    elif ends and not target[:ends[0]].endswith(".py"):
        kernel = Library(target[:ends[0]], target[ends[0] + 1:],
                         *words[1:2] or [""], metadata)
    elif ":" in target:
        kernel = Function(target)
    else:
        raise Unfit(f"{target}: no such file\n\n{__doc__}")
    failed, wrong, answers = False, {}, []
    for call in calls:
        start = call["name"] + "/"
        arrays = lay(call, {name[len(start):]: one for name, one
                            in tensors.items() if name.startswith(start)})
        answers.append(arrays)
        refused = kernel.answer(call, arrays)
        judge = Judge(tensors, call, calls)
        if call["operation"] == "create":
            wrong = {}
        # Of each kind the first in an operation sequence: the rest follows.
        if not wrong.get("end"):
            wrong["end"] = judge.end(refused)
        done = refused is None and not wrong["end"]
        kind = call["operation"]
        if kind == "layer":
            failed |= wrong.pop("end")
            failed |= done and judge.stages(arrays)
            continue
        if kind != "read_back":
            kind = "numbers"
        if done and (not wrong.get(kind) or "lengths" not in call):
            results = [judge.output(name, arrays[name])
                       for name in call["outputs"]]
            wrong[kind] = wrong.get(kind, False) | any(results)
        if "lengths" in call and not wrong["end"] and not wrong.get("length"):
            wrong["length"] = judge.lengths(kernel.lengths(call))
        failed |= any(wrong.values())
    failed |= judge_pairs(json.loads(metadata["same_bits"]), calls, answers)
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    np.seterr(all="ignore")
    try:
        sys.exit(main(sys.argv[1:]))
    except Unfit as error:
        print(error, file=sys.stderr)
        sys.exit(2)
