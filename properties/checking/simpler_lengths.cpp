// SPDX-License-Identifier: Apache-2.0
// Simpler lengths and packed batches. Extents alone do not lead there: a length
// that is cut off with its extent becomes the extent, and the lengths between
// the two are lost.
#include "properties/checking/simpler.h"

namespace qkvet::properties {
namespace {

struct Axis {
  int64_t Shape::*extent;
  std::vector<int64_t> Case::*lengths;
  std::vector<int64_t> Case::*starts;
};
constexpr Axis kAxes[] = {{&Shape::Tq, &Case::q_len, &Case::cu_q},
                          {&Shape::Tk, &Case::kv_len, &Case::cu_k}};

// One member alone, and every length shorter together with its extent.
void add_shorter_members(const Case& value, const Axis& axis, Collector& out) {
  const int64_t now = value.shape.*axis.extent;
  for (const int64_t next :
       {int64_t{1}, int64_t{2}, int64_t{3}, now / 2, now - 1})
    if (next >= 1 && next < now)
      out.add([&](Case& c) {
        c.shape.*axis.extent = next;
        for (int64_t& length : c.*axis.lengths)
          length = std::max<int64_t>(0, length - (now - next));
      });
  for (size_t b = 0; b < (value.*axis.lengths).size(); ++b) {
    out.add([&](Case& c) {
      c.shape.B = 1;
      for (const Axis& one : kAxes)
        if (!(c.*one.lengths).empty()) c.*one.lengths = {(c.*one.lengths)[b]};
    });
    for (const int64_t next : smaller_numbers((value.*axis.lengths)[b], 0))
      out.add([&](Case& c) { (c.*axis.lengths)[b] = next; });
  }
}

// One member less, and the rows or keys of one member fewer.
void add_shorter_packs(const Case& value, const Axis& axis, Collector& out) {
  const std::vector<int64_t>& starts = value.*axis.starts;
  for (size_t n = 0; n + 1 < starts.size(); ++n) {
    const int64_t held = starts[n + 1] - starts[n];
    for (const int64_t fewer : {held, held - 1, held / 2, int64_t{1}})
      if (fewer > 0 && fewer <= held && value.shape.*axis.extent > fewer)
        out.add([&](Case& c) {
          c.shape.*axis.extent -= fewer;
          for (size_t m = n + 1; m < starts.size(); ++m)
            (c.*axis.starts)[m] -= fewer;
        });
    if (starts.size() > 2 && held == 0)
      out.add([&](Case& c) {
        for (const Axis& one : kAxes)
          (c.*one.starts)
              .erase((c.*one.starts).begin() + static_cast<ptrdiff_t>(n + 1));
      });
  }
  // The rows after the last member.
  if (!starts.empty() && starts.back() >= 1 &&
      starts.back() < value.shape.*axis.extent)
    out.add([&](Case& c) { c.shape.*axis.extent = starts.back(); });
}

}  // namespace

void add_simpler_lengths(const Case& value, Collector& out) {
  for (const Axis& axis : kAxes) {
    if (!(value.*axis.lengths).empty()) add_shorter_members(value, axis, out);
    if (!(value.*axis.starts).empty()) add_shorter_packs(value, axis, out);
  }
}

}  // namespace qkvet::properties
