# SPDX-License-Identifier: Apache-2.0
"""`python -m qkvet WORDS`: the program, with this interpreter as its workers."""
from ._program import main

main()
