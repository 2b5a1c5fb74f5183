// SPDX-License-Identifier: Apache-2.0
// The storage types of cases that can be judged at all.
#include <algorithm>
#include <iterator>

#include "properties/checking/case_work.h"

namespace qkvet::properties {

std::string not_judged_reason(const Case& value) {
  const Dtype dtypes[] = {value.q_dtype, value.kv_dtype, value.o_dtype};
  for (const Dtype dtype : dtypes)
    if (dtype != Dtype::kF64 && dtype != Dtype::kF32 && dtype != Dtype::kF16 &&
        dtype != Dtype::kBf16)
      return std::string(dtype_name(dtype)) +
             " storage: no bound has been derived for it; f64, f32, f16 and "
             "bf16 are judged";
  if (value.backward &&
      (value.q_dtype != value.kv_dtype || value.q_dtype != value.o_dtype))
    return "gradients in more than one storage type: no bound has been derived "
           "for the mixture";
  const auto f64 =
      std::count(std::begin(dtypes), std::end(dtypes), Dtype::kF64);
  if (f64 == 0) return "";
  if (f64 < std::ssize(dtypes))
    return "f64 beside other storage: no bound has been derived for the "
           "mixture; f64 is judged where q, k, v and o all are f64";
  if (value.has_options()) return "";
  return "f64 storage is judged in attention calls; no bound has been derived "
         "for caches and layers in f64";
}

}  // namespace qkvet::properties
