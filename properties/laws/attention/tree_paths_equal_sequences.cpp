// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_tree_paths_equal_sequences {

Case constrain(Case value) {
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 2);
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (!value.fields.tree) {
    value.fields.tree = true;
    value.fields.children = 2;
  }
  value.fields.tree_from_file = false;
  value.causal = Causal::kNone;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_field_parts(value, kernel, FieldPart::kBranch);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(input, "the branch alone",
                            "a draft sees one that is not on its branch, or "
                            "not all of its branch or of the history");
}

}  // namespace of_tree_paths_equal_sequences

extern constinit const Law tree_paths_equal_sequences{
    "tree_paths_equal_sequences",
    "A path through the tree of drafts in tree_mask is a sequence: after the "
    "history it equals a causal call of that path alone, without its siblings.",
    "o[path] = forward(q[path], k[history, path], v[history, path], causal), "
    "siblings at one position",
    "a tree of drafts after a history, without a window and ALiBi",
    "A draft sees the history, those that it follows, and itself.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    354,
    Domain{.allows = QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                     QKVET_OPTION_SINK | QKVET_OPTION_ROPE |
                     QKVET_OPTION_LENGTHS | kAllowMemory |
                     QKVET_OPTION_TREE_MASK,
           .about = QKVET_OPTION_TREE_MASK},
    of_tree_paths_equal_sequences::constrain,
    of_tree_paths_equal_sequences::plan,
    of_tree_paths_equal_sequences::judge};

}  // namespace qkvet::properties
