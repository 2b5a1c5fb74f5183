// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/inspection.h"

#include <fmt/core.h>

#include <algorithm>

#include "properties/calls/layer_calls.h"

namespace qkvet::cli {
namespace {

// The part [Tq,Tk] of a tensor [B,H,Tq,Tk].
template <class T>
std::span<const T> head_of(const std::vector<T>& values, const Shape& s,
                           int64_t member, int64_t head) {
  const auto pairs = static_cast<size_t>(s.Tq * s.Tk);
  const auto n = static_cast<size_t>(member * s.H + head);
  return std::span<const T>(values).subspan(n * pairs, pairs);
}

}  // namespace

bool has_weights(const Inspection& seen) {
  return seen.value.shape.weights_elements() > 0;
}

bool has_kernel_weights(const Inspection& seen) {
  return has_weights(seen) && seen.view && !seen.view->weights.empty();
}

HeatMap expected_map(const Inspection& seen, int64_t head) {
  const Shape& s = seen.value.shape;
  const int64_t member = seen.focus.member;
  return weights_map(fmt::format("head {}", head), s.Tq, s.Tk,
                     head_of(seen.movie.attended.weights, s, member, head),
                     head_of(seen.movie.attended.sees, s, member, head));
}

HeatMap actual_map(const Inspection& seen, int64_t head) {
  const Shape& s = seen.value.shape;
  return weights_map(
      fmt::format("head {}", head), s.Tq, s.Tk,
      head_of(seen.view->weights, s, /*member=*/0, head),
      head_of(seen.movie.attended.sees, s, seen.focus.member, head));
}

HeadStatistics statistics_of(const Inspection& seen, const HeatMap& map) {
  return head_statistics(
      {map.rows, map.columns, map.values, map.visible, seen.diagonals});
}

std::vector<HeatMap> shown_maps(const Inspection& seen, int64_t most) {
  std::vector<HeatMap> maps;
  for (const int64_t head : seen.heads) {
    HeatMap expected = expected_map(seen, head);
    if (!has_kernel_weights(seen)) {
      maps.push_back(reduced(expected, most));
      continue;
    }
    HeatMap actual = actual_map(seen, head);
    HeatMap difference = difference_map(fmt::format("actual - expected", head),
                                        expected, actual);
    expected.title = fmt::format("head {}, expected", head);
    actual.title = fmt::format("head {}, actual", head);
    for (const HeatMap* map : {&expected, &actual, &difference})
      maps.push_back(reduced(*map, most));
  }
  return maps;
}

}  // namespace qkvet::cli
