// SPDX-License-Identifier: Apache-2.0
// The parameters of a KV cache beyond its shape (qkvet/cache.h).
#ifndef QKVET_CORE_CALL_CACHE_FORM_H_
#define QKVET_CORE_CALL_CACHE_FORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qkvet {

// How keys and values are stored, and which scales turn codes into numbers.
enum class StoredAs : uint8_t {
  kAsGiven,
  kInt8PerToken,
  kInt8PerChannel,
  kFp8PerToken,  // e4m3
  kFp8PerChannel
};
inline constexpr int kStoredAsCount = 5;

struct CacheForm {
  // A query sees the last `window` keys up to its own, and the first
  // `first_tokens` of its sequence; 0: all keys. `rollback` tokens can be taken
  // back.
  int64_t window = 0;
  int64_t first_tokens = 0;
  int64_t rollback = 0;
  StoredAs stored = StoredAs::kAsGiven;

  // Whether a query at token i sees token j.
  bool sees(int64_t i, int64_t j) const {
    return j <= i && (window == 0 || j > i - window || j < first_tokens);
  }
  bool per_channel() const {
    return stored == StoredAs::kInt8PerChannel ||
           stored == StoredAs::kFp8PerChannel;
  }
  // The largest code, 0 where there are none.
  double largest_code() const {
    constexpr double kInt8 = 127, kE4m3 = 448;
    if (stored == StoredAs::kAsGiven) return 0;
    return stored <= StoredAs::kInt8PerChannel ? kInt8 : kE4m3;
  }

  friend bool operator==(const CacheForm&, const CacheForm&) = default;
};

// "win8,first2,rollback3,stored=int8token": what the form has, in this order.
std::string form_text(const CacheForm& form);
// int8token, int8channel, fp8token, fp8channel.
std::optional<StoredAs> stored_from_name(std::string_view name);
// "" or what is wrong with it.
std::string form_reason(const CacheForm& form);

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_CACHE_FORM_H_
