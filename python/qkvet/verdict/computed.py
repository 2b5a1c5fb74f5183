# SPDX-License-Identifier: Apache-2.0
"""Who computed: the candidate, or a library's attention that it calls, imports or
links."""
import re
import subprocess
import sys

# Names under which released libraries offer attention.
ATTENTION = re.compile(
    r"scaled_dot_product|flash_?attn|flash_?attention|fmha|flex_attention|"
    r"efficient_attention|multi_?head_attention|MultiheadAttention|"
    r"dot_product_attention|flashinfer|flash_mla|xformers|sageattn|"
    r"(?:^|[._])mha_(?:fwd|varlen)|fused_attention|paged_attention", re.I)
# Modules and libraries that are attention as a whole.
LIBRARIES = re.compile(
    r"flash_?attn|flashinfer|flash_mla|xformers|sageattention|vllm|sglang|"
    r"(?:^|/)fla(?:$|/)|transformer_engine|(?:^|lib)aiter|onnxruntime|ggml|llama_cpp", re.I)
# Types of arrays that hold their numbers when they are returned.
_ARRAYS = ("numpy.ndarray", "torch.Tensor", "jaxlib._jax.ArrayImpl",
           "jaxlib.xla_extension.ArrayImpl", "cupy.ndarray", "cupy._core.core.ndarray")
# Operations of PyTorch that compute products or a softmax.
_PRIMITIVES = re.compile(
    r"^aten\.(?:a?b?a?mm|matmul|einsum|baddbmm|addmm|_?softmax|_safe_softmax)\b")


def computed_by(told, computed, imports):
    """Findings against a task that allows `computed`: texts, none if it keeps to
    it. told: Watched.told(). imports: allowed modules or None."""
    found = []
    standard = getattr(sys, "stdlib_module_names", ())
    for name in told["imports"] if imports is not None else ():
        if name not in imports and name not in standard:
            found.append(f"imports {name}, which the task does not allow")
    found += [f"replaces {name}" for name in told["replaced"]]
    if told["returned"] not in (*_ARRAYS, ""):
        found.append(f"returns a {told['returned']}, which computes later")
    if computed == "anything":
        return found
    own = told.get("own", "")
    for name in [*told["ops"], *told["calls"]]:
        if ATTENTION.search(name) and not name.startswith(own + "."):
            found.append(f"calls {name}")
    for name in told["imports"]:
        if LIBRARIES.search(name):
            found.append(f"imports {name}")
    for name in told["libraries"]:
        if LIBRARIES.search(name.rpartition("/")[2]):
            found.append(f"loads {name}")
    for name in told["loads"]:
        if name.startswith(("subprocess", "os.", "socket")) or (
                LIBRARIES.search(name)):
            found.append(f"uses {name}")
    if computed == "own":
        found += [f"calls {name}" for name in told["ops"]
                  if _PRIMITIVES.search(name)]
    return list(dict.fromkeys(found))


def linked(library):
    """Findings about a shared library: attention that it takes from others."""
    try:
        symbols = subprocess.run(["nm", "-D", "--undefined-only", library],
                                 capture_output=True, text=True, check=False).stdout
        needed = subprocess.run(["readelf", "-d", library], capture_output=True,
                                text=True, check=False).stdout
    except OSError:
        return []
    found = [f"calls {line.split()[-1]}" for line in symbols.splitlines()
             if line.strip() and ATTENTION.search(line)]
    return found + [f"links {name}" for name in re.findall(r"\[(.*?)\]", needed)
                    if LIBRARIES.search(name)]
