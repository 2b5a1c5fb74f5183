// SPDX-License-Identifier: Apache-2.0
// Kernels with one number changed by an arbitrary amount, or with wrong places
// of reading, which must be reported. The controls: a kernel that changes two
// numbers, for which no such description may be found; and one that is wrong
// only in rows without a visible key.
#include <cmath>

#include "diagnosis/fake_faults.h"

namespace qkvet::diagnosis::instead_test {
namespace {

// Scores that are made here, as a bias, with q = 0.
void use_scores_plus_capped(Problem& p, Room& room) {
  const Shape& s = p.shape;
  turn_first(p, room);
  std::vector<double> scores;
  for (int64_t n = 0; n < s.weights_elements(); ++n) {
    const int64_t row = n / s.Tk, kv = kv_head_of(s, row);
    double dot = 0;
    for (int64_t c = 0; c < s.d; ++c)
      dot += p.q[row * s.d + c] * p.k[(kv * s.Tk + n % s.Tk) * s.d + c];
    const double x = dot * p.scale;
    scores.push_back(x + p.softcap * std::tanh(x / p.softcap) +
                     (p.bias != nullptr ? p.bias[n] : 0));
  }
  p.bias = room.keep(std::move(scores));
  p.q = room.keep(std::vector<double>(static_cast<size_t>(s.q_elements())));
  p.softcap = 0;
}

const Fault kTurned[] = {
    {"the result of the scale times 1.01", Stage::kScores,
     [](KernelCall&, Problem& p) { p.scale *= 1.01; }},
    {"the result of no cap, and the scale times 0.5 where there is one",
     Stage::kScores,
     [](KernelCall&, Problem& p) {
       if (p.softcap > 0) p.softcap = 0, p.scale *= 0.5;
     }},
    // Rotated ones, too.
    {"the result of the score plus its capped value", Stage::kScores,
     in_room([](KernelCall&, Problem& p, Room& room) {
       if (!(p.softcap > 0) || p.softcap_after_bias || p.slopes != nullptr)
         return;
       use_scores_plus_capped(p, room);
     })},
    {"the result of the bias times 1.25", Stage::kBias,
     in_room([](KernelCall&, Problem& p, Room& room) {
       if (p.bias != nullptr)
         p.bias = room.changed(p.bias, p.shape.weights_elements(),
                               [](double x) { return 1.25 * x; });
     })},
    {"the result of the sink plus 0.75", Stage::kSoftmax,
     in_room([](KernelCall&, Problem& p, Room& room) {
       if (p.sink != nullptr)
         p.sink =
             room.changed(p.sink, p.shape.H, [](double x) { return x + 0.75; });
     })},
    asking("the result of q read one token further on, also where that is the "
           "next "
           "of another",
           Stage::kScores,
           [](KernelCall&, Problem& p, Room& room) {
             if (p.shape.q_elements() == 0) return;
             std::vector<double> q(p.q + p.shape.d, p.q + p.shape.q_elements());
             q.resize(static_cast<size_t>(p.shape.q_elements()), std::nan(""));
             p.q = room.keep(std::move(q));
           }),
    asking("the result of the bias read one row further on, also where that is "
           "the "
           "next of another",
           Stage::kBias,
           [](KernelCall&, Problem& p, Room& room) {
             const int64_t all = p.shape.weights_elements();
             // Masking biases are left alone: numbers beyond all bounds in
             // their rows fit no description.
             const auto masks = [](double x) { return std::fabs(x) > 1e30; };
             // A bias shared by all heads has no next row after their last.
             if (p.bias == nullptr || p.shape.B * p.shape.H != 1 ||
                 std::any_of(p.bias, p.bias + all, masks))
               return;
             std::vector<double> bias(p.bias + p.shape.Tk, p.bias + all);
             bias.resize(static_cast<size_t>(all), std::nan(""));
             p.bias = room.keep(std::move(bias));
           }),
    asking("the result of the values of the first page", Stage::kValues,
           [](KernelCall& call, Problem& p, Room& room) {
             if (call.page_size < 1) return;
             const Shape& s = p.shape;
             std::vector<double> v;
             for (int64_t n = 0; n < s.v_elements(); ++n) {
               const int64_t token = n / s.dv % s.Tk;
               v.push_back(p.v[n - (token - token % call.page_size) * s.dv]);
             }
             p.v = room.keep(std::move(v));
           })};

TEST(Instead, WhatIsTurnedIsMeasured) {
  for (const Fault& fault : kTurned) expect_said(fault);
}

// --- other weights, rows of keys, masks of dropout and places of o

// o = sum_j w_j v_j / divisor, for every row that sees a key; w_j is indexed by
// pairs [B,H,Tq,Tk]. For calls without pages.
template <class Weight>
void weigh_otherwise(const KernelCall& call, OracleOutput& out, Weight weight,
                     bool normalises) {
  const Shape& s = call.shape;
  if (call.page_size > 0 || s.Tk == 0) return;
  const auto v = stored_as_doubles(call.v, s.v_elements(), call.kv_dtype);
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    if (out.visible[static_cast<size_t>(row)] == 0) continue;
    const int64_t kv = kv_head_of(s, row);
    double sum = 0;
    std::vector<double> o(static_cast<size_t>(s.dv));
    for (int64_t j = 0; j < s.Tk; ++j) {
      const double w = weight(row * s.Tk + j);
      sum += w;
      for (int64_t c = 0; w != 0 && c < s.dv; ++c)
        o[static_cast<size_t>(c)] +=
            w * v[static_cast<size_t>((kv * s.Tk + j) * s.dv + c)];
    }
    for (int64_t c = 0; c < s.dv; ++c)
      out.o[static_cast<size_t>(row * s.dv + c)] =
          o[static_cast<size_t>(c)] / (normalises ? sum : 1);
  }
}

void weigh_by_scores_plus_exponentials(const KernelCall& call,
                                       OracleOutput& out, CallOutcome&) {
  if (call.sink != nullptr) return;
  const auto keys = static_cast<size_t>(call.shape.Tk);
  weigh_otherwise(
      call, out,
      [&](int64_t n) {
        const auto pair = static_cast<size_t>(n);
        if (out.sees[pair] == 0) return 0.0;
        const auto begin =
            out.weights.begin() + static_cast<ptrdiff_t>(pair / keys * keys);
        const double largest = *std::max_element(begin, begin + call.shape.Tk);
        return std::log(out.weights[pair]) + out.lse[pair / keys] +
               out.weights[pair] / largest;
      },
      /*normalises=*/true);
}

// Four consecutive rows of a head, or of the heads that share keys, see the
// keys of the first of them.
FakeExecutor::Question first_of_four_sees(bool over_heads) {
  return in_room([over_heads](KernelCall&, Problem& p, Room& room) {
    if (p.slopes != nullptr || p.listed.keys != nullptr) return;
    const OracleOutput known = plain_forward(p);
    const Shape& s = p.shape;
    const int64_t group = over_heads ? s.H / s.Hkv : 1;
    std::vector<uint8_t> mask;
    for (int64_t n = 0; n < s.weights_elements(); ++n) {
      const int64_t i = n / s.Tk % s.Tq, h = n / s.Tk / s.Tq;
      const int64_t at = i * group + h % group, first = at - at % 4;
      const int64_t row =
          (h - h % group + first % group) * s.Tq + first / group;
      mask.push_back(known.sees[static_cast<size_t>(row * s.Tk + n % s.Tk)]);
    }
    p.mask = room.keep(std::move(mask));
    p.causal = Causal::kNone;
    p.window.reset();
  });
}

const Fault kElsewhere[] = {
    {"the result of scores plus exponentials instead of exponentials",
     // Its lse and weights are right.
     Stage::kValues,
     {},
     weigh_by_scores_plus_exponentials},
    {"the result of the keys that the first of its 4 rows sees", Stage::kKeys,
     first_of_four_sees(/*over_heads=*/false)},
    {"the result of the keys that the first of its 4 rows (query heads of a "
     "key/value head side by side) sees",
     Stage::kKeys, first_of_four_sees(/*over_heads=*/true)}};

TEST(Instead, WhatIsTakenFromElsewhereIsSaid) {
  for (const Fault& fault : kElsewhere) expect_said(fault);
}

double kept_share(const KernelCall& call) {
  return call.dropout ? 1 - static_cast<double>(call.dropout->p) : 1;
}

const Fault kOfDropout[] = {
    answering("the result of the kept weights without their factor 1 / (1 - p)",
              Stage::kValues,
              [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                for (double& o : out.o) o *= kept_share(call);
              }),
    answering("the result of the kept weights divided by 1 / (1 - p)",
              Stage::kValues,
              [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                for (double& o : out.o)
                  o *= kept_share(call) * kept_share(call);
              }),
    answering("the result without dropout", Stage::kValues,
              [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                if (call.dropout)
                  weigh_otherwise(
                      call, out,
                      [&](int64_t n) {
                        return out.weights[static_cast<size_t>(n)];
                      },
                      /*normalises=*/false);
              }),
    answering(
        "the result of weights that are dropped before the normalisation",
        Stage::kValues,
        [](const KernelCall& call, OracleOutput& out, CallOutcome& outcome) {
          const auto& mask = outcome.dropout_mask;
          if (call.dropout && !mask.empty() && call.sink == nullptr)
            weigh_otherwise(
                call, out,
                [&](int64_t n) {
                  const auto pair = static_cast<size_t>(n);
                  return mask[pair] == std::byte{0} ? 0 : out.weights[pair];
                },
                /*normalises=*/true);
        }),
    answering(
        "the result with the dropout mask of row 0", Stage::kValues,
        [](const KernelCall& call, OracleOutput& out, CallOutcome& outcome) {
          const auto& mask = outcome.dropout_mask;
          const Shape& s = call.shape;
          if (call.dropout && !mask.empty())
            weigh_otherwise(
                call, out,
                [&](int64_t n) {
                  const auto of = static_cast<size_t>(
                      n / (s.Tq * s.Tk) * (s.Tq * s.Tk) + n % s.Tk);
                  return mask[of] == std::byte{0}
                             ? 0
                             : out.weights[static_cast<size_t>(n)] /
                                   kept_share(call);
                },
                /*normalises=*/false);
        })};

TEST(Instead, WhatDropoutIsInsteadIsSaid) {
  for (const Fault& fault : kOfDropout) {
    const Looked looked =
        look(fault, nullptr, 4000, "dropout_agrees_with_oracle");
    EXPECT_EQ(looked.o().text, fault.text);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(fault.stage))
        << fault.text;
    EXPECT_GT(looked.score.all, 3) << fault.text;
    EXPECT_EQ(looked.score.right, looked.score.all) << fault.text;
  }
}

