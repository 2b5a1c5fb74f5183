# SPDX-License-Identifier: Apache-2.0
# --- The verdict --------------------------------------------------------------


def text(x, dtype):
    """The shortest text that reads back as the number."""
    x = np.float64(x) if dtype == np.float64 else np.float32(x)
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


def rounding(x, storage):
    """By how much storing may have moved a number that is now x."""
    if storage not in ("f16", "bf16") and not BEFORE_ROUNDING:
        return 0
    bits, least = {"f64": (53, -1075), "f32": (24, -150), "f16": (11, -25),
                   "bf16": (8, -134)}[storage]
    exponent = np.frexp(np.where(np.isfinite(x), x, 0))[1] - 1 - bits
    return np.ldexp(1.0, np.where(x == 0, least, np.maximum(exponent, least)))


def judge(place, name, storage, wanted, actual):
    """Prints the worst element; whether there is a wrong one."""
    dtype = np.float64 if storage == "f64" else np.float32
    value, bound, low, high = wanted
    right = np.isinf(bound) | ((low <= actual) & (actual <= high))
    right |= np.isnan(value) & np.isnan(actual)
    if right.all():
        return False
    error = np.abs(actual - value) - rounding(actual, storage)
    ratio = np.where(error > 0, error / bound, np.inf)
    worst = np.unravel_index(np.argmax(np.where(right, -1, ratio)), right.shape)
    print(f"{element(place, name, worst)} expected {text(value[worst], dtype)}"
          f" allowed {text(low[worst], dtype)} .. {text(high[worst], dtype)}"
          f" actual {text(actual[worst], dtype)}")
    return True
