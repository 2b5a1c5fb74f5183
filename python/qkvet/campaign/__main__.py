# SPDX-License-Identifier: Apache-2.0
"""`python -m qkvet.campaign OUT [--shards N] [--ray] -- WORDS`."""
import argparse
import os
import sys

from ..declare import WrongUse
from . import local, on_ray
from .folder import Campaign
from .progress import Progress, say

# Words of `qkvet check` that are the campaign's, or the whole run's.
OF_THE_CAMPAIGN = ("--shard", "--json", "--jobs", "-j")
OF_THE_RUN = ("--html", "--sarif", "--junit", "--markdown", "--github")
MOST_SHARDS = 100_000


def _at_least_one(text):
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(
            f"\"{text}\"; allowed: a number from 1 to {MOST_SHARDS}")
    return number


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m qkvet.campaign",
        usage="%(prog)s OUT [options] -- WORDS OF `qkvet check`",
        description="One plan of `qkvet check` on many workers. The same command "
                    "goes on where it ended.",
        epilog="Exit: that of `qkvet report`, as of the whole run; 2 wrong use; 3 "
               "also where a shard is missing.")
    parser.add_argument("out", help="folder, new or of the same campaign")
    parser.add_argument("--shards", type=_at_least_one,
                        help="parts of the plan [16]")
    parser.add_argument("--workers", type=_at_least_one,
                        help="processes at a time [one a core; not with --ray]")
    parser.add_argument("--jobs", type=_at_least_one, default=1,
                        help="threads, and with --ray CPUs, of a shard [1]")
    parser.add_argument("--gpu", action="store_true",
                        help="a GPU for each shard")
    parser.add_argument("--tries", type=_at_least_one, default=3,
                        help="how often a shard may be lost [3]")
    parser.add_argument("--ray", nargs="?", const="auto", metavar="ADDRESS",
                        help="on Ray: the cluster that runs (auto), ADDRESS, or "
                             "one for this campaign (local)")
    parser.add_argument("--patience", type=_at_least_one, default=600,
                        help="seconds to wait for a cluster that is gone [600]")
    return parser


def _read(line):
    split = line.index("--") if "--" in line else len(line)
    options = _parser().parse_args(line[:split])
    words = line[split + 1:]
    for word in words:
        name = word.split("=", 1)[0]
        if name in OF_THE_CAMPAIGN:
            raise WrongUse(f"{name}: the campaign sets it; allowed: words of "
                           "`qkvet check` that say what is judged")
        if name in OF_THE_RUN:
            raise WrongUse(f"{name}: belongs to the whole run; allowed: `qkvet "
                           f"report {options.out}/all.jsonl {name} ...` afterwards")
    if options.ray and options.workers:
        raise WrongUse("--workers: Ray has its own; allowed with --ray: --jobs, "
                       "the CPUs of a shard")
    return options, words


def _finish(campaign):
    """The report of all finished shards."""
    if not campaign.done():
        say("no shard is done; the same command goes on")
        return 3
    code, text = campaign.merge()
    print(text, end="")
    print(f"  record      {campaign.out / 'all.jsonl'}")
    return code


def main(line):
    options, words = _read(line)
    campaign = Campaign(options.out, words, options.shards, options.jobs,
                        os.getcwd())
    if on_ray.is_driver():
        return on_ray.drive(campaign, options.ray, options.gpu, options.tries)
    if options.ray:
        on_ray.require_ray()
    with campaign.locked():
        done = len(campaign.done())
        say(f"campaign {campaign.out}: {campaign.of} shards" +
            (f", {done} of them done" if done else ""))
        try:
            if campaign.missing() and options.ray:
                on_ray.supervise(line, campaign, options.patience)
            elif campaign.missing():
                workers = options.workers or max(
                    1, len(os.sched_getaffinity(0)) // options.jobs)
                local.Pool(campaign, workers, options.gpu).run(
                    Progress(campaign, options.tries))
        except KeyboardInterrupt:
            say("interrupted; the same command goes on")
        except WrongUse:
            campaign.forget()  # wrong words leave no folder
            raise
        return _finish(campaign)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (WrongUse, RuntimeError) as wrong:
        print(f"qkvet.campaign: {wrong}", file=sys.stderr)
        sys.exit(2)
