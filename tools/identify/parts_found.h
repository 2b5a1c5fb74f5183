// SPDX-License-Identifier: Apache-2.0
// Inside of identify_kernel(): how the calls begin, which options they may
// have, what the kernel means by them, and how it computes.
#ifndef QKVET_TOOLS_IDENTIFY_PARTS_FOUND_H_
#define QKVET_TOOLS_IDENTIFY_PARTS_FOUND_H_

#include "tools/identify/asking.h"
#include "tools/identify/identify.h"

namespace qkvet::tools {

// Sets Asker::base to a call that agrees with the definition. False, with the
// reason in `found`, where none does.
bool find_base(Asker& asker, Identified& found);
// Storage types, layouts and extents.
void find_storage(Asker& asker, Identified& found);
void find_extents(Asker& asker, Identified& found);
// Options of attention, as QKVET_OPTION_*; sets Asker::takes_cross_lengths.
uint64_t find_options(Asker& asker, Identified& found);
// Whether lse counts in base 2, by which it is judged.
void find_lse_base(Asker& asker);
// With all that was found before, Asker::dialect. `info` is what was found.
void find_dialect(Asker& asker, KernelInfo info, Identified& found);
// Whether something of this word is declared.
bool is_found(const Identified& found, const std::string& field,
              const std::string& word);
// Sums, roundings, tiles and the exponential.
void find_arithmetic(Asker& asker, Identified& found);
// Numbers of keys and rows at which it takes another path. Called after the
// arithmetic is found, because arithmetic may hide paths.
void find_paths(Asker& asker, Identified& found);
// The same call twice.
void find_flags(Asker& asker, Identified& found);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_IDENTIFY_PARTS_FOUND_H_
