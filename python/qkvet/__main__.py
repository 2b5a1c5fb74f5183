# SPDX-License-Identifier: Apache-2.0
"""`python -m qkvet WORDS`: the program, whose workers are this interpreter."""
from ._program import main

main()
