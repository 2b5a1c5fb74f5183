// SPDX-License-Identifier: Apache-2.0
// scalar/merge: the states of a row become one, as defined in merge.h,
// written to be read. The steps are those of merge_skeleton.h with every hook
// correct; half storage is converted to f32 first, and o is rounded to it
// last.
//
// Contract: any strides, addresses aligned to elements, outputs apart from
// inputs except for the state that is merged in place.
#include "impl/skeletons/merge_skeleton.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel scalar_merge =
    merge_kernel("scalar/merge", "states of attention become one",
                 {"impl/scalar/merge.cpp", __LINE__}, &kMergeTable<PlainMerge>);

}  // namespace qkvet::impl
