// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_segments_equal_sequences {

// A segment may be in several pieces: no rule that counts positions holds.
Case constrain(Case value) {
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (!value.fields.segments) {
    value.fields.segments = true;
    value.fields.tokens = 2;
  }
  value.fields.segments_from_file = false;
  value.causal = Causal::kNone;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_field_parts(value, kernel, FieldPart::kSegment);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(
      input, "the segment alone",
      "a segment sees keys of another one, or not all of its own");
}

}  // namespace of_segments_equal_sequences

extern constinit const Law segments_equal_sequences{
    "segments_equal_sequences",
    "Segments are sequences of their own: each equals a call of the rows and "
    "keys that have its number.",
    "o[i in s] = forward(q[s], k[s], v[s]), s = the places of one number",
    "segments, one of which has rows and keys",
    "A row sees the keys of its number alone, wherever they lie.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    353,
    Domain{.allows = QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                     QKVET_OPTION_SINK | QKVET_OPTION_ROPE |
                     QKVET_OPTION_LENGTHS | kOptionLayout | kOptionShare |
                     QKVET_OPTION_APPEND | QKVET_OPTION_SEGMENTS,
           .about = QKVET_OPTION_SEGMENTS},
    of_segments_equal_sequences::constrain,
    of_segments_equal_sequences::plan,
    of_segments_equal_sequences::judge};

}  // namespace qkvet::properties
