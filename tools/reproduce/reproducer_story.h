// SPDX-License-Identifier: Apache-2.0
// Stories in words that every kind of reproducer takes over.
#ifndef QKVET_TOOLS_REPRODUCE_REPRODUCER_STORY_H_
#define QKVET_TOOLS_REPRODUCE_REPRODUCER_STORY_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/reproduce/reproducer.h"

namespace qkvet::tools {

using NamedNumbers = std::vector<std::pair<const char*, int64_t>>;

// "create", "step", "truncate", ..., as the cache table of the ABI calls it.
const char* command_name(Operation operation);
// What the command says beside its tensors: sequence, tokens, first, other.
NamedNumbers command_numbers(const CallPlan& plan);
// The parents of a reorder, one for every sequence.
std::vector<int64_t> command_parents(const CallPlan& plan, int64_t sequences);

// What the caches are made for: sequences, heads, ..., rollback.
NamedNumbers config_numbers(const CallPlan& created);
// "int8", "fp8_e4m3", "": as given; "per token", "per channel", "".
const char* stored_codes(const CacheForm& form);
const char* stored_scales(const CacheForm& form);
// The same in all steps.
RopeStyle story_rope(const Reproducer& from);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPRODUCE_REPRODUCER_STORY_H_
