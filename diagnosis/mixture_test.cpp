// SPDX-License-Identifier: Apache-2.0
// The last descriptions: right numbers of other places, means by other scores,
// and sums of values. Each has a kernel for which it must not be reported.
#include <cmath>

#include "diagnosis/fake_faults.h"

namespace qkvet::diagnosis::mixture_test {
namespace {

using instead_test::answering;
using instead_test::Fault;
using instead_test::in_room;
using instead_test::look;
using instead_test::Looked;

// Returns the description of o, and checks it against fresh answers.
std::string said_of(const Fault& fault) {
  const Looked looked = look(fault);
  EXPECT_TRUE(looked.failure) << fault.text;
  EXPECT_EQ(looked.score.right, looked.score.all) << looked.instead.text();
  const OutputInstead* o = looked.find(TensorName::kO);
  if (o == nullptr) return "";
  // Rows without a key are NaN wherever they are moved.
  const std::string finite = "where it is finite, ";
  return o->text.starts_with(finite) ? o->text.substr(finite.size()) : o->text;
}

constexpr const char* kPlaces =
    "right values of other elements, or what stood there before";
constexpr const char* kMean =
    "a mean of the values that its row sees, weighed by other scores";

// Each case has an order of its own.
TEST(Instead, RightNumbersOfOtherPlacesAreKnown) {
  const auto shuffled = [](double more) {
    return answering(
        [more](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          const auto n = static_cast<int64_t>(out.o.size());
          const int64_t step = 2 + call.shape.Tk % 5;
          std::vector<double> o = out.o;
          for (int64_t at = 0; at < n; ++at)
            o[static_cast<size_t>(at)] =
                out.o[static_cast<size_t>(at * step % n)] + more;
          out.o = o;
        });
  };
  EXPECT_EQ(said_of(shuffled(0)), kPlaces);
  // The control: other numbers in the same order.
  EXPECT_NE(said_of(shuffled(0.37)), kPlaces);
}

// Adds a different number to each element of a tensor.
const double* noisy(const double* from, int64_t n, Room& room) {
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t at = 0; at < n; ++at)
    values[static_cast<size_t>(at)] =
        (from == nullptr ? 0 : from[at]) +
        std::sin(static_cast<double>(7 * at + n % 11));
  return room.keep(std::move(values));
}

// Other scores of unknown origin; in the control the values are wrong instead.
TEST(Instead, MeansByOtherScoresAreKnown) {
  const auto other = [](bool of_scores) {
    return instead_test::asking(
        "", Stage::kUnknown, [=](KernelCall&, Problem& p, Room& room) {
          if (of_scores)
            p.bias = noisy(p.bias, p.shape.weights_elements(), room);
          else
            p.v = noisy(p.v, p.shape.v_elements(), room);
        });
  };
  EXPECT_EQ(said_of(other(true)), kMean);
  EXPECT_NE(said_of(other(false)), kMean);
}

// Other weights with a right lse are not due to other scores.
TEST(Instead, MeansBesideARightLseAreOfOtherWeights) {
  const auto right = std::make_shared<std::vector<double>>();
  const Fault fault{"", Stage::kUnknown,
                    in_room([=](KernelCall&, Problem& p, Room& room) {
                      *right = plain_forward(p).lse;
                      p.bias = noisy(p.bias, p.shape.weights_elements(), room);
                    }),
                    [=](const KernelCall&, OracleOutput& out, CallOutcome&) {
                      out.lse = *right;
                    }};
  EXPECT_EQ(said_of(fault),
            "a mean of the values that its row sees, with other weights");
}

// Each row is a sum of values with its own weights: of the visible keys, of all
// keys, and, as the control, of these and something else.
TEST(Instead, SumsOfValuesByWrongWeightsAreKnown) {
  enum class Of : uint8_t { kSeen, kAll, kMore };
  const auto summed = [](Of what) {
    const auto asked = std::make_shared<Problem>();
    return Fault{
        "", Stage::kUnknown, [asked](KernelCall&, Problem& p) { *asked = p; },
        [=](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          const Shape& s = call.shape;
          for (int64_t at = 0; at < std::ssize(out.o); ++at) {
            const int64_t row = at / s.dv, c = at % s.dv;
            if (out.visible[static_cast<size_t>(row)] <= 0) continue;
            const double* v = asked->v + kv_head_of(s, row) * s.Tk * s.dv;
            double sum =
                what == Of::kMore ? std::sin(static_cast<double>(at)) : 0;
            for (int64_t j = 0; j < s.Tk; ++j) {
              const bool sees =
                  out.sees[static_cast<size_t>(row * s.Tk + j)] != 0;
              if (sees || what == Of::kAll)
                sum += std::cos(static_cast<double>(5 * row + 3 * j)) *
                       v[j * s.dv + c];
            }
            out.o[static_cast<size_t>(at)] = sum;
          }
        }};
  };
  EXPECT_EQ(said_of(summed(Of::kSeen)),
            "a sum of the values that its row sees, with wrong weights");
  EXPECT_EQ(said_of(summed(Of::kAll)),
            "a sum of values of its key/value head, of hidden keys as well, "
            "with wrong weights");
  EXPECT_EQ(said_of(summed(Of::kMore)), "");
}

// If an option makes some answers wrong in another way, the description is of
// the others.
TEST(Instead, WhatIsSoWithoutAnOptionIsSaidSo) {
  const auto answer = [](bool is_so) {
    return answering(
        [is_so](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          for (size_t n = 0; n < out.o.size(); ++n) {
            const double own = std::sin(static_cast<double>(n));
            const bool is_other =
                is_so ? call.causal != Causal::kNone
                      : philox_u64(3, static_cast<uint32_t>(n), 0, 0) % 3 == 0;
            out.o[n] = is_other ? out.o[n] + 2 + own : 3 * out.o[n];
          }
        });
  };
  EXPECT_EQ(said_of(answer(true)), "the right value times 3 where not causal");
  EXPECT_EQ(said_of(answer(false)), "");
}

}  // namespace
}  // namespace qkvet::diagnosis::mixture_test
