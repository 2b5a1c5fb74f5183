// SPDX-License-Identifier: Apache-2.0
// One call as kernels on a device receive it: plain numbers and addresses,
// passed by value at the launch. The host checks which calls are allowed
// (launch.h); lengths and block tables are data of the device, and are trusted.
#ifndef QKVET_IMPL_CUDA_DEVICE_CALL_H_
#define QKVET_IMPL_CUDA_DEVICE_CALL_H_

#include <cstdint>

#include "impl/cuda/numbers.h"

namespace qkvet::impl {

struct DeviceTensor {
  void* data = nullptr;
  int64_t step[4] = {0, 0, 0, 0};  // in elements

  template <class T>
  __device__ T* at(int64_t a, int64_t b, int64_t c) const {
    return static_cast<T*>(data) + a * step[0] + b * step[1] + c * step[2];
  }
  // The offset of channel c of a row from its first.
  __device__ int64_t channel(int c) const { return c * step[3]; }
};

// Keys; their channels may be in groups (kernel.h: channel_group).
struct DeviceKeys : DeviceTensor {
  int group = 0;           // channels of one; 0: they are no groups
  int64_t group_step = 0;  // from one to the next; step[3] is that within one

  __device__ int64_t channel(int c) const {
    return group == 0 ? c * step[3]
                      : c / group * group_step + c % group * step[3];
  }
};

// Keys [begin, end).
struct DeviceRun {
  int begin = 0;
  int end = 0;
};

// int64 or int32, [n].
struct DeviceNumbers {
  DeviceTensor numbers;  // no data: they are not given
  int narrow = 0;        // int32

  __device__ bool given() const { return numbers.data != nullptr; }
  __device__ int operator[](int n) const {
    return narrow ? *numbers.at<const int32_t>(n, 0, 0)
                  : static_cast<int>(*numbers.at<const int64_t>(n, 0, 0));
  }
};

// ALiBi: [H], with a step of 0 for members, or [members, H].
struct DeviceSlopes {
  DeviceTensor slopes;  // no data: there are none
  Storage type = Storage::kF32;

  // 0 where there are none.
  __device__ float of(int b, int head) const {
    if (slopes.data == nullptr) {
      return 0;
    }
    return type == Storage::kF32   ? *slopes.at<const float>(b, head, 0)
           : type == Storage::kF16 ? to_f32(*slopes.at<const F16>(b, head, 0))
                                   : to_f32(*slopes.at<const Bf16>(b, head, 0));
  }
};

// Lists of keys (kernel.h: key_indices).
struct DeviceLists {
  DeviceTensor keys;    // int32 [B, Hkv or 1, Tq, n]; no data: there are none
  DeviceTensor counts;  // int32 [B, Tq]; no data: all n
  int entries = 0;      // n
  int group = 1;        // query heads of a list
  int block = 1;        // keys of an entry

  __device__ bool given() const { return keys.data != nullptr; }
};

struct DeviceCall {
  // Members, be they B or those of a packed batch.
  int batch = 0, heads = 0, kv_heads = 0, group = 0;
  int queries = 0, keys = 0;
  int width = 0, value_width = 0;
  DeviceTensor q, v, o;
  DeviceKeys k;
  DeviceTensor lse;  // f32 [B, H, Tq]; no data if not requested
  float scale = 0;
  int causal = 0;    // 0 or 1
  int top_left = 0;  // the diagonal of row i is key i, not i + Lk - Lq
  int64_t window_left = -1, window_right = -1;
  DeviceNumbers q_len, kv_len;  // [members]; not given: all of them
  DeviceNumbers cu_q;           // [members + 1]; given: a packed batch
  // Pages: a table, or numbers starts[b] .. starts[b + 1] - 1 of a list, the
  // last of them with last[b] tokens. No data in either: no pages.
  DeviceTensor table;                // int32 [members, columns]
  DeviceNumbers starts, list, last;  // [members + 1], [entries], [members]
  int page_size = 0;
  DeviceTensor k_new, v_new;  // [members, Hkv, new_tokens, d]
  int new_tokens = 0;
  DeviceSlopes slopes;
  DeviceLists lists;

  __device__ int first_row(int b) const { return cu_q.given() ? cu_q[b] : 0; }
  __device__ int rows_of(int b) const {
    return cu_q.given()    ? cu_q[b + 1] - cu_q[b]
           : q_len.given() ? q_len[b]
                           : queries;
  }
  // Row i of member b in a tensor [B, H, Tq, ...].
  template <class T>
  __device__ T* row(const DeviceTensor& t, int b, int head, int i) const {
    return cu_q.given() ? t.at<T>(0, head, cu_q[b] + i) : t.at<T>(b, head, i);
  }
  // Entries of the list of row i of member b.
  __device__ int listed(int b, int i) const {
    const DeviceTensor& t = lists.counts;
    return t.data == nullptr ? lists.entries
           : cu_q.given()    ? *t.at<const int32_t>(0, cu_q[b] + i, 0)
                             : *t.at<const int32_t>(b, i, 0);
  }
  // Tokens before the new ones.
  __device__ int held_by(int b) const {
    if (starts.given()) {
      const int pages = starts[b + 1] - starts[b];
      const int all = pages == 0 ? 0 : (pages - 1) * page_size + last[b];
      return all - new_tokens;
    }
    return kv_len.given() ? kv_len[b] : keys;
  }
  __device__ int keys_of(int b) const { return held_by(b) + new_tokens; }

  // The position of row i of member b, possibly outside of its keys.
  __device__ int position(int b, int i) const {
    return top_left ? i : i + keys_of(b) - rows_of(b);
  }
  // Keys that a row of member b at this position sees: the causal rule and the
  // window.
  __device__ DeviceRun reach_from(int b, int64_t at) const {
    int64_t begin = 0, end = keys_of(b);
    if (causal && at + 1 < end) {
      end = at + 1;
    }
    if (window_right >= 0 && at + window_right + 1 < end) {
      end = at + window_right + 1;
    }
    if (window_left >= 0 && at - window_left > begin) {
      begin = at - window_left;
    }
    if (end <= begin) {
      return {0, 0};
    }
    return {static_cast<int>(begin), static_cast<int>(end)};
  }
  __device__ DeviceRun reach(int b, int i) const {
    return reach_from(b, position(b, i));
  }
  // The keys that any of rows [first, first + count) sees; may be empty.
  __device__ DeviceRun reach_of_rows(int b, int first, int count) const {
    DeviceRun all;
    for (int i = first; i < first + count && i < rows_of(b); ++i) {
      const DeviceRun run = reach(b, i);
      if (run.end > run.begin) {
        all.begin =
            all.end == 0 || run.begin < all.begin ? run.begin : all.begin;
        all.end = run.end > all.end ? run.end : all.end;
      }
    }
    return all;
  }

  // The row of a key or value of a member, found through its page.
  template <class T>
  __device__ T* token(const DeviceTensor& t, int b, int head, int j) const {
    if (page_size == 0) {
      return t.at<T>(b, head, j);
    }
    const int column = j / page_size;
    const int page = starts.given() ? list[starts[b] + column]
                                    : *table.at<const int32_t>(b, column, 0);
    return t.at<T>(page, head, j % page_size);
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_DEVICE_CALL_H_
