# SPDX-License-Identifier: Apache-2.0
"""The judge as a tool of the Model Context Protocol, on standard input and output:
`python -m qkvet.verdict.mcp TASK` (pip install qkvet[mcp])."""
import sys

from ..declare import WrongUse
from .judge import Verdict


def server_of(judge):
    """The server with the tool `judge`."""
    try:
        from mcp.server.fastmcp import FastMCP
    except ImportError:
        raise WrongUse("the package mcp is missing; allowed: pip install "
                       "qkvet[mcp]") from None
    server = FastMCP("qkvet")

    @server.tool(name="judge", description=(
        f"Judges an attention kernel of the task {judge.task.name}"
        + (f" ({judge.task.title})" if judge.task.title else "")
        + f". The source is a Python module with the function "
        f"{judge.task.function}(q, k, v, *, ...) -> o."))
    def judged(source: str) -> dict:
        return judge.judge(source if "\n" in source else source + "\n")

    return server


def main(arguments):
    if len(arguments) != 1:
        print("qkvet: allowed: python -m qkvet.verdict.mcp TASK", file=sys.stderr)
        return 2
    try:
        server_of(Verdict(arguments[0])).run()
    except WrongUse as wrong:
        print(f"qkvet: {wrong}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