// A factor other than that of dropout, and one for each element.
TEST(Instead, WhatIsNoneOfDropoutIsNotSaidOfIt) {
  const Fault of_number =
      answering("", Stage::kValues, each_o([](double o) { return 1.37 * o; }));
  const Fault of_none =
      answering("", Stage::kValues,
                [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                  for (size_t n = 0; n < out.o.size(); ++n)
                    out.o[n] *= 3 + std::sin(static_cast<double>(7 * n));
                });
  for (const Fault* fault : {&of_number, &of_none}) {
    const Looked looked =
        look(*fault, nullptr, 4000, "dropout_agrees_with_oracle");
    const OutputInstead& o = looked.o();
    EXPECT_EQ(o.text.find("dropout"), std::string::npos) << o.text;
    EXPECT_EQ(o.text.find("kept"), std::string::npos) << o.text;
    EXPECT_EQ(o.text.empty(), fault == &of_none) << o.text;
  }
}

// Two changed numbers fit no description of one, so that only a general one is
// left.
TEST(Instead, TwoTurnsAreNotOne) {
  const Fault both{"", Stage::kUnknown,
                   [](KernelCall&, Problem& p) { p.scale *= 1.01; },
                   each_o([](double o) { return 1.02 * o; })};
  const Looked looked = look(both);
  EXPECT_EQ(looked.o().text,
            "a sum of the values that its row sees, with wrong weights");
}

