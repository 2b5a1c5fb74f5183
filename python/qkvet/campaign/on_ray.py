# SPDX-License-Identifier: Apache-2.0
"""The same on Ray: a task a shard. The records come back to the driver, so the
machines need to share only the folder of the kernel.

A driver ends with its cluster. So it is a separate process, which its parent
starts again once the cluster is back: finished shards are in the folder."""
import importlib.util
import os
import subprocess
import sys
import time

from .. import _program
from ..declare import WrongUse
from . import shard
from .progress import Progress, say

# Exit codes of a driver; Ray has others.
DONE, WRONG, GIVEN_UP, NO_CLUSTER = 0, 2, 3, 75
CONNECTED = "connected"
BETWEEN_DRIVERS_S = 2.0
ALLOWED = "allowed: `ray start --head` first, --ray ADDRESS, or --ray local"
SAYS = "qkvet.campaign says: "  # before the line of a driver; Ray prints others


def require_ray():
    if importlib.util.find_spec("ray") is None:
        raise WrongUse("--ray: the package ray is not installed; allowed: pip "
                       "install ray, or no --ray for processes on this machine")


def supervise(arguments, campaign, patience):
    """Runs drivers until all shards are done, or until none was for `patience`
    seconds. True if no shard was given up. WrongUse as from a driver."""
    progress_at = time.monotonic()
    done = len(campaign.done())
    first = True
    while True:
        code, line = _driver(arguments, campaign)
        if code in (DONE, GIVEN_UP):
            return code == DONE
        connected = line == CONNECTED
        if line and code == WRONG or first and not connected:
            raise WrongUse(line or f"--ray: no cluster answers; {ALLOWED}")
        now_done = len(campaign.done())
        if now_done > done:
            done, progress_at = now_done, time.monotonic()
        if time.monotonic() - progress_at > patience:
            say(f"no cluster for {patience:.0f} s; the same command goes on")
            return False
        if connected:
            say(f"the cluster is lost ({done} of {campaign.of} done); waiting for "
                "it")
        first = False
        time.sleep(BETWEEN_DRIVERS_S)


def _driver(arguments, campaign):
    """One driver: its exit code, and its line if it has one."""
    env = _program.environment()
    # How long Ray itself waits for a lost head, and for one to appear.
    env.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    env.setdefault("RAY_DEDUP_LOGS", "0")
    env["QKVET_CAMPAIGN_DRIVER"] = "1"
    command = [sys.executable, "-m", "qkvet.campaign", *arguments]
    with subprocess.Popen(command, env=env, cwd=campaign.cwd,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as driver:
        try:
            said, _ = driver.communicate()
        except BaseException:
            driver.kill()
            raise
    lines = [line for line in said.splitlines() if line.startswith(SAYS)]
    return driver.returncode, "".join(lines[-1:]).removeprefix(SAYS)


def _environment_of_workers():
    own = _program.environment()
    return {name: own[name] for name in ("PYTHONPATH", "QKVET_HOME")
            if name in own}


def _connect(ray, address):
    # If no cluster answers, Ray may also end the process.
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR",
                 runtime_env={"env_vars": _environment_of_workers()})
    except (ConnectionError, RuntimeError, ValueError) as error:
        line = str(error).strip().splitlines()
        print(f"{SAYS}--ray {address}: no cluster "
              f"({line[0] if line else 'no answer'}); {ALLOWED}")
        sys.exit(NO_CLUSTER)
    print(SAYS + CONNECTED, flush=True)


def drive(campaign, address, gpu, tries):
    """In a separate process: runs all missing shards as tasks. Returns its exit
    code."""
    import ray
    _connect(ray, address)
    # Lost tasks are counted here, as by any other pool.
    task = ray.remote(num_cpus=campaign.jobs, num_gpus=1 if gpu else 0,
                      max_retries=0)(shard.run)
    progress = Progress(campaign, tries)

    def start(number):
        named = task.options(name=f"qkvet shard {number}/{campaign.of}")
        return named.remote(campaign.words, number, campaign.of, campaign.cwd,
                            campaign.jobs)

    waiting = {start(number): number for number in campaign.missing()}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for one in ready:
            number = waiting.pop(one)
            try:
                again = progress.took(ray.get(one))
            except ray.exceptions.LocalRayletDiedError:
                # The cluster, and not this task. Ray would wait for it in vain,
                # and then end this process.
                sys.stderr.flush()
                os._exit(NO_CLUSTER)
            except ray.exceptions.RayError as error:
                again = progress.lost(number, type(error).__name__)
            except WrongUse as wrong:
                print(f"{SAYS}{wrong}")
                return WRONG
            if again:
                waiting[start(number)] = number
    return GIVEN_UP if progress.given_up else DONE


def is_driver():
    return os.environ.get("QKVET_CAMPAIGN_DRIVER") == "1"
