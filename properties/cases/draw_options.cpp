// SPDX-License-Identifier: Apache-2.0
// Options of attention for a case that has none yet.
#include "properties/cases/drawn_options.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

uint64_t draw_bit(Draw& draw, const std::vector<uint64_t>& bits) {
  return bits[static_cast<size_t>(
      draw.range(0, static_cast<int64_t>(bits.size()) - 1))];
}

std::vector<DrawnOption> all_rows() {
  std::vector<DrawnOption> all = options_of_memory();
  for (const DrawnOption& row : options_of_scores()) all.push_back(row);
  return all;
}

}  // namespace

const std::vector<DrawnOption>& drawn_options() {
  static const std::vector<DrawnOption> all = all_rows();
  return all;
}

void draw_option(Draw& draw, uint64_t option, Case& value) {
  for (const DrawnOption& row : drawn_options())
    if (row.option == option) return row.draw(draw, value);
}

void draw_options(Draw& draw, const Law& law, const Scope& scope, Case& value) {
  const uint64_t declared = allowed_by(scope);
  const std::vector<uint64_t> about =
      single_options(about_in(law.domain) & declared);
  const uint64_t allowed = allowed_in(law.domain) & declared;
  uint64_t added = 0;
  for (const DrawnOption& row : drawn_options())
    if (!row.by_itself) added |= row.option;
  const std::vector<uint64_t> others = single_options(allowed & ~added);
  // Most cases have one option or none, for it is pairs that fail at most.
  const int64_t percent = draw.range(0, 99);
  int64_t extra = percent < 40 ? 0 : percent < 70 ? 1 : percent < 92 ? 2 : 3;
  if (!about.empty()) {
    draw_option(draw, draw_bit(draw, about), value);
    extra /= 2;
  }
  for (; extra > 0 && !others.empty(); --extra)
    draw_option(draw, draw_bit(draw, others), value);
  finish_options(draw, law, scope, value);
}

void finish_options(Draw& draw, const Law& law, const Scope& scope,
                    Case& value) {
  const uint64_t allowed = allowed_in(law.domain) & allowed_by(scope);
  if (scope.pages_only && value.paging.size == 0)
    draw_option(draw, QKVET_OPTION_PAGED, value);
  if (scope.in_keys_only) value.values_in_keys = true;
  for (const DrawnOption& row : drawn_options()) {
    if (row.settle != nullptr) row.settle(draw, allowed, value);
    if (row.chance > 0 && (allowed & row.option) != 0 && row.fits(value) &&
        draw.chance(row.chance))
      (row.add != nullptr ? row.add : row.draw)(draw, value);
  }
  // Packed members have their lengths, and a batch has none.
  if (!value.cu_q.empty()) value.q_len.clear(), value.kv_len.clear();
}

}  // namespace qkvet::properties
