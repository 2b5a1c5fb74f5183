# SPDX-License-Identifier: Apache-2.0
"""`qkvet verdict`, and `python -m qkvet.verdict`."""
import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
