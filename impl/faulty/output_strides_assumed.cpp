// SPDX-License-Identifier: Apache-2.0
// faulty/output_strides_assumed: o is taken for contiguous.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct OutputStridesAssumed : OptionSeams {
  // Every other order of the same extents, and every gap, takes at least as
  // much memory.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    member->o.step[3] = 1;
    member->o.step[2] = whole.value_width;
    member->o.step[1] = whole.queries * whole.value_width;
    member->o.step[0] = whole.heads * whole.queries * whole.value_width;
  }
};

constexpr const char* kKilledBy[] = {"layout_changes_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the strides of O are not read: rows are written as if it were "
        "contiguous",
    .symptom =
        "right in one layout; in another heads and tokens are swapped, and "
        "gaps are written",
    .cause =
        "what merges the parts was written for the layout of its own scratch",
    .fix = "use the strides of the caller, or refuse other ones",
    .source = "flagos-ai/FlagGems#5235",
    .trigger =
        "another layout than [B, H, T, d], and more than one row; or channels "
        "that lie apart",
    .killed_by = kKilledBy,
    .when =
        "layout != bhtd && (B > 1 || H > 1 || Tq > 1 || (layout == apart && dv "
        "> 1))",
};

}  // namespace

extern constinit const qkvet_kernel faulty_output_strides_assumed =
    option_fault<OutputStridesAssumed>(
        "faulty/output_strides_assumed", &kFault,
        {"impl/faulty/output_strides_assumed.cpp", __LINE__});

}  // namespace qkvet::impl
