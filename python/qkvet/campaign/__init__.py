# SPDX-License-Identifier: Apache-2.0
"""One plan of `qkvet check` on many workers (python/campaigns.md):

    python -m qkvet.campaign night --shards 16 -- ./libmine.so --cases 200000

`folder` the files of a campaign, `shard` one shard as a process, `local` a pool of
processes, `on_ray` the same on Ray, the only module that imports it.
"""
