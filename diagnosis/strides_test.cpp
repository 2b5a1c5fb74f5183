// SPDX-License-Identifier: Apache-2.0
// Tensors that are read with the address of another stride, and an lse that is
// one number with right rows. The control reads at addresses that no stride
// gives.
#include <algorithm>
#include <cmath>

#include "core/base/philox.h"
#include "diagnosis/fake_faults.h"

namespace qkvet::diagnosis::strides_test {
namespace {

using instead_test::answering;
using instead_test::expect_said;
using instead_test::Fault;
using instead_test::in_room;
using instead_test::look;
using instead_test::Looked;

// V of a kernel that reads channel c of token t from `of`, counted from the
// start of its head; memory beside the tensor is NaN.
FakeExecutor::Question reading_v(int64_t (*of)(int64_t t, int64_t c,
                                               int64_t width)) {
  return in_room([of](KernelCall&, Problem& p, Room& room) {
    const Shape& s = p.shape;
    const int64_t head = s.Tk * s.dv, all = s.v_elements();
    std::vector<double> v(static_cast<size_t>(all), std::nan(""));
    for (int64_t n = 0; n < all; ++n) {
      const int64_t at = n / head * head + of(n % head / s.dv, n % s.dv, s.dv);
      if (at >= 0 && at < all) v[static_cast<size_t>(n)] = p.v[at];
    }
    p.v = room.keep(std::move(v));
  });
}

TEST(Strides, ATensorThatIsReadAtAnotherAddressIsKnown) {
  const Fault faults[] = {
      {"the result of v read with the stride of the channel times -1",
       Stage::kValues,
       reading_v([](int64_t t, int64_t c, int64_t w) { return t * w - c; })},
      {"the result of v read with the first token instead of each",
       Stage::kValues,
       reading_v([](int64_t, int64_t c, int64_t) { return c; })},
      {"the result of v read with token and channel exchanged", Stage::kValues,
       reading_v([](int64_t t, int64_t c, int64_t w) { return c * w + t; })}};
  for (const Fault& fault : faults) expect_said(fault);
}

// If there is one head, its stride may be 0 and reads the first token there.
// With several heads the stride is another one, and the kernel is right.
TEST(Strides, TheFirstOfEachIsNotTheStrideOfAnExtentOf1) {
  const auto first = reading_v([](int64_t, int64_t c, int64_t) { return c; });
  const Looked looked =
      look({"", Stage::kUnknown, [first](KernelCall& call, Problem& p) {
              if (call.shape.Hkv == 1) first(call, p);
            }});
  ASSERT_TRUE(looked.failure);
  EXPECT_GE(looked.instead.cases, 3);
  EXPECT_EQ(looked.instead.text().find("the first token"), std::string::npos)
      << looked.instead.text();
}

TEST(Strides, NoStrideGivesWhatIsReadAnywhere) {
  const Looked looked =
      look({"", Stage::kUnknown, reading_v([](int64_t t, int64_t c, int64_t w) {
              const auto n = static_cast<uint32_t>(t * w + c);
              return static_cast<int64_t>(philox_u64(5, n, 0, 0) % 7) * (t + c);
            })});
  ASSERT_TRUE(looked.failure);
  EXPECT_EQ(looked.instead.text().find("the result of"), std::string::npos)
      << looked.instead.text();
}

// A constant lse is no sum of right rows; with wrong rows it has their cause.
TEST(Strides, AnLseOfOneNumberIsOfLseAlone) {
  for (const bool is_alone : {true, false}) {
    const Looked looked = look(answering(
        [is_alone](const KernelCall&, OracleOutput& out, CallOutcome&) {
          std::fill(out.lse.begin(), out.lse.end(), -INFINITY);
          for (double& o : out.o) o *= is_alone ? 1 : 3;
        }));
    ASSERT_TRUE(looked.failure);
    EXPECT_EQ(looked.instead.stage == Stage::kLse, is_alone)
        << looked.instead.text();
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::strides_test
