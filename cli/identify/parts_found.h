// SPDX-License-Identifier: Apache-2.0
// Parts of identify_kernel(): the base of the calls, the options, the dialect,
// and the arithmetic.
#ifndef QKVET_CLI_IDENTIFY_PARTS_FOUND_H_
#define QKVET_CLI_IDENTIFY_PARTS_FOUND_H_

#include "cli/identify/asking.h"
#include "cli/identify/identify.h"

namespace qkvet::cli {

// Sets Asker::base to a call that agrees with the definition. False, with the
// reason in `found`, if there is none.
bool find_base(Asker& asker, Identified& found);
// Storage types, layouts and extents.
void find_storage(Asker& asker, Identified& found);
void find_extents(Asker& asker, Identified& found);
// Options of attention, as QKVET_OPTION_*; sets Asker::takes_cross_lengths.
uint64_t find_options(Asker& asker, Identified& found);
// Whether lse is in base 2; needed to judge it.
void find_lse_base(Asker& asker);
// Finds Asker::dialect with the previous findings, `info`.
void find_dialect(Asker& asker, KernelInfo info, Identified& found);
// Whether a field with this word is declared.
bool is_found(const Identified& found, const std::string& field,
              const std::string& word);
// Sums, roundings, tiles and the exponential.
void find_arithmetic(Asker& asker, Identified& found);
// Numbers of keys and rows at which it takes another path. Called after the
// arithmetic is found, because arithmetic may hide paths.
void find_paths(Asker& asker, Identified& found);
// Repeats a call.
void find_flags(Asker& asker, Identified& found);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_IDENTIFY_PARTS_FOUND_H_
