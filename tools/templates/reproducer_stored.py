# SPDX-License-Identifier: Apache-2.0
def stored(x, storage):
    """Rounded to the storage type."""
    x = np.asarray(x, np.float64)
    if storage == "bf16":
        step = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 8, -133))
        return np.where(np.isfinite(x), np.rint(x / step) * step, x)
    types = {"f64": np.float64, "f32": np.float32, "f16": np.float16}
    return x.astype(types[storage]).astype(np.float64)
