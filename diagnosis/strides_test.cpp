// SPDX-License-Identifier: Apache-2.0
// Tensors that are read or written with the address of another stride, and an
// lse that is one number with right rows. The controls read and write at
// addresses that no stride gives.
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

// Members of a packed batch have addresses of their own: the rows of each are
// stored `apart` elements apart, from its first row on.
Fault storing_rows_of_members(int64_t apart) {
  const auto cuts = std::make_shared<std::vector<int64_t>>();
  return {
      "", Stage::kUnknown,
      [cuts](KernelCall&, Problem& p) {
        cuts->clear();
        // The first member begins where the batch does.
        if (p.cu_q != nullptr && p.members > 1 && p.cu_q[1] > 0 &&
            p.cu_q[2] > p.cu_q[1] + 1)
          cuts->assign(p.cu_q, p.cu_q + p.members + 1);
      },
      [cuts, apart](const KernelCall& call, OracleOutput& out, CallOutcome&) {
        const Shape& s = call.shape;
        if (cuts->empty()) return;
        std::vector<double> stored(out.o.size(), std::nan(""));
        for (int64_t h = 0; h < s.H; ++h)
          for (size_t m = 1; m < cuts->size(); ++m)
            for (int64_t i = (*cuts)[m - 1]; i < (*cuts)[m]; ++i)
              for (int64_t c = 0; c < s.dv; ++c) {
                const int64_t first = (h * s.Tq + (*cuts)[m - 1]) * s.dv;
                const int64_t at = first + (i - (*cuts)[m - 1]) * apart + c;
                if (at < std::ssize(stored))
                  stored[static_cast<size_t>(at)] =
                      out.o[static_cast<size_t>((h * s.Tq + i) * s.dv + c)];
              }
        out.o = std::move(stored);
      }};
}

TEST(Strides, RowsOfEachMemberAreWrittenFromItsFirst) {
  for (const int64_t apart : {1, 3}) {
    const Looked looked = look(storing_rows_of_members(apart));
    const OutputInstead& o = looked.o();
    EXPECT_EQ(o.text ==
                  "the result of o written with the stride of the channel for "
                  "each token",
              apart == 1)
        << o.text;
    if (apart == 1) {
      EXPECT_EQ(looked.score.right, looked.score.all);
    }
  }
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

// Weights of member b and head h are stored in block `to`.
FakeExecutor::Answer storing_weights(int64_t (*to)(int64_t b, int64_t h,
                                                   int64_t heads)) {
  return [to](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    const Shape& s = call.shape;
    const int64_t block = s.Tq * s.Tk;
    if (block == 0) return;
    std::vector<double> stored(out.weights.size(), std::nan(""));
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t h = 0; h < s.H; ++h) {
        const int64_t at = to(b, h, s.H);
        if (at < 0 || at >= s.B * s.H) continue;
        std::copy_n(out.weights.begin() + (b * s.H + h) * block, block,
                    stored.begin() + at * block);
      }
    out.weights = std::move(stored);
  };
}

TEST(Strides, WeightsThatAreStoredElsewhereAreKnown) {
  const struct {
    FakeExecutor::Answer answer;
    bool is_stride;
  } rows[] = {{storing_weights([](int64_t b, int64_t h, int64_t heads) {
                 return h * heads + b;
               }),
               true},
              {storing_weights([](int64_t b, int64_t h, int64_t heads) {
                 return (b * heads + h) / 2 * 2 + (h + 1) % 2;
               }),
               false}};
  for (const auto& row : rows) {
    const Looked looked = look(answering(row.answer));
    const OutputInstead& weights = looked.of(TensorName::kWeights);
    EXPECT_EQ(
        weights.text ==
            "the result of weights written with member and head exchanged",
        row.is_stride)
        << weights.text;
    if (!row.is_stride) continue;
    EXPECT_EQ(looked.instead.stage, Stage::kOutput);
    EXPECT_GT(looked.score.all, 3);
    EXPECT_EQ(looked.score.right, looked.score.all);
  }
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
