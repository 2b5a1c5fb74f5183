// SPDX-License-Identifier: Apache-2.0
// For the tests of impl/: a small legal call of a layer.
#ifndef QKVET_IMPL_TESTING_LAYER_CALLS_H_
#define QKVET_IMPL_TESTING_LAYER_CALLS_H_

#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl {

inline std::vector<const qkvet_kernel*> layer_kernels() {
  return kernels_that(
      [](const qkvet_kernel& kernel) { return kernel.layer != nullptr; });
}

// D = 6, H = 4, Hkv = 2, d = 3, dv = 5.
inline qkvet_layer_args layer_call(Tensors& t) {
  qkvet_layer_args a = {};
  a.struct_size = sizeof(a);
  a.heads = 4;
  a.kv_heads = 2;
  a.x = t.make({2, 4, 6});
  a.y = t.make({2, 4, 6});
  a.w_q = t.make({6, 12});
  a.w_k = t.make({6, 6});
  a.w_v = t.make({6, 10});
  a.w_o = t.make({20, 6});
  a.b_q = t.make({12});
  a.b_k = t.make({6});
  a.b_v = t.make({10});
  a.b_o = t.make({6});
  a.q = t.make({2, 4, 4, 3});
  a.k = t.make({2, 2, 4, 3});
  a.v = t.make({2, 2, 4, 5});
  a.attended = t.make({2, 4, 4, 5});
  return a;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_LAYER_CALLS_H_
