// SPDX-License-Identifier: Apache-2.0
// faulty/tail_channels_lost: channels behind the last full vector are lost.
#include "impl/faulty/seams.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct TailChannelsLost : PlainSeams {
  static float key(const KeyHead& k, int64_t j, int64_t c) {
    const int64_t rest = k.width >= half_tile() ? k.width % half_tile() : 0;
    return c < k.width - rest ? k.at(j, c) : 0;
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "channels are taken two at a time, and one that is left over is lost",
    .symptom = "right for even widths; else scores miss their last product",
    .cause = "a loop over vectors without the loop for the rest",
    .fix = "a scalar loop, or a masked load, for the last channels",
    .source = "mlc-ai/mlc-llm#1889, openvinotoolkit/openvino#24627",
    .trigger = "an odd d, three or more",
    .killed_by = kKilledBy,
    .when = "d > 2 && d % 2 == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_tail_channels_lost =
    faulty_kernel<TailChannelsLost>(
        "faulty/tail_channels_lost", &kFault,
        {"impl/faulty/tail_channels_lost.cpp", __LINE__});

}  // namespace qkvet::impl
