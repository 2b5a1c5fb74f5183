// SPDX-License-Identifier: Apache-2.0
// For the tests of impl/: calls with options, and what they should give, in
// double, pair by pair from the definition. Shares nothing with the kernels but
// the ABI.
#ifndef QKVET_IMPL_TESTING_OPTIONS_FIXTURE_H_
#define QKVET_IMPL_TESTING_OPTIONS_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "impl/testing/any_tensor.h"
#include "impl/testing/family_fixture.h"

namespace qkvet::impl {

// Extents of [B, H, Tq, Tk] that a mask or a bias has of its own.
enum : uint8_t { kOwnB = 1, kOwnH = 2, kOwnQ = 4, kOwnK = 8, kOwnAll = 15 };

struct Asked {
  Problem problem;
  uint64_t options = 0;  // QKVET_OPTION_* of score and pair options
  uint8_t own = kOwnAll;
  int64_t left = -1, right = -1;
  float softcap = 3;
  bool bias_in_half = false;   // of the type of q, else f32
  std::vector<int64_t> q_len;  // with LENGTHS; empty: not given
  std::vector<int64_t> kv_len;
  std::vector<int64_t> cu_q, cu_k;  // with PACKED
  int64_t empty_row = -1;  // with MASK: a row that the mask hides altogether

  bool has(uint64_t option) const { return (options & option) != 0; }
  std::string text() const;
};

// What differs between correct kernels.
struct Expect {
  qkvet_dialect dialect;
  bool complement = false;  // of the mask: what must not agree
};

struct OptionCall {
  OptionCall(const Asked& asked, Storage type);

  // Args with lse, outputs prefilled with kUnwritten.
  qkvet_forward_args args();
  std::vector<float> outputs() const;  // as Call::outputs()
  // kUnwritten where nothing may be written.
  std::vector<double> expected(const Expect& expect) const;
  // NaN into all keys and values that no row may see.
  void poison(bool masked_too);

  static constexpr float kUnwritten = -77;

  Asked asked;
  Storage type;
  AnyTensor q, k, v, o;
  GuardedTensor lse;
  AnyTensor bias;
  Guarded<uint8_t> mask;
  AnyTensor sink;    // [1, 1, 1, H]
  AnyTensor slopes;  // [1, 1, members, H], one row of them without PER_MEMBER

  struct Member {
    int64_t b, row, rows, key, keys;
    int64_t number;
  };
  std::vector<Member> members() const;
  // i and j count from the first row and key of the member.
  bool visible(const Member& m, int64_t h, int64_t i, int64_t j,
               bool complement) const;
  double score(const Member& m, int64_t h, int64_t i, int64_t j,
               bool cap_last) const;

 private:
  void expect_row(const Member& m, int64_t h, int64_t i, const Expect& expect,
                  double* o_and_lse) const;

  int64_t mask_strides_[4], bias_strides_[4];
  int64_t one_shape_[4];
  std::vector<int64_t> lengths_[4];
  int64_t length_shape_[4], length_stride_ = 1;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_OPTIONS_FIXTURE_H_
