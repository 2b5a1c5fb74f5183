// SPDX-License-Identifier: Apache-2.0
// merge: the states of a row become one, as merge.h of the ABI defines it. A
// block is a row and a head, a thread every 128th channel. Each thread reads
// the lse of all states by itself, twice: no shared memory has to grow with the
// number of states, and all threads have the same bits of the maximum and of
// the sum.
//
// Contract: f32, f16 and bf16, any strides. A state that is merged in place is
// read by all threads before it is written. On a device the contents of indptr
// are trusted. Cost: 2 n exponentials a thread.
#include <limits>

#include "impl/cuda/arithmetic.h"
#include "impl/cuda/block.h"
#include "impl/cuda/launch.h"
#include "impl/skeletons/merge_skeleton.h"

namespace qkvet::impl {
namespace {

struct DeviceMerge {
  int width = 0, others = 0, in_place = 0;
  DeviceTensor states, states_lse;  // [n, T, H, dv], [n, T, H]; ragged
                                    // [S, H, dv], [S, H]
  DeviceTensor o, lse;              // [T, H, dv], [T, H]
  DeviceNumbers indptr;             // [T + 1]; not given: n of every row
  DeviceTensor row_mask;            // [T]; no data: all rows

  __device__ bool merges(int t) const {
    return row_mask.data == nullptr ||
           *row_mask.at<const uint8_t>(t, 0, 0) != 0;
  }
  __device__ int count(int t) const {
    return indptr.given() ? indptr[t + 1] - indptr[t] : others + in_place;
  }
  // State n of a row; in place, number 0 is in o and lse.
  __device__ float lse_of(int t, int n, int h) const {
    if (in_place && n == 0) {
      return *lse.at<const float>(t, h, 0);
    }
    return indptr.given() ? *states_lse.at<const float>(indptr[t] + n, h, 0)
                          : *states_lse.at<const float>(n - in_place, t, h);
  }
  template <class T>
  __device__ float value_of(int t, int n, int h, int c) const {
    if (in_place && n == 0) {
      return to_f32(o.at<const T>(t, h, 0)[c * o.step[2]]);
    }
    return indptr.given() ? to_f32(states.at<const T>(indptr[t] + n, h,
                                                      0)[c * states.step[2]])
                          : to_f32(states.at<const T>(n - in_place, t,
                                                      h)[c * states.step[3]]);
  }
};

template <class T>
__global__ void merge_row(DeviceMerge call) {
  const int t = blockIdx.x, h = blockIdx.y, thread = threadIdx.x;
  if (!call.merges(t)) {
    return;
  }
  const int count = call.count(t);
  float max = minus_infinity();
  for (int n = 0; n < count; ++n) {
    max = fmaxf(max, call.lse_of(t, n, h));
  }
  const bool empty = max == minus_infinity();
  float sum = 0;
  for (int n = 0; !empty && n < count; ++n) {
    sum += expf(call.lse_of(t, n, h) - max);
  }
  for (int c = thread; c < call.width; c += kBlockThreads) {
    float value = 0;
    for (int n = 0; !empty && n < count; ++n) {
      value += expf(call.lse_of(t, n, h) - max) * call.value_of<T>(t, n, h, c);
    }
    call.o.at<T>(t, h, 0)[c * call.o.step[2]] =
        from_f32<T>(empty ? 0.0f : value / sum);
  }
  __syncthreads();  // in place, all have read the old lse
  if (thread == 0) {
    *call.lse.at<float>(t, h, 0) = empty ? minus_infinity() : max + logf(sum);
  }
}

qkvet_status read(const qkvet_kernel* self, const qkvet_merge_args* args,
                  MergeCall* call, qkvet_text* why) {
  constexpr int64_t kMostOfGrid = 65535;  // blocks in y
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;
  qkvet_merge_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  known.struct_size = sizeof(known);
  for (qkvet_tensor* t : {&known.states, &known.states_lse, &known.indptr,
                          &known.o, &known.lse, &known.row_mask}) {
    if (const char* wrong = tensor_on_cpu(t)) {
      return refuse(why, QKVET_UNSUPPORTED, wrong);
    }
  }
#if defined(__CUDACC__)
  QKVET_TRY(read_merge_extents(self, &known, call, why));
#else
  QKVET_TRY(read_merge(self, &known, call, why));
#endif
  if (call->heads > kMostOfGrid || call->rows > kMost || call->width > kMost ||
      call->all_states > kMost) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "more rows, heads or states than a grid has room for");
  }
  return QKVET_OK;
}

