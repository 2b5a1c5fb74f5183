// SPDX-License-Identifier: Apache-2.0
// faulty/key_head_modulo: query heads take the key/value heads in turn.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct KeyHeadModulo : OptionSeams {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, at.h % call.kv_heads, 0};
  }
};

constexpr const char* kKilledBy[] = {"query_heads_read_their_kv_head",
                                     "other_heads_change_nothing",
                                     "nan_stays_in_its_head",
                                     "permuted_heads_permute_output",
                                     "grouped_heads_equal_repeated_heads",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "query head h reads key/value head h % Hkv instead of h / (H/Hkv)",
    .symptom = "every other query head attends to the keys of another group",
    .cause =
        "repeated heads laid out as [group, Hkv] where [Hkv, group] is meant",
    .fix = "divide: kv = h / (H / Hkv)",
    .source = "textbook, cf. PSAL-POSTECH/ONNXim#34",
    .trigger = "1 < Hkv < H",
    .killed_by = kKilledBy,
    .when = "1 < Hkv && Hkv < H",
};

}  // namespace

extern constinit const qkvet_kernel faulty_key_head_modulo =
    option_fault<KeyHeadModulo>("faulty/key_head_modulo", &kFault,
                                {"impl/faulty/key_head_modulo.cpp", __LINE__});

}  // namespace qkvet::impl
