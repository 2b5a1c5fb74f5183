// SPDX-License-Identifier: Apache-2.0
// faulty/hidden_scores_overflow_f16: the number that stands for a hidden score
// is infinite in f16.
#include <cmath>
#include <memory>
#include <new>

#include "impl/faulty/option_fault.h"
#include "impl/half.h"
#include "impl/in_f32.h"

namespace qkvet::impl {
namespace {

// Where a key is seen, hidden ones have weight 0 and are left out.
struct HiddenScoresOverflowF16 : OptionSeams {
  static float empty_row(const ForwardCall& call, RowAt at, int64_t c) {
    const float hidden =
        from_half(Storage::kF16, to_half(Storage::kF16, -1e9f));
    const float weight = std::exp(hidden - hidden);
    float sum = 0, acc = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      sum += weight;
      acc += weight * call.v.at(at.b, at.h / call.group(), j)[c];
    }
    return acc / sum;
  }
};

qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
  const std::unique_ptr<float[]> scratch(
      new (std::nothrow) float[static_cast<size_t>(call.keys)]);
  if (scratch == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
  }
  using Kernel = OptionsKernel<HiddenScoresOverflowF16>;
  Kernel::Memory memory = {scratch.get(), OptionSeams::kNone};
  Kernel::compute(call, &memory);
  return QKVET_OK;
}

constexpr qkvet_capabilities kF16WithMask =
    capabilities_with(kCommonOptions | QKVET_OPTION_MASK, {kF16});

constexpr const char* kKilledBy[] = {"rows_without_a_key_follow_the_dialect",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "hidden scores are -1e9, which f16 stores as -infinity",
    .symptom = "right in f32 and bf16; NaN in f16, in rows that see nothing",
    .cause =
        "a sentinel that is chosen for the range of f32 passes through the "
        "type of the tensors",
    .fix =
        "treat rows without a key before the softmax, or take the lowest "
        "number of the type",
    .source = "tatp22/linformer-pytorch#19, monatis/ggmlc#13",
    .trigger = "f16, and a row that sees no key",
    .killed_by = kKilledBy,
    .when = "rows(seen == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_hidden_scores_overflow_f16 =
    with_fault(
        plain_kernel("faulty/hidden_scores_overflow_f16", kFault.mechanism,
                     {"impl/faulty/hidden_scores_overflow_f16.cpp", __LINE__},
                     &kSeamsPrecision, forward_in_f32<compute>, &kF16WithMask),
        &kFault) /*HiddenScoresOverflowF16*/;

}  // namespace qkvet::impl
