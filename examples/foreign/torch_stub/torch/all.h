// SPDX-License-Identifier: Apache-2.0
// As much of PyTorch as vLLM's csrc/cpu/attention.cpp names: tensors that
// point to memory of the caller, the three storage types, the two macros that
// choose by them, and the check that throws.
#ifndef QKVET_EXAMPLES_FOREIGN_TORCH_STUB_ALL_H_
#define QKVET_EXAMPLES_FOREIGN_TORCH_STUB_ALL_H_

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace c10 {
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
template <typename T>
using optional = std::optional<T>;
}  // namespace c10

namespace at {
enum class ScalarType { Float, BFloat16, Half };
template <ScalarType kType>
using CType = std::conditional_t<
    kType == ScalarType::Float, float,
    std::conditional_t<kType == ScalarType::Half, c10::Half, c10::BFloat16>>;
}  // namespace at

namespace torch {
// Contiguous, and owned by somebody else.
class Tensor {
 public:
  Tensor(const void* data, std::vector<int64_t> sizes,
         at::ScalarType type = at::ScalarType::Float)
      : data_(const_cast<void*>(data)), sizes_(std::move(sizes)), type_(type) {}

  int64_t size(int64_t n) const { return sizes_[place(n)]; }
  int64_t stride(int64_t n) const {
    int64_t product = 1;
    for (size_t i = place(n) + 1; i < sizes_.size(); ++i) product *= sizes_[i];
    return product;
  }
  at::ScalarType scalar_type() const { return type_; }
  void* data_ptr() const { return data_; }
  template <typename T>
  T* data_ptr() const {
    return static_cast<T*>(data_);
  }

 private:
  size_t place(int64_t n) const {
    return static_cast<size_t>(n < 0 ? n + static_cast<int64_t>(sizes_.size())
                                     : n);
  }

  void* data_;
  std::vector<int64_t> sizes_;
  at::ScalarType type_;
};
}  // namespace torch

#define AT_DISPATCH_CASE(TYPE, ...)     \
  case TYPE: {                          \
    using scalar_t = ::at::CType<TYPE>; \
    __VA_ARGS__();                      \
    break;                              \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...) \
  switch (TYPE) { __VA_ARGS__ }
#define TORCH_CHECK(condition, ...)                            \
  do {                                                         \
    if (!(condition)) throw std::invalid_argument(#condition); \
  } while (false)

#endif  // QKVET_EXAMPLES_FOREIGN_TORCH_STUB_ALL_H_
