// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/head_statistics.h"

#include <algorithm>
#include <cmath>

namespace qkvet::cli {
namespace {

class Sums {
 public:
  explicit Sums(const HeadWeights& head) : head_(head) {}

  void add_row(int64_t i) {
    const auto from = static_cast<size_t>(i * head_.keys);
    const auto count = static_cast<size_t>(head_.keys);
    const auto weights = head_.weights.subspan(from, count);
    const auto sees = head_.sees.subspan(from, count);
    const auto visible =
        std::count_if(sees.begin(), sees.end(), [](uint8_t s) { return s; });
    if (visible < 2) return;
    ++out_.rows;
    const double n = static_cast<double>(visible);
    double entropy = 0, distance = 0;
    for (size_t j = 0; j < count; ++j) {
      const double w = weights[j];
      out_.finite = out_.finite && std::isfinite(w);
      if (w > 0) entropy -= w * std::log2(w);
      distance += std::fabs(w - (sees[j] != 0 ? 1 / n : 0));
      if (w > out_.largest) {
        out_.largest = w;
        out_.largest_row = i;
        out_.largest_key = static_cast<int64_t>(j);
      }
    }
    out_.entropy_bits += entropy;
    out_.entropy_part += entropy / std::log2(n);
    out_.from_uniform += distance / 2;
    add_share(i, head_.diagonals[static_cast<size_t>(i)] - 1, out_.previous,
              out_.previous_rows);
    add_share(i, 0, out_.first, out_.first_rows);
  }

  HeadStatistics means() const {
    HeadStatistics out = out_;
    const auto mean = [](double& sum, int64_t rows) {
      if (rows > 0) sum /= static_cast<double>(rows);
    };
    mean(out.previous, out.previous_rows);
    mean(out.first, out.first_rows);
    for (double* sum :
         {&out.from_uniform, &out.entropy_bits, &out.entropy_part})
      mean(*sum, out.rows);
    return out;
  }

 private:
  // The weight of row i on key j, if it sees that key.
  void add_share(int64_t i, int64_t j, double& sum, int64_t& rows) {
    if (j < 0 || j >= head_.keys) return;
    const auto n = static_cast<size_t>(i * head_.keys + j);
    if (head_.sees[n] == 0) return;
    sum += head_.weights[n];
    ++rows;
  }

  const HeadWeights& head_;
  HeadStatistics out_;
};

}  // namespace

HeadStatistics head_statistics(const HeadWeights& head) {
  Sums sums(head);
  for (int64_t i = 0; i < head.rows; ++i) sums.add_row(i);
  return sums.means();
}

}  // namespace qkvet::cli
