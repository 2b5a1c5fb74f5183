// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_mask_fields_equal_rows_alone {

Case constrain(Case value) { return with_mask_fields(std::move(value)); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_field_parts(value, kernel, FieldPart::kRow);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(
      input, "the row alone, over the keys that it sees",
      "a row sees other keys than segments, ranges, chunk or tree leave it");
}

}  // namespace of_mask_fields_equal_rows_alone

extern constinit const Law mask_fields_equal_rows_alone{
    "mask_fields_equal_rows_alone",
    "A row that segments, ranges, a chunk or a tree of drafts leave some keys "
    "equals a call of that row over those keys, without any of them.",
    "o[i] = forward(q[i], k[seen by i], v[seen by i])",
    "segments, ranges, a chunk or a tree; some row sees a key",
    "Hidden keys do not occur in the formula of a row; how ranges and a window "
    "go together is the dialect's ranges_and_window.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    352,
    Domain{.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS |
                     QKVET_OPTION_PACKED | QKVET_OPTION_BIAS |
                     QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                     QKVET_OPTION_ROPE | kAllowMemory | kAllowFields,
           .about = kAllowFields},
    of_mask_fields_equal_rows_alone::constrain,
    of_mask_fields_equal_rows_alone::plan,
    of_mask_fields_equal_rows_alone::judge};

}  // namespace qkvet::properties
