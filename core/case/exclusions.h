// SPDX-License-Identifier: Apache-2.0
// Which parts of a call of attention exclude each other. This one list refuses
// cases, repairs them, and checks calls; and a law about the one part does not
// allow the other.
//
// Not in this list: what is allowed together with backward
// (CaseOption::in_backward) and with merge (core/case/merge.h); and conditions
// on extents or on three parts, which the options check themselves.
#ifndef QKVET_CORE_CASE_EXCLUSIONS_H_
#define QKVET_CORE_CASE_EXCLUSIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/case/case.h"

namespace qkvet {

enum class CallPart : uint8_t {
  kNone,
  kPackedBatch,
  kLengths,
  kPages,
  kChannelGroups,
  kNewTokens,
  kShared,
  kSharedHeads,
  kOneBlock,  // layout=packed
  kFar,       // layout=far
  kValuesInKeys,
  kOwnValues,
  kSegments,
  kRanges,
  kChunk,
  kTree
};

struct CallPartRow {
  CallPart part;
  std::string_view name;  // "new tokens"
  // As in CaseOption; 0: a value of an option, which may have others.
  uint64_t option;
  bool (*in_case)(const Case& value);
  std::string (*token)(const Case& value);  // "append=2"
  void (*drop)(Case& value);                // null: it is never dropped
  // Null: a call with the part does not differ from one without it.
  bool (*in_call)(const KernelCall& call);
};

// In the order of CallPart, without kNone.
std::span<const CallPartRow> call_parts();

struct Exclusion {
  CallPart one, other;
  // The part that a repair removes, one of the two. kNone: neither is less
  // important, and the code that draws cases must avoid the pair.
  CallPart goes;
  std::string_view because;  // follows the token of `one` and a colon
};

// In the order in which a case is repaired.
std::span<const Exclusion> exclusions();

// "" or which two parts of an attention case exclude each other, and why.
std::string exclusion_reason(const Case& value);
// "" or which two parts of a call do.
std::string exclusion_contradiction(const KernelCall& call);
// Removes the parts that `goes` names.
void repair_exclusions(Case& value);
// The options, as in CaseOption, that the part always excludes.
uint64_t options_beside_no(CallPart part);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_EXCLUSIONS_H_
