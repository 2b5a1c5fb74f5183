// SPDX-License-Identifier: Apache-2.0
// k and v after a call that appends, byte by byte: appended tokens in their
// slots, and everything else as before, including pages of others.
#include <cstring>

#include "core/case/paging.h"
#include "properties/checking/serving_cases.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_append_writes_only_its_tokens {

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  plan.calls.push_back(call);
  return plan;
}

// One of k and v.
struct Cache {
  TensorName name;
  int64_t width;
  const std::vector<std::byte>& before;
  const std::vector<std::byte>& fresh;
  const std::vector<std::byte>& after;
};

// The rows [block, head, token] of a cache after the new tokens, and their
// owners: member + 1, or 0.
struct Expected {
  std::vector<std::byte> bytes;
  std::vector<int64_t> owner;
};

Expected expected_of(const Case& c, const Cache& cache) {
  const Shape& s = c.shape;
  const int64_t count = new_tokens(c);
  const int64_t row = cache.width * dtype_bytes(c.kv_dtype);
  Expected expected{cache.before, {}};
  expected.owner.resize(cache.before.size() / static_cast<size_t>(row));
  std::optional<PageMap> map;
  if (c.paging.size > 0) map.emplace(c);
  for (int64_t m = 0; m < members_of(c); ++m)
    for (int64_t h = 0; h < s.Hkv; ++h)
      for (int64_t n = 0; n < count; ++n) {
        const int64_t j = keys_of(c, m).count - count + n;
        const int64_t at =
            map ? (map->page_of(m, j) * s.Hkv + h) * c.paging.size +
                      j % c.paging.size
                : (m * s.Hkv + h) * s.Tk + j;
        std::memcpy(expected.bytes.data() + at * row,
                    cache.fresh.data() + ((m * s.Hkv + h) * count + n) * row,
                    static_cast<size_t>(row));
        expected.owner[static_cast<size_t>(at)] = m + 1;
      }
  return expected;
}

std::string place_of(const Case& c, const Cache& cache, int64_t row,
                     int64_t column) {
  const Shape& s = c.shape;
  const bool paged = c.paging.size > 0;
  const int64_t rows = paged ? c.paging.size : s.Tk;
  return std::string(tensor_name(cache.name)) + (paged ? "[page=" : "[b=") +
         std::to_string(row / rows / s.Hkv) +
         ",h=" + std::to_string(row / rows % s.Hkv) +
         (paged ? ",slot=" : ",j=") + std::to_string(row % rows) +
         ",c=" + std::to_string(column) + "]";
}

void compare(const Case& c, const Cache& cache, Judgement& judgement) {
  const Expected expected = expected_of(c, cache);
  const int64_t element = dtype_bytes(c.kv_dtype);
  const std::vector<double> right = as_doubles(expected.bytes, c.kv_dtype);
  const std::vector<double> seen = as_doubles(cache.after, c.kv_dtype);
  for (size_t n = 0; n < right.size(); ++n) {
    ++judgement.compared;
    if (std::memcmp(expected.bytes.data() + n * element,
                    cache.after.data() + n * element,
                    static_cast<size_t>(element)) == 0)
      continue;
    const auto at = static_cast<int64_t>(n);
    const int64_t row = at / cache.width;
    const int64_t owner = expected.owner[static_cast<size_t>(row)];
    Finding finding;
    finding.where = place_of(c, cache, row, at % cache.width);
    finding.expected = number_text(right[n], c.kv_dtype) +
                       (owner > 0 ? " (a new token of member " +
                                        std::to_string(owner - 1) + ")"
                                  : " (as it was)");
    finding.actual = number_text(seen[n], c.kv_dtype);
    finding.allowed = "the same bits";
    finding.looks = owner > 0
                        ? "a new token is not stored where its member finds it"
                        : "a slot is written that no new token belongs into";
    add_failure(judgement, std::move(finding));
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Inputs& in = *input.calls[0].inputs;
  const CallOutcome& outcome = *input.calls[0].outcome;
  const Shape& s = input.value.shape;
  if (in.new_tokens == 0) return judgement;
  compare(
      input.value,
      {TensorName::kK, s.d, in.k_cache_bytes, in.k_new_bytes, outcome.k_cache},
      judgement);
  compare(
      input.value,
      {TensorName::kV, s.dv, in.v_cache_bytes, in.v_new_bytes, outcome.v_cache},
      judgement);
  return judgement;
}

}  // namespace of_append_writes_only_its_tokens

extern constinit const Law append_writes_only_its_tokens{
    "append_writes_only_its_tokens",
    "A call that appends stores its new tokens as they came, and changes no "
    "other slot.",
    "cache'[slot(b, kv_len[b] + n)] = k_new[b, n]; all other slots as before",
    "new tokens for every member",
    "It is what to append means.",
    "Nothing is computed: tokens have the storage type of the cache.",
    "(a) it is bitwise, (c) it reaches what no output shows",
    480,
    Domain{.allows = kAllowAll, .about = QKVET_OPTION_APPEND},
    with_new_tokens,
    of_append_writes_only_its_tokens::plan,
    of_append_writes_only_its_tokens::judge};

}  // namespace qkvet::properties
