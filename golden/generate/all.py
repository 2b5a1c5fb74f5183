# SPDX-License-Identifier: Apache-2.0
"""Makes all sets anew, from the root of the repository:

    python3 -m golden.generate.all [NAME ...]

with names of generators, or all of them. Sets stay as they are if the package of
their source is not installed.
"""
import importlib
import sys

from golden.generate import sets

GENERATORS = ("by_hand", "numpy_f64", "onnx_evaluator", "jax_cpu", "torch_cpu")


def main(names):
    for name in names or GENERATORS:
        try:
            module = importlib.import_module("golden.generate." + name)
        except ModuleNotFoundError as error:
            if error.name.startswith("golden"):
                raise
            print(f"{name}: {error.name} is not installed; "
                  "its sets stay as they are")
            continue
        generator = module.make()
        generator.write()
        print(f"{name}: {len(generator.made)} sets")
    print(f"manifest: {sets.write_manifest()} sets")


if __name__ == "__main__":
    main(sys.argv[1:])
