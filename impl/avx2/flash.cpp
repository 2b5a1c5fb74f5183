// SPDX-License-Identifier: Apache-2.0
// avx2/flash: the ABI of the kernel in flash_kernel.cpp. This file is baseline
// code: on a CPU without AVX2 and FMA, open() refuses and no instruction of the
// other file is ever executed.
//
// Query rows of all heads that share a key/value head are computed together,
// so that grouped heads read and pack it once. Memory: K and V of one head (of
// a tile if up to 48 rows share it), packed, 48 (d + dv) floats, a tile of
// scores and a stage of max(8 d, dv) for half storage, kept in the context. The
// gradient is that of gradient.h.
#include "impl/avx2/flash.h"

#include <cpuid.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "impl/avx2/flash_kernel.h"
#include "impl/avx2/gradient.h"
#include "impl/call/declare.h"
#include "impl/call/forward_view.h"
#include "impl/call/half.h"
#include "impl/call/in_f32.h"
#include "impl/call/members.h"
#include "impl/skeletons/backward_kernel.h"

namespace qkvet::impl {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kAlignedFloats = 16;
// Keys that are converted together.
constexpr size_t kStagedRows = 8;

}  // namespace

void free_flash(qkvet_context* context) {
  operator delete(context->memory, kAlignment, std::nothrow);
  context->memory = nullptr;
  context->floats = 0;
}

namespace {

// QKVET_CPU=baseline makes every family behave as on a CPU without extensions.
bool cpu_is_forced_to_baseline() {
  const char* const forced = std::getenv("QKVET_CPU");
  return forced != nullptr && std::strcmp(forced, "baseline") == 0;
}

qkvet_status open(const qkvet_kernel*, const qkvet_exec* exec,
                  qkvet_context** context, qkvet_text* why) {
  if (cpu_is_forced_to_baseline() || !__builtin_cpu_supports("avx2") ||
      !__builtin_cpu_supports("fma")) {
    return refuse(why, QKVET_UNAVAILABLE,
                  "needs AVX2 and FMA, which this CPU does not have");
  }
  QKVET_TRY(check_exec(exec, why));
  *context = new (std::nothrow) qkvet_context;
  return *context != nullptr
             ? QKVET_OK
             : refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a context");
}

void close(const qkvet_kernel*, qkvet_context* context) {
  if (context != nullptr) {
    free_flash(context);
    delete context;
  }
}

size_t padded(int64_t n, int64_t multiple) {
  return static_cast<size_t>((n + multiple - 1) / multiple * multiple);
}

// Whether all rows that share a key/value head are computed at once, as in
// decoding. Packing its keys pays for itself from a few blocks on.
bool one_block(const ForwardCall& call) {
  return call.queries * call.group() <= kBlockRows;
}

// Cuts the memory of the context into the pieces of a call, growing it first
// if it is too small. False: there is not enough.
bool make_workspace(const ForwardCall& call, int64_t keys,
                    qkvet_context* context, FlashWorkspace* space) {
  const size_t width = static_cast<size_t>(call.width);
  const size_t columns = padded(call.value_width, kPanel);
  const size_t sizes[] = {padded(keys, kPanel) * width,
                          columns * static_cast<size_t>(keys),
                          padded(kBlockRows * call.width, kAlignedFloats),
                          static_cast<size_t>(kMicroRows * kTileKeys),
                          static_cast<size_t>(kBlockRows) * columns,
                          std::max(kStagedRows * width, columns)};
  size_t floats = 0;
  for (const size_t size : sizes) {
    floats += size;
  }
  if (floats > context->floats) {
    free_flash(context);
    context->memory = static_cast<float*>(operator new(
        floats * sizeof(float), kAlignment, std::nothrow));
    if (context->memory == nullptr) {
      return false;
    }
    context->floats = floats;
  }
  float** const pieces[] = {&space->k,      &space->v,   &space->q,
                            &space->scores, &space->acc, &space->stage};
  float* next = context->memory;
  for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); ++i) {
    *pieces[i] = next;
    next += sizes[i];
  }
  return true;
}

// Whether the CPU has F16C; the caller has checked AVX registers. Asked once:
// in a virtual machine the answer takes as long as a small call.
bool cpu_has_f16c() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return has;
}

template <Storage kType>
void widen(const uint16_t* from, int64_t step, int64_t n, float* to) {
  for (int64_t c = 0; c < n; ++c) {
    to[c] = from_half(kType, from[c * step]);
  }
}

void widen_f16_fast(const uint16_t* from, int64_t step, int64_t n, float* to) {
  if (step == 1) {
    widen_f16c(from, n, to);
  } else {
    widen<Storage::kF16>(from, step, n, to);
  }
}

template <Storage kType>
void narrow(const float* from, int64_t n, uint16_t* to, int64_t step) {
  for (int64_t c = 0; c < n; ++c) {
    to[c * step] = to_half(kType, from[c]);
  }
}

void set_conversions(Storage type, FlashHead* head) {
  if (type == Storage::kF16) {
    head->widen = cpu_has_f16c() ? widen_f16_fast : widen<Storage::kF16>;
    head->narrow = narrow<Storage::kF16>;
  } else if (type == Storage::kBf16) {
    head->widen = widen<Storage::kBf16>;
    head->narrow = narrow<Storage::kBf16>;
  }
}

