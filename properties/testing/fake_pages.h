// SPDX-License-Identifier: Apache-2.0
// For tests: the pages and appended tokens of a call as the oracle takes them,
// with k and v again as [B,Hkv,Tk,width].
#ifndef QKVET_PROPERTIES_TESTING_FAKE_PAGES_H_
#define QKVET_PROPERTIES_TESTING_FAKE_PAGES_H_

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/case/paging.h"
#include "properties/testing/fake_options.h"

namespace qkvet::properties {

class FakePages {
 public:
  explicit FakePages(const KernelCall& call)
      : call_(call),
        k_(cache_of(call.k, call.k_new, call.shape.d)),
        v_(cache_of(call.v, call.v_new, call.shape.dv)) {}

  std::vector<double> k() const { return rows(k_, call_.shape.d); }
  std::vector<double> v() const { return rows(v_, call_.shape.dv); }
  // The cache after a call that appends.
  const std::vector<std::byte>& k_cache() const { return k_; }
  const std::vector<std::byte>& v_cache() const { return v_; }
  // Including appended tokens; empty without pages and appended tokens.
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> all;
    for (int64_t m = 0; is_served(call_) && m < members(); ++m)
      all.push_back(held(m) + call_.new_tokens);
    return all;
  }
  // The starts of packed members' keys, and the end; empty: not in pages.
  std::vector<int64_t> starts() const {
    std::vector<int64_t> all;
    if (call_.members == 0) return all;
    for (const int64_t length : lengths())
      all.push_back((all.empty() ? 0 : all.back()) + length);
    if (!all.empty()) all.insert(all.begin(), 0);
    return all;
  }

 private:
  int64_t members() const {
    return call_.members > 0 ? call_.members : call_.shape.B;
  }
  int64_t held(int64_t b) const { return held_tokens(call_, b); }
  static int64_t int32_at(const std::byte* numbers, int64_t n) {
    int32_t number = 0;
    std::memcpy(&number, numbers + n * 4, sizeof number);
    return number;
  }
  // The row of the tensor that holds token j of a head.
  int64_t row_of(int64_t b, int64_t h, int64_t j) const {
    const Shape& s = call_.shape;
    if (call_.page_size == 0) return (b * s.Hkv + h) * s.Tk + j;
    const int64_t entry = j / call_.page_size;
    const int64_t page =
        call_.page_indptr != nullptr
            ? int32_at(call_.page_indices,
                       int32_at(call_.page_indptr, b) + entry)
            : int32_at(call_.block_table, b * call_.table_columns + entry);
    return (page * s.Hkv + h) * call_.page_size + j % call_.page_size;
  }

  std::vector<std::byte> cache_of(const std::byte* from, const std::byte* fresh,
                                  int64_t width) const {
    const Shape& s = call_.shape;
    const bool paged = call_.page_size > 0;
    const int64_t row = width * dtype_bytes(call_.kv_dtype);
    const int64_t rows =
        paged ? call_.pages * s.Hkv * call_.page_size : s.B * s.Hkv * s.Tk;
    std::vector<std::byte> cache(from, from + rows * row);
    for (int64_t b = 0; b < members(); ++b)
      for (int64_t h = 0; h < s.Hkv; ++h)
        for (int64_t n = 0; n < call_.new_tokens; ++n)
          std::memcpy(cache.data() + row_of(b, h, held(b) + n) * row,
                      fresh + ((b * s.Hkv + h) * call_.new_tokens + n) * row,
                      static_cast<size_t>(row));
    return cache;
  }

  std::vector<double> rows(const std::vector<std::byte>& cache,
                           int64_t width) const {
    const Shape& s = call_.shape;
    const auto count =
        static_cast<int64_t>(cache.size()) / dtype_bytes(call_.kv_dtype);
    std::vector<double> all =
        stored_as_doubles(cache.data(), count, call_.kv_dtype);
    if (call_.page_size == 0) return all;
    std::vector<double> out(static_cast<size_t>(s.B * s.Hkv * s.Tk * width),
                            std::numeric_limits<double>::quiet_NaN());
    const std::vector<int64_t> begin = starts();
    for (int64_t m = 0; m < members(); ++m)
      for (int64_t h = 0; h < s.Hkv; ++h)
        for (int64_t j = 0; j < held(m) + call_.new_tokens; ++j) {
          const int64_t row =
              begin.empty() ? (m * s.Hkv + h) * s.Tk + j
                            : h * s.Tk + begin[static_cast<size_t>(m)] + j;
          std::copy_n(all.begin() + row_of(m, h, j) * width, width,
                      out.begin() + row * width);
        }
    return out;
  }

  const KernelCall& call_;
  std::vector<std::byte> k_, v_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_PAGES_H_