template <class T>
qkvet_status launch(const MergeCall& call, void* stream, qkvet_text* why) {
  DeviceMerge merge;
  merge.width = static_cast<int>(call.width);
  merge.others = static_cast<int>(call.others);
  merge.in_place = call.in_place ? 1 : 0;
  merge.states = device_tensor(call.states);
  merge.states_lse = device_tensor(call.states_lse);
  merge.o = device_tensor(call.o);
  merge.lse = device_tensor(call.lse);
  merge.indptr.numbers = device_tensor(call.indptr);
  merge.row_mask = device_tensor(call.row_mask);
  DeviceCall shape;  // decides the order of threads
  shape.batch = static_cast<int>(call.rows);
  shape.heads = static_cast<int>(call.heads);
  shape.keys = static_cast<int>(call.all_states);
  shape.width = merge.width;
  const auto kernel = merge_row<T>;
  QKVET_TRY(
      prepare_launch(reinterpret_cast<const void*>(kernel), 0, shape, why));
  const dim3 grid(static_cast<unsigned>(call.rows),
                  static_cast<unsigned>(call.heads));
  return end_launch(SIMT_LAUNCH(kernel, grid, kBlockThreads, 0, stream, merge),
                    why);
}

qkvet_status merge(const qkvet_kernel* self, qkvet_context*,
                   const qkvet_merge_args* args, const qkvet_exec* exec,
                   qkvet_text* why) {
  if (exec != nullptr && exec->device_type != 0 &&
      exec->device_type != kDevice) {
    return refuse(why, QKVET_UNAVAILABLE, "another device than this kernel's");
  }
  MergeCall call;
  QKVET_TRY(read(self, args, &call, why));
  if (call.rows * call.heads == 0) {
    return QKVET_OK;
  }
  void* const stream = exec == nullptr ? nullptr : exec->stream;
  const Storage type = call.o.type;
  return type == Storage::kF32   ? launch<float>(call, stream, why)
         : type == Storage::kF16 ? launch<F16>(call, stream, why)
                                 : launch<Bf16>(call, stream, why);
}

constexpr qkvet_merge_table kTable = [] {
  qkvet_merge_table table = kMergeTable<PlainMerge>;
  table.merge = merge;
  return table;
}();

constexpr qkvet_precision kPrecision = cuda_core_f32();

constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = kMergeCapabilities;
  c.flags |= QKVET_FLAG_GPU_THREADS;
  c.flags &= ~QKVET_FLAG_ALLOCATES;
  // As in device_capabilities().
  if (kDevice != QKVET_DEVICE_CPU) c.flags &= ~QKVET_FLAG_REENTRANT;
  c.devices = uint64_t{1} << kDevice;
  return c;
}();

constexpr qkvet_kernel device_merge() {
  qkvet_kernel kernel = merge_kernel(
      QKVET_FAMILY "/merge", "CUDA: states of attention become one",
      {"impl/cuda/merge.cpp", __LINE__}, &kTable, &kPrecision);
  kernel.capabilities = &kCapabilities;
  kernel.open = open_device;
  kernel.close = close_device;
  return kernel;
}

}  // namespace

extern constinit const qkvet_kernel cuda_merge = device_merge();

}  // namespace qkvet::impl
