// SPDX-License-Identifier: Apache-2.0
#include "core/door/workspace.h"

#include <algorithm>

#include "core/door/canary.h"

namespace qkvet {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kElement = 4;  // workspaces mostly hold floats

// A mapping is kept while it is not larger than this many times the need, so
// that a large call does not slow down all later ones.
constexpr int64_t kMostSlack = 4;

}  // namespace

std::byte* Workspace::prepare(int64_t bytes) {
  const int64_t page = page_bytes();
  const int64_t need = std::max((bytes + page - 1) / page * page, page);
  if (mapping_.bytes() < need || mapping_.bytes() > kMostSlack * need) {
    mapping_ = {};
    mapping_ = GuardedMapping::private_memory(need);
    if (mapping_.data() == nullptr) return nullptr;
  }
  begin_ = (mapping_.bytes() - bytes) / kAlignment * kAlignment;
  end_ = begin_ + bytes;
  Canary(kElement).fill(mapping_.data(), 0, mapping_.bytes());
  return mapping_.data() + begin_;
}

std::optional<int64_t> Workspace::damage() const {
  const Canary canary(kElement);
  const int64_t behind =
      canary.first_damage(mapping_.data(), end_, mapping_.bytes());
  if (behind >= 0) return behind - end_;
  const int64_t front = canary.last_damage(mapping_.data(), 0, begin_);
  if (front >= 0) return front - begin_;
  return std::nullopt;
}

}  // namespace qkvet
