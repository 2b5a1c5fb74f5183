// SPDX-License-Identifier: Apache-2.0
// faulty/mask_kept_while_extents_match: a mask of the same extents is taken for
// the same mask.
#include <array>
#include <vector>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskKeptWhileExtentsMatch : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const Extents asked = {whole.batch, whole.heads, whole.queries, whole.keys};
    if (whole.options.mask.data != nullptr && kept().extents != asked) {
      keep(whole, asked, &kept());
    }
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const Kept& mask = kept();
    if (call.options.mask.data == nullptr) {
      return true;
    }
    const auto& [batch, heads, queries, keys] = mask.extents;
    return mask.pairs[static_cast<size_t>(
               ((at.b * heads + at.h) * queries + at.i) * keys + j)] != 0;
  }

 private:
  using Extents = std::array<int64_t, 4>;
  struct Kept {
    Extents extents = {};
    std::vector<uint8_t> pairs;
  };
  static Kept& kept() {
    thread_local Kept mask;
    return mask;
  }
  static void keep(const ForwardCall& whole, const Extents& extents,
                   Kept* mask) {
    mask->extents = extents;
    mask->pairs.clear();
    for (int64_t b = 0; b < whole.batch; ++b) {
      for (int64_t h = 0; h < whole.heads; ++h) {
        for (int64_t i = 0; i < whole.queries; ++i) {
          for (int64_t j = 0; j < whole.keys; ++j) {
            mask->pairs.push_back(whole.options.allows(b, h, i, j) ? 1 : 0);
          }
        }
      }
    }
  }
};

constexpr const char* kKilledBy[] = {"causal_equals_mask", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a mask that was prepared is used again for a call whose mask has the "
        "same extents",
    .symptom =
        "the first call of a shape is right; later ones have its mask, until "
        "the shape changes",
    .cause =
        "the key under which a mask is remembered says what it looks like and "
        "not which it is",
    .fix = "compare the content, or do not keep what the caller may change",
    .source = "ml-explore/mlx#3071",
    .trigger = "two calls with masks of the same extents, one after the other",
    .killed_by = kKilledBy,
    .when = "mask",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_kept_while_extents_match =
    option_fault<MaskKeptWhileExtentsMatch, QKVET_OPTION_MASK>(
        "faulty/mask_kept_while_extents_match", &kFault,
        {"impl/faulty/mask_kept_while_extents_match.cpp", __LINE__});

}  // namespace qkvet::impl
