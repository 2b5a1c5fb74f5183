# SPDX-License-Identifier: Apache-2.0
def load(folder, name):
    """As float64 where it is bf16, which numpy lacks: uint16 with its bits."""
    values = np.load(folder / f"{name}.npy")
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def rounding(x, dtype):
    """By how much storing may have moved a number that is now x."""
    if dtype not in ("float16", "uint16") and not BEFORE_ROUNDING:
        return 0
    bits, least = {"float64": (53, -1075), "float32": (24, -150),
                   "float16": (11, -25), "uint16": (8, -134)}[dtype]
    exponent = np.frexp(np.where(np.isfinite(x), x, 0))[1] - 1 - bits
    return np.ldexp(1.0, np.where(x == 0, least, np.maximum(exponent, least)))


def text(x, double):
    """The shortest text that reads back as the number."""
    x = np.float64(x) if double else np.float32(x)
    if not np.isfinite(x):
        return str(x)
    plain = np.format_float_positional(x, trim="-")
    short = np.format_float_scientific(x, trim="-", exp_digits=2)
    return plain if len(plain) <= len(short) else short


def element(place, name, index):
    """o[b=0,h=1,i=2,c=3], behind the words for the call that it is of."""
    letters = LETTERS.get(name, LETTERS["o"])
    index = (0, *index) if len(index) == 2 else index  # a layer without a batch
    where = ",".join(f"{x}={n}" for x, n in zip(letters, index))
    return f"{place}{name}[{where}]"


def judge(place, folder, name, kind=""):
    """Prints the worst element; whether there is a wrong one."""
    value, bound, low, high = (
        load(folder, f"{kind}{part}_{name}")
        for part in ("expected", "bound", "least", "largest"))
    dtype = np.load(folder / f"actual_{name}.npy").dtype
    actual = load(folder, f"actual_{name}").astype(np.float64)
    right = np.isinf(bound) | ((low <= actual) & (actual <= high))
    right |= np.isnan(value) & np.isnan(actual)
    if right.all():
        return False
    error = np.abs(actual - value) - rounding(actual, dtype.name)
    ratio = np.where(error > 0, error / bound, np.inf)
    at = np.unravel_index(np.argmax(np.where(right, -1, ratio)), right.shape)
    double = dtype == np.float64
    print(f"{element(place, name, at)} expected {text(value[at], double)}"
          f" allowed {text(low[at], double)} .. {text(high[at], double)}"
          f" actual {text(actual[at], double)}")
    return True
