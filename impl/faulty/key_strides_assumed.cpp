// SPDX-License-Identifier: Apache-2.0
// faulty/key_strides_assumed: K read as contiguous [B, Hkv, Tk, d].
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct KeyStridesAssumed : OptionSeams {
  // Every other order of the same extents, and every gap, takes at least as
  // much memory. Shared heads and members take less: they keep their strides.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    const bool shared = (whole.k.step[0] == 0 && whole.batch > 1) ||
                        (whole.k.step[1] == 0 && whole.kv_heads > 1);
    if (shared) {
      return;
    }
    member->k.step[3] = 1;
    member->k.step[2] = whole.width;
    member->k.step[1] = whole.keys * whole.width;
    member->k.step[0] = whole.kv_heads * whole.keys * whole.width;
  }
};

constexpr const char* kKilledBy[] = {"layout_changes_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the strides of K are not read: it is taken for contiguous",
    .symptom = "keys of other heads and rows as soon as K is a view",
    .cause = "an index written for the layout of the first caller",
    .fix = "use the strides of every tensor, or refuse what is not contiguous",
    .source = "BobMcDear/attorch#14",
    .trigger =
        "another layout than [B, H, T, d], and more than one row; or channels "
        "that lie apart",
    .killed_by = kKilledBy,
    .when =
        "layout != bhtd && (B > 1 || Hkv > 1 || Tk > 1 || (layout == apart && "
        "d > 1))",
};

}  // namespace

extern constinit const qkvet_kernel faulty_key_strides_assumed =
    option_fault<KeyStridesAssumed>(
        "faulty/key_strides_assumed", &kFault,
        {"impl/faulty/key_strides_assumed.cpp", __LINE__});

}  // namespace qkvet::impl
