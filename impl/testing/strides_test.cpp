// SPDX-License-Identifier: Apache-2.0
// Caches and layers take tensors of any strides: the bits are those of
// contiguous ones, and no gap is written. Laws check only their bounds.
#include <gtest/gtest.h>

#include <vector>

#include "impl/testing/layer_calls.h"
#include "impl/testing/open_cache.h"

namespace qkvet::impl::strides_test {
namespace {

template <class Args>
using Members = std::vector<qkvet_tensor Args::*>;

// The same arguments with these tensors spread.
template <class Args>
Args spread(Args args, const Members<Args>& members, Tensors& t) {
  for (const auto member : members) {
    args.*member = t.spread(args.*member);
  }
  return args;
}

template <class Args>
void expect_same(const Args& right, const Args& spread,
                 const Members<Args>& outputs, const Tensors& t,
                 const char* kernel) {
  for (size_t n = 0; n < outputs.size(); ++n) {
    EXPECT_TRUE(same_elements(right.*outputs[n], spread.*outputs[n]))
        << kernel << " " << n;
  }
  EXPECT_TRUE(t.gaps_are_kept()) << kernel;
}

TEST(Strides, OfStepsOfACache) {
  using A = qkvet_cache_args;
  for (const qkvet_kernel* kernel : cache_kernels()) {
    OpenCache right(kernel, small_config()), other(kernel, small_config());
    for (const int token : {1, 4, 7}) {
      Tensors t;
      const A args = step_call(t, right.config, 0, tokens_from(token, 3), 2);
      const A strided = spread(args, {&A::k, &A::v, &A::q, &A::o, &A::lse}, t);
      ASSERT_EQ(right.step(args, nullptr), QKVET_OK) << kernel->name;
      ASSERT_EQ(other.step(strided, nullptr), QKVET_OK) << kernel->name;
      expect_same(args, strided, {&A::o, &A::lse}, t, kernel->name);
    }
    if (kernel->cache->read_back == nullptr) {
      continue;
    }
    Tensors t;
    const qkvet_tensor k = t.make({1, 2, 9, 6}), v = t.make({1, 2, 9, 5});
    const qkvet_tensor wide_k = t.spread(k), wide_v = t.spread(v);
    ASSERT_EQ(right.read_back(0, k, v, nullptr), QKVET_OK);
    ASSERT_EQ(right.read_back(0, wide_k, wide_v, nullptr), QKVET_OK);
    EXPECT_TRUE(same_elements(k, wide_k)) << kernel->name;
    EXPECT_TRUE(same_elements(v, wide_v)) << kernel->name;
    EXPECT_TRUE(t.gaps_are_kept()) << kernel->name;
  }
}

TEST(Strides, OfLayersAndTheirGradients) {
  using A = qkvet_layer_args;
  using G = qkvet_layer_backward_args;
  const Members<A> inputs = {&A::x,   &A::w_q, &A::w_k, &A::w_v, &A::w_o,
                             &A::b_q, &A::b_k, &A::b_v, &A::b_o};
  const Members<A> outputs = {&A::y, &A::q, &A::k, &A::v, &A::attended};
  const Members<G> gradients = {&G::d_x,   &G::d_w_q, &G::d_w_k,
                                &G::d_w_v, &G::d_w_o, &G::d_b_q,
                                &G::d_b_k, &G::d_b_v, &G::d_b_o};
  for (const qkvet_kernel* kernel : layer_kernels()) {
    OpenKernel open(kernel);
    Tensors t;
    A args = layer_call(t);
    A strided = spread(spread(args, inputs, t), outputs, t);
    for (const A* one : {&args, &strided}) {
      ASSERT_EQ(
          kernel->layer->forward(kernel, open.context(), one, nullptr, nullptr),
          QKVET_OK)
          << kernel->name;
    }
    expect_same(args, strided, outputs, t, kernel->name);
    if (kernel->backward == nullptr) {
      continue;
    }
    for (const auto output : outputs) {
      args.*output = strided.*output = {};
    }
    G g = {};
    g.struct_size = sizeof(g);
    g.layer = &args;
    g.d_y = t.make({2, 4, 6});
    for (size_t n = 0; n < gradients.size(); ++n) {
      const qkvet_tensor& of = args.*inputs[n];
      g.*gradients[n] = t.make({of.shape, of.shape + of.ndim});
    }
    G wide = spread(g, gradients, t);
    wide.d_y = t.spread(g.d_y);
    wide.layer = &strided;
    for (const G* one : {&g, &wide}) {
      ASSERT_EQ(kernel->backward->layer_backward(kernel, open.context(), one,
                                                 nullptr, nullptr),
                QKVET_OK)
          << kernel->name;
    }
    expect_same(g, wide, gradients, t, kernel->name);
  }
}

}  // namespace
}  // namespace qkvet::impl::strides_test
