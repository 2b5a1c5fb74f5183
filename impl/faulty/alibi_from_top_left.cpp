// SPDX-License-Identifier: Apache-2.0
// faulty/alibi_from_top_left: ALiBi forgets the keys in front of a chunk.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct AlibiFromTopLeft : OptionSeams {
  static float distance(const ForwardCall&, int64_t i, int64_t j) {
    return std::fabs(static_cast<float>(i - j));
  }
};

constexpr const char* kKilledBy[] = {"bias_alone_decides", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "ALiBi takes the row number for the row's position",
    .symptom = "right for prompts, wrong for every chunk on earlier keys",
    .cause = "the offset Tk - Tq missing from the distance",
    .fix = "count from i + Tk - Tq unless causal from the top left",
    .source = "textbook, cf. huggingface/candle#899",
    .trigger = "ALiBi, and Tq != Tk",
    .killed_by = kKilledBy,
    .when = "alibi && !top_left && Tq != Tk",
};

}  // namespace

extern constinit const qkvet_kernel faulty_alibi_from_top_left =
    option_fault<AlibiFromTopLeft, QKVET_OPTION_ALIBI>(
        "faulty/alibi_from_top_left", &kFault,
        {"impl/faulty/alibi_from_top_left.cpp", __LINE__});

}  // namespace qkvet::impl
