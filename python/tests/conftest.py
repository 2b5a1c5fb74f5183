# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE), os.environ.get("PYTHONPATH", "")])
