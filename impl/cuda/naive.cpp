// SPDX-License-Identifier: Apache-2.0
// naive: a warp for each row of queries. Scores of all keys in shared memory,
// their maximum, their exponentials, then a thread for each channel of o.
//
// Contract: f32, any strides. Cost: K and V are read once for each row; shared
// memory Tk + d floats, so the shared memory of a block limits Tk.
#include "impl/cuda/arithmetic.h"
#include "impl/cuda/block.h"
#include "impl/cuda/launch.h"

namespace qkvet::impl {
namespace {

constexpr int kMostWidth = 1024;
constexpr int kThreads = 32;

__device__ inline float dot(const float* q, const float* k, int64_t step,
                            int width) {
  float sum = 0;
  for (int c = 0; c < width; ++c) {
    sum += q[c] * k[c * step];
  }
  return sum;
}

__global__ void naive_row(DeviceCall call) {
  SIMT_DYNAMIC_SHARED(float, memory);
  float* const q = memory;
  float* const weights = q + call.width;
  const int i = blockIdx.x, b = blockIdx.y / call.heads;
  const int h = blockIdx.y % call.heads, kv = h / call.group;
  if (i >= call.rows_of(b)) {
    return;
  }
  const int at = call.position(b, i);
  const DeviceRun run = call.reach_from(b, at);
  const float slope = call.slopes.of(b, h);
  const float* const q_row = call.q.at<const float>(b, h, i);
  for (int c = threadIdx.x; c < call.width; c += kThreads) {
    q[c] = q_row[c * call.q.step[3]];
  }
  __syncthreads();

  float max = minus_infinity();
  for (int j = run.begin + threadIdx.x; j < run.end; j += kThreads) {
    const float* const k = call.k.at<const float>(b, kv, j);
    const float scaled = dot(q, k, call.k.step[3], call.width) * call.scale;
    const float score = with_alibi(scaled, slope, at - j);
    weights[j - run.begin] = score;
    max = fmaxf(max, score);
  }
  max = max_of_lanes<kThreads>(max);
  float sum = 0;
  for (int j = run.begin + threadIdx.x; j < run.end; j += kThreads) {
    const float weight = expf(weights[j - run.begin] - max);
    weights[j - run.begin] = weight;
    sum += weight;
  }
  sum = sum_of_lanes<kThreads>(sum);
  __syncthreads();  // weights of all lanes are written

  for (int c = threadIdx.x; c < call.value_width; c += kThreads) {
    float acc = 0;
    for (int j = run.begin; j < run.end; ++j) {
      acc += weights[j - run.begin] *
             call.v.at<const float>(b, kv, j)[c * call.v.step[3]];
    }
    write_channels<float>(call, b, h, i, sum, &acc, c, call.value_width);
  }
  if (threadIdx.x == 0) {
    write_lse(call, b, h, i, max, sum);
  }
}

size_t shared_bytes(const DeviceCall& call) {
  return sizeof(float) *
         (static_cast<size_t>(kThreads) + static_cast<size_t>(call.width) +
          static_cast<size_t>(call.keys));
}

qkvet_status supports(const qkvet_kernel* self, const qkvet_forward_args* args,
                      qkvet_text* why) {
  DeviceCall call;
  Storage type;
  QKVET_TRY(read_device_call(self, args, kMostWidth, &call, &type, why));
  return shared_bytes(call) > most_shared_bytes()
             ? refuse(why, QKVET_UNSUPPORTED,
                      "more keys than fit into shared memory")
             : QKVET_OK;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  DeviceCall call;
  Storage type;
  QKVET_TRY(begin_device_call(self, args, exec, kMostWidth, &call, &type, why));
  if (call.batch * call.heads * call.queries == 0) {
    return QKVET_OK;
  }
  const size_t bytes = shared_bytes(call);
  QKVET_TRY(prepare_launch(reinterpret_cast<const void*>(naive_row), bytes,
                           call, why));
  const dim3 grid(call.queries, call.batch * call.heads);
  return end_launch(
      SIMT_LAUNCH(naive_row, grid, kThreads, bytes, exec->stream, call), why);
}

constexpr qkvet_precision kPrecision = cuda_core_f32();
constexpr qkvet_capabilities kCapabilities =
    device_capabilities(kDeviceOptions, {kF32}, kMostWidth);

}  // namespace

extern constinit const qkvet_kernel cuda_naive =
    device_kernel(QKVET_FAMILY "/naive", "CUDA: a warp for each row of queries",
                  {"impl/cuda/naive.cpp", __LINE__}, &kPrecision, forward,
                  &kCapabilities, supports);

}  // namespace qkvet::impl
