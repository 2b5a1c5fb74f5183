// SPDX-License-Identifier: Apache-2.0
// faulty/head_divided_by_kv_heads: query heads are divided by the number of
// key/value heads.
#include <algorithm>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct HeadDividedByKvHeads : OptionSeams {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, std::min(at.h / call.kv_heads, call.kv_heads - 1), 0};
  }
};

constexpr const char* kKilledBy[] = {"query_heads_read_their_kv_head",
                                     "other_heads_change_nothing",
                                     "nan_stays_in_its_head",
                                     "permuted_heads_permute_output",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "query head h reads key/value head h / Hkv instead of h / (H / Hkv)",
    .symptom =
        "right where there are as many groups as heads in one, as with 4 heads "
        "of 2; wrong elsewhere",
    .cause = "the number of groups taken for their size",
    .fix = "divide by H / Hkv",
    .source = "PSAL-POSTECH/ONNXim#34",
    .trigger = "Hkv > 1, and groups of another size than Hkv",
    .killed_by = kKilledBy,
    .when = "Hkv > 1 && H != Hkv * Hkv",
};

}  // namespace

extern constinit const qkvet_kernel faulty_head_divided_by_kv_heads =
    option_fault<HeadDividedByKvHeads>(
        "faulty/head_divided_by_kv_heads", &kFault,
        {"impl/faulty/head_divided_by_kv_heads.cpp", __LINE__});

}  // namespace qkvet::impl
