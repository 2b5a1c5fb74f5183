// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/story_storage.h"

#include <cmath>

#include "properties/judging/compare.h"

namespace qkvet::properties {

bool is_kept(const CacheForm& form, const Snapshot& snapshot, int64_t token) {
  const auto s = static_cast<size_t>(snapshot.command.sequence);
  const int64_t first_query = snapshot.most[s] - 1 - form.rollback;
  return form.window == 0 || token < form.first_tokens ||
         token > first_query - form.window;
}

bool is_seen(const CacheForm& form, const Snapshot& snapshot, int64_t token) {
  const auto tokens = static_cast<int64_t>(snapshot.history.size());
  const int64_t first_query = tokens - snapshot.queries;
  return form.window == 0 || token < form.first_tokens ||
         token > first_query - form.window;
}

bool is_all_kept(const CacheForm& form, const Snapshot& snapshot) {
  const auto tokens = static_cast<int64_t>(snapshot.history.size());
  for (int64_t t = 0; t < tokens; ++t)
    if (is_seen(form, snapshot, t) && !is_kept(form, snapshot, t)) return false;
  return true;
}

// Written so that NaN never equals a given number.
bool is_stored(double actual, double given, double allowed) {
  return std::fabs(actual - given) <= allowed;
}

Inputs stored_inputs(const Case& value, const Snapshot& snapshot, Inputs inputs,
                     const CallOutcome& read, bool new_as_given) {
  const auto tokens = static_cast<int64_t>(snapshot.history.size());
  const int64_t stored_tokens =
      new_as_given ? tokens - snapshot.new_tokens : tokens;
  const auto replace = [&](const std::vector<std::byte>& bytes, int64_t width,
                           std::vector<double>& values) {
    const std::vector<double> stored = as_doubles(bytes, Dtype::kF32);
    for (size_t n = 0; n < stored.size(); ++n) {
      const int64_t token = static_cast<int64_t>(n) / width % tokens;
      if (token < stored_tokens && is_seen(value.cache, snapshot, token))
        values[n] = stored[n];
    }
  };
  replace(read.stage_k, value.shape.d, inputs.k);
  replace(read.stage_v, value.shape.dv, inputs.v);
  return inputs;
}

}  // namespace qkvet::properties