// Memory past the end of a tensor may give any number, if all others are as
// described. If only such numbers are wrong, nothing is known.
FakeExecutor::Question that_reads_a_token_further(bool in_all_rows) {
  return in_room([=](KernelCall&, Problem& p, Room& room) {
    const int64_t all = p.shape.q_elements(), d = p.shape.d;
    if (all < 3 * d || p.shape.Tq < 3) return;
    std::vector<double> q(p.q, p.q + all);
    if (in_all_rows) q.erase(q.begin(), q.begin() + d);
    q.resize(static_cast<size_t>(all - d));
    for (int64_t c = 0; c < d; ++c)
      q.push_back(std::sin(static_cast<double>(7 * all + c)));
    p.q = room.keep(std::move(q));
  });
}

TEST(Instead, WhatComesOfANobodysAddressIsLeftOpen) {
  for (const bool in_all_rows : {true, false}) {
    const Fault fault{"", Stage::kScores,
                      that_reads_a_token_further(in_all_rows)};
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text,
              in_all_rows ? "the result of q read one token further on, also "
                            "where that is the next of another"
                          : "");
    EXPECT_EQ(looked.score.right, looked.score.all);
  }
}

// With a sink, every row has its own sum: another sum belongs to the softmax,
// unless a bias adds the same to all scores of a row.
TEST(Instead, AnotherSumBesideASinkMayBeOfTheBias) {
  const FakeExecutor::Question other_sink =
      in_room([](KernelCall&, Problem& p, Room& room) {
        if (p.sink == nullptr) return;
        std::vector<double> sink(p.sink, p.sink + p.shape.H);
        for (int64_t h = 0; h < p.shape.H; ++h)
          sink[static_cast<size_t>(h)] +=
              1 + std::cos(static_cast<double>(3 * h + p.shape.Tk));
        p.sink = room.keep(std::move(sink));
      });
  const FakeExecutor::Question other_bias =
      in_room([](KernelCall&, Problem& p, Room& room) {
        if (p.sink == nullptr || p.bias == nullptr) return;
        std::vector<double> bias(p.bias, p.bias + p.shape.weights_elements());
        for (int64_t n = 0; n < std::ssize(bias); ++n)
          bias[static_cast<size_t>(n)] +=
              1 + std::cos(static_cast<double>(n / p.shape.Tk));
        p.bias = room.keep(std::move(bias));
      });
  const Looked of_sink = look({"", Stage::kSoftmax, other_sink});
  ASSERT_TRUE(of_sink.failure);
  EXPECT_EQ(of_sink.instead.stage, Stage::kSoftmax) << of_sink.instead.text();
  const Looked of_bias = look({"", Stage::kBias, other_bias});
  ASSERT_TRUE(of_bias.failure);
  EXPECT_NE(of_bias.instead.stage, Stage::kSoftmax) << of_bias.instead.text();
}

