// SPDX-License-Identifier: Apache-2.0
// faulty/mask_rows_assumed_adjacent: the rows of a mask are taken to lie Tk
// elements apart.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskRowsAssumedAdjacent : OptionSeams {
  // Only of rows that are longer than one element and are not all the same.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    View<const uint8_t>& mask = member->options.mask;
    if (mask.data != nullptr && mask.step[2] != 0 && mask.step[3] != 0) {
      mask.step[2] = whole.keys;
    }
  }
};

constexpr const char* kKilledBy[] = {"layout_changes_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "row i of the mask is read i Tk elements behind the first",
    .symptom =
        "right for a mask that was made for the call; the rows of a slice of a "
        "larger one are those of others",
    .cause =
        "the stride of a mask is computed where that of q, k and v is asked "
        "for",
    .fix = "use the strides of the mask",
    .source = "textbook, cf. facebookresearch/xformers#813",
    .trigger =
        "a mask with rows and keys of its own that lies in a wider buffer",
    .killed_by = kKilledBy,
    .when = "mask && layout == gaps && Tq > 1 && Tk > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_rows_assumed_adjacent =
    option_fault<MaskRowsAssumedAdjacent, QKVET_OPTION_MASK>(
        "faulty/mask_rows_assumed_adjacent", &kFault,
        {"impl/faulty/mask_rows_assumed_adjacent.cpp", __LINE__});

}  // namespace qkvet::impl
