// SPDX-License-Identifier: Apache-2.0
// Other readings of a merge: its states are keys, their lse is the bias and
// their o the values.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "diagnosis/instead/reading.h"

namespace qkvet::diagnosis {
namespace {

// The new lse of a state; those of its row are [begin, begin + count).
using OfLse = double (*)(const double* begin, int64_t count, int64_t n);

void add_of_lse(Readings& rows, const char* text, OfLse of) {
  rows.push_back({std::string("the result of ") + text, Stage::kMergeWeights,
                  [of](Problem& p, Room& room) {
                    if (p.bias == nullptr) return;
                    const int64_t states = p.shape.Tk;
                    std::vector<double> lse;
                    for (int64_t n = 0; n < p.shape.weights_elements(); ++n)
                      lse.push_back(
                          of(p.bias + n / states * states, states, n % states));
                    p.bias = room.keep(std::move(lse));
                  }});
}

// The state from which o is read.
using OtherState = int64_t (*)(int64_t n, int64_t states);

void add_of_o(Readings& rows, const char* text, OtherState of) {
  rows.push_back({std::string("the result of the o of ") + text,
                  Stage::kMergeWeights, [of](Problem& p, Room& room) {
                    const Shape& s = p.shape;
                    std::vector<double> o;
                    for (int64_t row = 0; row < s.B * s.Hkv * s.Tk; ++row) {
                      const int64_t from = of(row % s.Tk, s.Tk);
                      const double* begin =
                          p.v + (row / s.Tk * s.Tk + from) * s.dv;
                      for (int64_t c = 0; c < s.dv; ++c) o.push_back(begin[c]);
                    }
                    p.v = room.keep(std::move(o));
                  }});
}

}  // namespace

void add_readings_of_merges(Readings& rows) {
  add_of_lse(rows, "states of equal weight",
             [](const double* lse, int64_t, int64_t n) {
               return std::isinf(lse[n]) ? lse[n] : 0;
             });
  add_of_lse(rows, "lse times ln(2)",
             [](const double* lse, int64_t, int64_t n) {
               return lse[n] * std::numbers::ln2;
             });
  add_of_lse(rows, "lse times log2(e)",
             [](const double* lse, int64_t, int64_t n) {
               return lse[n] * std::numbers::log2e;
             });
  add_of_lse(rows, "minus the lse", [](const double* lse, int64_t, int64_t n) {
    return std::isinf(lse[n]) ? lse[n] : -lse[n];
  });
  add_of_lse(rows, "twice the lse",
             [](const double* lse, int64_t, int64_t n) { return 2 * lse[n]; });
  add_of_lse(rows, "lse in the reverse order of states",
             [](const double* lse, int64_t count, int64_t n) {
               return lse[count - 1 - n];
             });
  add_of_lse(rows, "the lse of the state after",
             [](const double* lse, int64_t count, int64_t n) {
               return lse[std::min(n + 1, count - 1)];
             });
  add_of_lse(rows, "the lse of the state in front",
             [](const double* lse, int64_t, int64_t n) {
               return lse[std::max<int64_t>(n - 1, 0)];
             });
  add_of_lse(rows, "all states but the last",
             [](const double* lse, int64_t count, int64_t n) {
               return n == count - 1 ? -INFINITY : lse[n];
             });
  add_of_lse(rows, "all states but the first",
             [](const double* lse, int64_t, int64_t n) {
               return n == 0 ? -INFINITY : lse[n];
             });
  add_of_lse(rows, "the first state alone",
             [](const double* lse, int64_t, int64_t n) {
               return n == 0 ? lse[n] : -INFINITY;
             });
  add_of_lse(rows, "the last state alone",
             [](const double* lse, int64_t count, int64_t n) {
               return n == count - 1 ? lse[n] : -INFINITY;
             });
  add_of_lse(rows, "the state of the largest lse alone",
             [](const double* lse, int64_t count, int64_t n) {
               return lse + n == std::max_element(lse, lse + count) ? lse[n]
                                                                    : -INFINITY;
             });
  add_of_lse(rows, "the last state counted twice",
             [](const double* lse, int64_t count, int64_t n) {
               return lse[n] + (n == count - 1 ? std::numbers::ln2 : 0);
             });
  add_of_lse(rows, "the first state counted twice",
             [](const double* lse, int64_t, int64_t n) {
               return lse[n] + (n == 0 ? std::numbers::ln2 : 0);
             });
  add_of_o(rows, "the state after", [](int64_t n, int64_t states) {
    return std::min(n + 1, states - 1);
  });
  add_of_o(rows, "the state in front",
           [](int64_t n, int64_t) { return std::max<int64_t>(n - 1, 0); });
  add_of_o(rows, "the first state",
           [](int64_t, int64_t) { return int64_t{0}; });
  add_of_o(rows, "the last state",
           [](int64_t, int64_t states) { return states - 1; });
  add_of_o(rows, "the states in reverse",
           [](int64_t n, int64_t states) { return states - 1 - n; });
}

}  // namespace qkvet::diagnosis
