// SPDX-License-Identifier: Apache-2.0
// The parts of a call that a plan (qkvet/plan.h) keeps: extents, types and
// options, and the lengths and tables of a batch.
#ifndef QKVET_IMPL_CALL_PLAN_CALL_H_
#define QKVET_IMPL_CALL_PLAN_CALL_H_

#include <cstdint>
#include <iterator>
#include <vector>

#include "qkvet/kernel.h"
#include "qkvet/plan.h"

namespace qkvet::impl {

// The lengths and tables of a call.
inline constexpr qkvet_tensor qkvet_forward_args::*kBatchTables[] = {
#define QKVET_FORWARD_TENSOR(...)
#define QKVET_FORWARD_TABLE(field, ...) &qkvet_forward_args::field,
#include "qkvet/tensors.def"
};

// The extents, types and options of a call; no data. The number of pages, and
// the length of a table or a list of pages, belong to a batch.
class MadeFor {
 public:
  explicit MadeFor(const qkvet_forward_args& args);
  // The first difference of a call, as text; NULL: there is none.
  const char* differs(const qkvet_forward_args& args) const;
  const qkvet_forward_args& options() const { return args_; }

 private:
  static constexpr int kTensors = 0
#define QKVET_FORWARD_TENSOR(...) +1
#include "qkvet/tensors.def"
      ;

  qkvet_forward_args args_;
  int64_t extents_[kTensors][4];
};

// Copies of the lengths and tables of a call. May throw std::bad_alloc.
class BatchNumbers {
 public:
  void take(const qkvet_forward_args& args);
  // The call with these numbers, valid as long as this object.
  qkvet_forward_args with(qkvet_forward_args args) const;

  // In a copy: takes one table of another batch, as far as both have it and
  // with the same extents.
  void take_from(const BatchNumbers& other,
                 qkvet_tensor qkvet_forward_args::*tensor);
  // Sets one of them to zeros.
  void clear(qkvet_tensor qkvet_forward_args::*tensor);

 private:
  static constexpr int kTables = static_cast<int>(std::size(kBatchTables));

  struct Table {
    int32_t ndim = 0;  // 0: absent
    qkvet_dtype dtype = {};
    int64_t shape[2] = {0, 0};
    int64_t strides[2] = {0, 0};
    std::vector<char> data;
  };
  Table* find(qkvet_tensor qkvet_forward_args::*tensor);

  Table tables_[kTables];
};

// A call without data whose tensors nevertheless have an address: for readers
// that read no element.
qkvet_forward_args with_addresses(qkvet_forward_args args);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_PLAN_CALL_H_
