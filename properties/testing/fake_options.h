// SPDX-License-Identifier: Apache-2.0
// For tests: the options of a call as the oracle takes them.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_OPTIONS_H_
#define QKVET_PROPERTIES_TESTING_FAKE_OPTIONS_H_

#include <cstring>
#include <vector>

#include "core/call/call.h"
#include "core/case/paging.h"
#include "properties/judging/compare.h"
#include "reference/arithmetic/oracle.h"

namespace qkvet::properties {

// A tensor of any type that cases have.
inline std::vector<double> stored_as_doubles(const std::byte* bytes,
                                             int64_t count, Dtype dtype) {
  return as_doubles({bytes, bytes + count * dtype_bytes(dtype)}, dtype);
}

inline std::vector<double> floats_as_doubles(const std::byte* bytes,
                                             int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    float value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    out[i] = static_cast<double>(value);
  }
  return out;
}

// Owns the data of the problem.
class FakeOptions {
 public:
  // Expands a tensor in which only some of these extents are its own to
  // [B,H,Tq,Tk].
  template <class Read>
  static auto spread(const Shape& s, uint8_t own, Read read)
      -> std::vector<decltype(read(0))> {
    const auto extent = [&](int bit, int64_t e) {
      return (own & bit) != 0 ? e : 1;
    };
    const int64_t H = extent(kOwnH, s.H), Tq = extent(kOwnQ, s.Tq);
    const int64_t Tk = extent(kOwnK, s.Tk), B = extent(kOwnB, s.B);
    std::vector<decltype(read(0))> out;
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t h = 0; h < s.H; ++h)
        for (int64_t i = 0; i < s.Tq; ++i)
          for (int64_t j = 0; j < s.Tk; ++j)
            out.push_back(
                read(((b % B * H + h % H) * Tq + i % Tq) * Tk + j % Tk));
    return out;
  }

  FakeOptions(const KernelCall& call, Problem& problem) {
    const Shape& s = call.shape;
    problem.window = call.window;
    problem.softcap = static_cast<double>(call.softcap);
    if (call.mask != nullptr) {
      const auto* from = reinterpret_cast<const uint8_t*>(call.mask);
      mask_ = spread(s, call.mask_own, [&](int64_t n) { return from[n]; });
      problem.mask = mask_.data();
    }
    if (call.bias != nullptr) {
      bias_ = spread(s, call.bias_own, [&](int64_t n) {
        return stored_as_doubles(call.bias + n * dtype_bytes(call.q_dtype), 1,
                                 call.q_dtype)[0];
      });
      problem.bias = bias_.data();
    }
    const Dtype per_head =
        call.q_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    take(call.sink, s.H, per_head, sink_, problem.sink);
    const int64_t members = call.members > 0 ? call.members : s.B;
    problem.member_slopes = call.member_slopes;
    take(call.slopes, call.member_slopes ? members * s.H : s.H, per_head,
         slopes_, problem.slopes);
    take_lengths(call, call.q_len, s.B, q_len_, problem.q_len);
    take_lengths(call, call.kv_len, s.B, kv_len_, problem.kv_len);
    problem.members = call.members;
    take_lengths(call, call.cu_q, call.members + 1, cu_q_, problem.cu_q);
    take_lengths(call, call.cu_k, call.members + 1, cu_k_, problem.cu_k);
    problem.rotation.style = call.rope;
    problem.rotation.channels = call.rope_channels;
    if (const KeyLists& lists = call.listed; lists.entries > 0) {
      const int64_t heads = lists.per_head ? s.Hkv : 1;
      problem.listed.entries = lists.entries;
      problem.listed.heads = heads;
      take(call.key_indices, s.B * heads * s.Tq * lists.entries, listed_keys_,
           problem.listed.keys);
      take(call.topk_length, s.B * s.Tq, listed_counts_, problem.listed.counts);
      if (lists.block > 1) expand_blocks(lists.block, s.Tk, problem.listed);
    }
    const MaskFields& f = call.fields;
    take_integers(call.segments_q, s.B * s.Tq, f.wide_segments, segments_q_,
                  problem.fields.segments_q);
    take_integers(call.segments_k, s.B * s.Tk, f.wide_segments, segments_k_,
                  problem.fields.segments_k);
    take_integers(call.full_ranges, s.B * f.ranges * 2, f.wide_ranges, ranges_,
                  problem.fields.full_ranges);
    take(call.tree_mask, s.B * s.Tq * s.Tq, tree_, problem.fields.tree);
    problem.fields.ranges = f.ranges;
    problem.fields.chunk = call.chunk;
    const int64_t table = call.rope_rows * (call.rope_channels / 2);
    take(call.rope_cos, table, per_head, rope_cos_, problem.rotation.cos);
    take(call.rope_sin, table, per_head, rope_sin_, problem.rotation.sin);
    take(call.q_positions, s.B * s.Tq, q_positions_,
         problem.rotation.q_positions);
    take(call.k_positions, s.B * s.Tk, k_positions_,
         problem.rotation.k_positions);
  }
  FakeOptions(const FakeOptions&) = delete;
  FakeOptions& operator=(const FakeOptions&) = delete;

 private:
  static void take(const std::byte* bytes, int64_t count, Dtype dtype,
                   std::vector<double>& values, const double*& field) {
    if (bytes == nullptr) return;
    values = stored_as_doubles(bytes, count, dtype);
    field = values.data();
  }
  template <class Number>
  static void take(const std::byte* bytes, int64_t count,
                   std::vector<Number>& values, const Number*& field) {
    if (bytes == nullptr) return;
    values.resize(static_cast<size_t>(count));
    field = values.data();
    if (count > 0)
      std::memcpy(values.data(), bytes, values.size() * sizeof(Number));
  }

  // Replaces block numbers by those of their keys, without keys after the last
  // one.
  void expand_blocks(int64_t block, int64_t keys, ListedKeys& listed) {
    std::vector<int32_t> all;
    for (const int64_t number : listed_keys_)
      for (int64_t j = number * block; j < (number + 1) * block; ++j)
        all.push_back(static_cast<int32_t>(j < 0 || j >= keys ? -1 : j));
    for (int32_t& count : listed_counts_) count *= static_cast<int32_t>(block);
    listed_keys_ = std::move(all);
    listed.keys = listed_keys_.data();
    listed.entries *= block;
  }

  static void take_integers(const std::byte* bytes, int64_t count, bool wide,
                            std::vector<int64_t>& values,
                            const int64_t*& field) {
    if (bytes == nullptr) return;
    if (wide) return take(bytes, count, values, field);
    std::vector<int32_t> narrow;
    const int32_t* all = nullptr;
    take(bytes, count, narrow, all);
    values.assign(narrow.begin(), narrow.end());
    field = values.data();
  }

  static void take_lengths(const KernelCall& call, const std::byte* bytes,
                           int64_t count, std::vector<int64_t>& values,
                           const int64_t*& field) {
    if (bytes == nullptr) return;
    for (int64_t n = 0; n < count; ++n)
      values.push_back(length_at(call, bytes, n));
    values.resize(static_cast<size_t>(count) + 1);  // so that there is data
    field = values.data();
  }

  std::vector<uint8_t> mask_;
  std::vector<double> bias_, sink_, slopes_;
  std::vector<int64_t> q_len_, kv_len_, cu_q_, cu_k_;
  std::vector<int32_t> listed_keys_, listed_counts_;
  std::vector<int64_t> segments_q_, segments_k_, ranges_;
  std::vector<uint8_t> tree_;
  std::vector<double> rope_cos_, rope_sin_;
  std::vector<int64_t> q_positions_, k_positions_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_OPTIONS_H_