FakeExecutor::Answer each_lse(double (*of)(double largest, double log_of_sum)) {
  return [of](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    if (call.sink != nullptr) return;
    for (size_t n = 0; n < out.lse.size(); ++n) {
      if (out.visible[n] <= 0) continue;
      const double below = std::log(largest(
          call, out.weights.data() + static_cast<int64_t>(n) * call.shape.Tk));
      out.lse[n] = of(out.lse[n] + below, -below);
    }
  };
}

TEST(Instead, APartOfLseHasAFactor) {
  const Fault faults[] = {
      answering("the largest score plus 1.05 times the logarithm of the sum",
                Stage::kLse, each_lse([](double most, double rest) {
                  return most + 1.05 * rest;
                })),
      answering("the largest score times 1.05 plus the logarithm of the sum",
                Stage::kLse, each_lse([](double most, double rest) {
                  return 1.05 * most + rest;
                })),
      answering(
          "the sum of exponentials plus the logarithm of the largest score",
          Stage::kLse, each_lse([](double most, double rest) {
            return std::exp(rest) + std::log(most);
          })),
      // The control: both parts, each by another factor.
      answering("", Stage::kLse, each_lse([](double most, double rest) {
                  return 1.05 * most + 1.3 * rest;
                }))};
  for (const Fault& fault : faults) {
    const Looked looked = look(fault);
    EXPECT_EQ(looked.of(TensorName::kLse).text, fault.text);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(fault.stage));
  }
}

// Rows with few keys are answered like rows without a visible key: their keys
// are lost, or the rows are left out.
TEST(Instead, RowsAnsweredAsWithoutAKeyTellNoStage) {
  for (const bool with_lse : {true, false}) {
    const Fault fault = answering(
        "0", Stage::kUnknown,
        [with_lse](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          if (call.sink != nullptr) return;
          const auto width = static_cast<size_t>(call.shape.dv);
          for (size_t n = 0; n < out.o.size(); ++n) {
            const size_t row = n / width;
            if (out.visible[row] != 1) continue;
            out.o[n] = 0;
            if (with_lse) out.lse[row] = -INFINITY;
          }
        });
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text, fault.text);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(fault.stage));
  }
}

// The mean of all values in rows without a visible key; the mean of all but the
// first is another number, and is not described that way.
TEST(Instead, AMeanOfRowsWithoutAKeyIsDescribed) {
  for (const int64_t first : {0, 1}) {
    const auto values = std::make_shared<std::vector<double>>();
    const Fault fault{"", Stage::kUnknown,
                      [values](KernelCall&, Problem& p) {
                        values->assign(p.v, p.v + p.shape.v_elements());
                      },
                      [values, first](const KernelCall& call, OracleOutput& out,
                                      CallOutcome&) {
                        const Shape& s = call.shape;
                        for (int64_t n = 0; n < s.o_elements(); ++n) {
                          const int64_t row = n / s.dv;
                          if (out.visible[static_cast<size_t>(row)] != 0)
                            continue;
                          const int64_t kv = kv_head_of(s, row);
                          double sum = 0;
                          for (int64_t j = first; j < s.Tk; ++j)
                            sum += (*values)[static_cast<size_t>(
                                (kv * s.Tk + j) * s.dv + n % s.dv)];
                          out.o[static_cast<size_t>(n)] =
                              sum / static_cast<double>(s.Tk - first);
                        }
                      }};
    const Looked looked = look(fault);
    const OutputInstead& o = looked.o();
    EXPECT_TRUE(o.of_empty_rows);
    EXPECT_EQ(o.text,
              first == 0 ? "the mean of the values of all Tk keys" : "");
  }
}

