# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""Holds actual_*.npy against what is expected. Needs numpy.

    python3 check.py

Exit: 1 if a number is wrong, else 0. To judge another kernel, write what it
gives over actual_dq.npy (actual_dk.npy, ...).
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
OUTPUTS = ("dq", "dk", "dv", "dbias", "dsink")


# NUMBERS


LETTERS = {"o": "bhic", "dk": "bhjc", "dv": "bhjc", "dbias": "bhij",
           "dsink": "h"}
BEFORE_ROUNDING = True  # bounds say nothing of how numbers are stored


# CALLS


if __name__ == "__main__":
    sys.exit(main())