// Row `row` of a call with options in a tile of keys (flash_kernel.h).
int64_t prepare(const void* with_call, const FlashRow& row, int64_t first,
                int64_t count, float* scores, FlashRun* runs) {
  const ForwardCall& call = *static_cast<const ForwardCall*>(with_call);
  int64_t written = 0;
  bool in_run = false;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t j = first + n;
    const bool seen = j >= row.begin && j < row.keys &&
                      call.options.allows(row.b, row.h, row.i, j);
    scores[n] = seen ? with_options(call, row.b, row.h, row.i, j, scores[n])
                     : -std::numeric_limits<float>::infinity();
    if (seen && !in_run) {
      runs[written++].begin = n;
    }
    if (seen) {
      runs[written - 1].end = n + 1;
    }
    in_run = seen;
  }
  return written;
}

// Ends at the first visible pair; in a tile within a segment, or in the history
// of a tree, that is the very first pair.
bool needs_tile(const void* with_call, const FlashRow* rows, int64_t count,
                int64_t first, int64_t keys) {
  const ForwardCall& call = *static_cast<const ForwardCall*>(with_call);
  for (const FlashRow* row = rows; row < rows + count; ++row) {
    const int64_t end = std::min(row->keys, first + keys);
    for (int64_t j = std::max(row->begin, first); j < end; ++j) {
      if (call.options.fields.show(row->b, row->i, j)) {
        return true;
      }
    }
  }
  return false;
}

void compute_block(const ForwardCall& call, const FlashHead& head,
                   const FlashRow* rows, int64_t count,
                   const FlashWorkspace& space) {
  const bool few = call.options.fields.present();
  const FlashOptions options = {&call, prepare, few ? needs_tile : nullptr};
  flash_block(head, call.options.any() ? &options : nullptr, rows, count,
              space);
}

// All query rows that share key/value head `kv` of member b. Rows of one
// position are adjacent, so that the visible keys never decrease. `views` is
// the call itself, or its half of another storage type.
template <class Views>
void compute_kv_head(const ForwardCall& call, const Views& views, int64_t b,
                     int64_t kv, int64_t keys, const FlashWorkspace& space) {
  FlashHead head = {views.k.at(b, kv, 0),
                    views.v.at(b, kv, 0),
                    views.k.step[2],
                    views.k.step[3],
                    views.v.step[2],
                    views.v.step[3],
                    views.q.step[3],
                    views.o.step[3],
                    keys,
                    one_block(call),
                    call.width,
                    call.value_width,
                    call.scale,
                    nullptr,
                    nullptr};
  set_conversions(call.storage, &head);
  if (keys > 0 && !head.one_block) {
    flash_pack(head, space);
  }
  const int64_t group = call.group();
  FlashRow rows[kBlockRows];
  int64_t count = 0;
  for (int64_t i = 0; i < call.queries; ++i) {
    for (int64_t g = 0; g < group; ++g) {
      const int64_t h = kv * group + g;
      const Run reach = call.in_reach(i);
      rows[count++] = {
          views.q.at(b, h, i),
          views.o.at(b, h, i),
          call.lse.data != nullptr ? call.lse.at(b, h, i) : nullptr,
          reach.end,
          reach.begin,
          b,
          h,
          i,
          call.options.sink_of(h)};
      if (count == kBlockRows) {
        compute_block(call, head, rows, count, space);
        count = 0;
      }
    }
  }
  if (count > 0) {
    compute_block(call, head, rows, count, space);
  }
}

}  // namespace

qkvet_status attend_with_flash(const ForwardCall& call, qkvet_context* context,
                               qkvet_text* why) {
  if (call.queries == 0) {
    return QKVET_OK;
  }
  const int64_t keys = call.in_reach(call.queries - 1).end;
  const int64_t packed = one_block(call) ? std::min(keys, kTileKeys) : keys;
  FlashWorkspace space;
  if (!make_workspace(call, packed, context, &space)) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory to pack the keys");
  }
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t kv = 0; kv < call.kv_heads; ++kv) {
      if (call.storage == Storage::kF32) {
        compute_kv_head(call, call, b, kv, keys, space);
      } else {
        compute_kv_head(call, call.half, b, kv, keys, space);
      }
    }
  }
  return QKVET_OK;
}

namespace {

// A piece that is already in f32, for any storage type of the caller.
qkvet_status compute_f32(const ForwardCall& call, qkvet_context* context,
                         qkvet_text* why) {
  ForwardCall piece = call;
  piece.storage = Storage::kF32;
  return attend_with_flash(piece, context, why);
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  if (context == nullptr) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "open() has not succeeded");
  }
  ForwardCall call;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_forward(self, args, &call, why));
  if (call.options.rope.present()) {
    return compute_in_f32(call, ComputeIn{compute_f32, context}, why);
  }
  return compute_members(call, why, [&](const ForwardCall& member) {
    return attend_with_flash(member, context, why);
  });
}

// Each sequence is packed and computed alone.
constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c =
      with_paths(kAllListsCapabilities, {{QKVET_AXIS_TK, kTileKeys},
                                         {QKVET_AXIS_TK, kPanel},
                                         {QKVET_AXIS_TQ, kMicroRows},
                                         {QKVET_AXIS_TQ, kBlockRows},
                                         {QKVET_AXIS_DV, kPanel}});
  c.flags |= QKVET_FLAG_BATCH_MATES_INVARIANT;
  return c;
}();

constexpr qkvet_kernel make() {
  qkvet_kernel kernel = plain_kernel(
      "avx2/flash", "tiled online softmax on AVX2 and FMA, packed K and V",
      {"impl/avx2/flash.cpp", __LINE__}, &kFlashPrecision, forward,
      &kCapabilities);
  kernel.open = open;
  kernel.close = close;
  kernel.backward = &kBackwardTable<PlainBackward, gradient_on_avx2>;
  return kernel;
}

}  // namespace

extern constinit const qkvet_kernel avx2_flash = make();

}  // namespace qkvet::impl