// Rows without a visible key, if only those are wrong; descriptions of other
// rows do not apply to them.
TEST(Instead, RowsThatSeeNoKeyAreDescribed) {
  for (const bool all_rows : {false, true}) {
    const Fault fault = answering(
        [all_rows](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          const auto width = static_cast<size_t>(call.shape.dv);
          for (size_t n = 0; n < out.o.size(); ++n)
            if (all_rows || out.visible[n / width] == 0) out.o[n] = 7;
        });
    const Looked looked = look(fault);
    const OutputInstead& o = looked.o();
    EXPECT_EQ(o.text, "7, whatever is right");
    EXPECT_EQ(o.of_empty_rows, !all_rows);
    EXPECT_EQ(looked.instead.stage == Stage::kEmptyRows, !all_rows);
    EXPECT_EQ(looked.instead.text().starts_with("o of rows that see no key is"),
              !all_rows)
        << looked.instead.text();
  }
}

// Rows are weighted by a function of a score and of the row's largest one.
Fault weighed_by(double (*of)(double score, double largest),
                 bool is_of_lse = false) {
  const auto asked = std::make_shared<Problem>();
  return {"", Stage::kUnknown, [asked](KernelCall&, Problem& p) { *asked = p; },
          [=](const KernelCall& call, OracleOutput& out, CallOutcome&) {
            const Shape& s = call.shape;
            if (call.sink != nullptr || call.dropout) return;
            for (int64_t row = 0; row < s.lse_elements(); ++row) {
              if (out.visible[static_cast<size_t>(row)] <= 0) continue;
              const double* weights = out.weights.data() + row * s.Tk;
              const double lse = out.lse[static_cast<size_t>(row)];
              const double most = std::log(largest(call, weights)) + lse;
              const double* v = asked->v + kv_head_of(s, row) * s.Tk * s.dv;
              std::vector<double> o(static_cast<size_t>(s.dv), 0.0);
              double sum = 0;
              for (int64_t j = 0; j < s.Tk; ++j) {
                if (weights[j] <= 0) continue;
                const double weight = of(std::log(weights[j]) + lse, most);
                sum += weight;
                for (int64_t c = 0; c < s.dv; ++c)
                  o[static_cast<size_t>(c)] += weight * v[j * s.dv + c];
              }
              for (int64_t c = 0; c < s.dv; ++c)
                out.o[static_cast<size_t>(row * s.dv + c)] =
                    o[static_cast<size_t>(c)] / sum;
              if (is_of_lse)
                out.lse[static_cast<size_t>(row)] = most + std::log(sum);
            }
          }};
}

TEST(Instead, ScoresInThePlaceOfTheirExponentials) {
  const auto said = [](double (*of)(double score, double largest)) {
    return look(weighed_by(of)).o().text;
  };
  EXPECT_EQ(said([](double score, double) { return score; }),
            "the result of scores instead of their exponentials");
  const Looked looked =
      look(weighed_by([](double score, double) { return score; },
                      /*is_of_lse=*/true));
  EXPECT_EQ(looked.of(TensorName::kLse).text,
            "the result of scores instead of their exponentials");
  EXPECT_EQ(said([](double score, double most) { return score - most; }),
            "the result of scores less the largest one instead of their "
            "exponentials");
  // The control: no score, and nothing that has a name.
  EXPECT_EQ(said([](double score, double most) {
              return 1 + (score - most) * (score + 0.3);
            }),
            "a sum of the values that its row sees, with wrong weights");
}

// Memory may hold one number throughout by chance, so that this is checked
// against more answers than a factor.
TEST(Instead, WhatIsCheapIsHeldAgainstMore) {
  const auto held = [](double (*of)(double right)) {
    const Looked looked = look(answering(each_o(of)));
    EXPECT_NE(looked.o().text, "");
    return looked.o().held_against;
  };
  const int of_factor = held([](double right) { return 2 * right; });
  EXPECT_GT(of_factor, 0);
  EXPECT_GT(held([](double) { return std::nan(""); }), of_factor);
}

}  // namespace
}  // namespace qkvet::diagnosis::instead_test
