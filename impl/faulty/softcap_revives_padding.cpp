// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_revives_padding: softcap turns the padding of a tile into
// finite scores.
#include "impl/faulty/tiled_seams.h"

namespace qkvet::impl {
namespace {

struct SoftcapRevivesPadding : TiledSeams {
  static float padding(const ForwardCall& call) {
    return call.options.softcap > 0 ? -call.options.softcap : kNone;
  }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one",
                                     "every_key_counts_once",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the padding of the last tile, -infinity, passes through the cap and "
        "becomes -cap",
    .symptom = "outputs are too small where the keys do not fill their tiles",
    .cause = "padding is written before the cap and not again after it",
    .fix = "cap first, then pad and mask",
    .source = "ggml-org/llama.cpp#29034",
    .trigger = "a softcap, and an odd Tk, the tile being 2",
    .killed_by = kKilledBy,
    .when = "softcap && Tk % 2 == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_revives_padding =
    tiled_fault<SoftcapRevivesPadding, QKVET_OPTION_SOFTCAP>(
        "faulty/softcap_revives_padding", &kFault,
        {"impl/faulty/softcap_revives_padding.cpp", __LINE__});

}  // namespace qkvet::impl
