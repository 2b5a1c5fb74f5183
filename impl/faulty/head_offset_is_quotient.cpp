// SPDX-License-Identifier: Apache-2.0
// faulty/head_offset_is_quotient: the stride of a head is a number of whole
// tokens.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct HeadOffsetIsQuotient : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.kv_heads > 1 && whole.keys > 1) {
      const int64_t token = whole.k.step[2];
      member->k.step[1] = whole.k.step[1] / token * token;
    }
  }
};

constexpr const char* kKilledBy[] = {"layout_changes_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the offset of a head of K is a quotient of two strides, times one of "
        "them",
    .symptom =
        "right where heads lie in one piece; in [B, T, H, d] all heads read "
        "the keys of the first",
    .cause =
        "the stride of a head is expected to be a multiple of that of a token",
    .fix = "use the stride that the tensor has",
    .source = "BobMcDear/attorch#14",
    .trigger =
        "a layout in which heads are no whole tokens apart, Hkv > 1 and Tk > 1",
    .killed_by = kKilledBy,
    .when = "layout != bhtd && Hkv > 1 && Tk > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_head_offset_is_quotient =
    option_fault<HeadOffsetIsQuotient>(
        "faulty/head_offset_is_quotient", &kFault,
        {"impl/faulty/head_offset_is_quotient.cpp", __LINE__});

}  // namespace qkvet::impl
