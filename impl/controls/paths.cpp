// SPDX-License-Identifier: Apache-2.0
// Controls that choose between two correct paths by something outside the
// formula of a row: other rows and heads, padding, shapes, addresses, requested
// outputs. Each is deterministic, and within its bound on either path; none
// claims an invariance that it violates.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>

#include "impl/call/in_f32.h"
#include "impl/call/scratch.h"
#include "impl/call/tensor_view.h"
#include "impl/controls/control.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/option_hooks.h"

namespace qkvet::impl {
namespace {

constexpr Arithmetic kInOrder = {};
constexpr Arithmetic kInLanes = {.lanes = 8, .fma = true, .reciprocal = true};
constexpr Arithmetic kInTiles = {.tile = 16};
constexpr Arithmetic kDividedFirst = {.norm_first = true};
constexpr Arithmetic kInParts = {.parts = 4, .merge = Merge::kMlo};
constexpr Arithmetic kScoresInF16 = {.scores = Storage::kF16};

// ---- Which way -------------------------------------------------------------

// The largest magnitude of a tensor of rank 4 and f32; skips NaN.
float largest(const qkvet_tensor& t) {
  const View<const float> view = view_of<const float>(t);
  float most = 0;
  for (int64_t b = 0; b < t.shape[0]; ++b) {
    for (int64_t h = 0; h < t.shape[1]; ++h) {
      for (int64_t i = 0; i < t.shape[2]; ++i) {
        for (int64_t c = 0; c < t.shape[3]; ++c) {
          most = std::fmax(most, std::fabs(view.at(b, h, i)[c * view.step[3]]));
        }
      }
    }
  }
  return most;
}

// One check of the range of all keys, including unseen ones.
bool has_large_keys(const qkvet_forward_args& args) {
  return largest(args.k) > 8;
}

bool has_large_values(const qkvet_forward_args& args) {
  return largest(args.v) > 16;
}

// Decoding, or a scale that need not be multiplied.
bool is_special(const qkvet_forward_args& args) {
  return args.q.shape[2] == 1 ||
         (args.scale_given != 0 && (args.scale == 1 || args.scale < 0));
}

template <uintptr_t kBytes, qkvet_tensor qkvet_forward_args::*kTensor>
bool is_aligned(const qkvet_forward_args& args) {
  return reinterpret_cast<uintptr_t>(first_element(args.*kTensor)) % kBytes ==
         0;
}

using Choice = bool (*)(const qkvet_forward_args& args);

template <Choice kChoice, const Arithmetic& kYes, const Arithmetic& kNo>
qkvet_status forward_by(const qkvet_kernel* self, qkvet_context* context,
                        const qkvet_forward_args* args, const qkvet_exec* exec,
                        qkvet_text* why) {
  qkvet_forward_args known = {};
  QKVET_TRY(supports_forward(self, args, why));
  QKVET_TRY(read_struct(args, &known, why));
  return forward_as(kChoice(known) ? kYes : kNo, self, context, args, exec,
                    why);
}

constexpr qkvet_capabilities claiming(qkvet_capabilities c, uint64_t flags) {
  c.flags = (c.flags & ~kOwnClaims) | flags;
  return c;
}

// Few knobs are declared: two ways of computing have two precisions.
constexpr qkvet_precision kNothingDeclared = [] {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.preset = QKVET_PRECISION_GENERIC;
  p.declared = QKVET_KNOB_P_DTYPE;  // f32
  return p;
}();

template <ForwardFunction kForward, const qkvet_capabilities& kCapabilities>
constexpr qkvet_kernel kTwoWays = kernel_of(kForward, &kNothingDeclared,
                                            &kCapabilities);

constexpr qkvet_capabilities kOwnRowsAlone =
    claiming(kAllF32Capabilities, QKVET_FLAG_OTHER_DATA_INVARIANT);
constexpr qkvet_capabilities kNoClaims = claiming(kAllF32Capabilities, 0);
constexpr qkvet_capabilities kAnyLayout =
    claiming(kAllF32Capabilities, kOwnClaims | QKVET_FLAG_LAYOUT_INVARIANT);

// Scores too large for f16 are infinite on one path and finite on the
// other.
constexpr qkvet_precision kScoresInF16Declared = [] {
  qkvet_precision p = kNothingDeclared;
  p.declared |= QKVET_KNOB_SCORE_DTYPE;
  p.score_dtype = kF16;
  return p;
}();
constexpr qkvet_capabilities kF32AndF16 =
    claiming(capabilities_with(kAllOptions, {kF32, kF16}),
             QKVET_FLAG_OTHER_DATA_INVARIANT);

// ---- Lengths

// Keys in parts where a sequence is long: by its own keys alone.
template <class Hooks>
struct RowsByOwnKeys : OptionRows<Hooks> {
  using typename OptionRows<Hooks>::Memory;

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    if (call.keys <= kLongFrom) {
      OptionRows<Hooks>::row(call, at, memory);
      return;
    }
    typename SplitRows<SplitHooks>::Memory split = {memory->weights,
                                                    memory->max};
    SplitRows<SplitHooks>::row(call, at, &split);
  }
  static constexpr int64_t kLongFrom = 4;
};

constexpr qkvet_capabilities kBatchChangesNothing = claiming(
    kF32With<kAllOptions & ~QKVET_OPTION_ROPE>,
    kOwnClaims | QKVET_FLAG_BATCH_INVARIANT | QKVET_FLAG_BATCH_MATES_INVARIANT);

// ---- Dropout, and requests -------------------------------------------------

// Dropout has a kernel of its own; with p = 0 and no requested mask the usual
// one runs.
qkvet_status forward_by_mask(const qkvet_kernel* self, qkvet_context* context,
                             const qkvet_forward_args* args,
                             const qkvet_exec* exec, qkvet_text* why) {
  qkvet_forward_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  if (known.dropout_p != 0 || !is_absent(known.dropout_mask)) {
    return OptionsKernel<OptionHooks>::forward(self, context, args, exec, why);
  }
  return forward_as(kInLanes, self, context, args, exec, why);
}

// In parts on every other call, unless the same bits are requested.
qkvet_status forward_as_asked(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
  static std::atomic<uint32_t> calls = 0;
  const bool is_odd = calls++ % 2 == 1;
  return forward_as(exec->deterministic == 0 && is_odd ? kInParts : kInTiles,
                    self, context, args, exec, why);
}

// ---- Four rows together ----------------------------------------------------

constexpr int64_t kRowsOfTile = 4;
constexpr int64_t kKeysOfTile = 16;

using Pairs = OptionRowBase<OptionHooks>;

struct Lane {
  RowAt at = {};
  float max = -kInfinity;
  float top = -kInfinity;
  float sum = 0;
  bool seen = false;
  float scores[kKeysOfTile] = {};
  bool sees[kKeysOfTile] = {};
  float* acc = nullptr;  // [dv]
};

// Scores of keys [first, last).
void score_tile(const ForwardCall& call, int64_t first, int64_t last,
                Lane* lane) {
  lane->top = lane->max;
  for (int64_t j = first; j < last; ++j) {
    lane->sees[j - first] = Pairs::sees(call, lane->at, j);
    if (lane->sees[j - first]) {
      lane->seen = true;
      lane->scores[j - first] = Pairs::score(call, lane->at, j);
      lane->top = std::fmax(lane->top, lane->scores[j - first]);
    }
  }
}

void raise(const ForwardCall& call, Lane* lane) {
  if (!(lane->top > lane->max)) {
    return;
  }
  const float by = std::exp(lane->max - lane->top);  // 0 before all keys
  lane->sum *= by;
  for (int64_t c = 0; c < call.value_width; ++c) {
    lane->acc[c] *= by;
  }
  lane->max = lane->top;
}

void absorb_tile(const ForwardCall& call, int64_t first, int64_t last,
                 Lane* lane) {
  for (int64_t j = first; j < last; ++j) {
    if (lane->sees[j - first]) {
      const float s = lane->scores[j - first];
      const float p = s == -kInfinity ? 0 : std::exp(s - lane->max);
      lane->sum += p;
      add_value(call, lane->at, j, p, lane->acc);
    }
  }
}

// One vote for all rows of the tile: if one of them needs rescaling, all are
// rescaled.
void attend_rows_together(const ForwardCall& call, RowAt at, float* memory) {
  const int64_t rows = std::min(kRowsOfTile, call.queries - at.i);
  Lane lanes[kRowsOfTile];
  std::fill_n(memory, rows * call.value_width, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    lanes[r].at = {at.b, at.h, at.i + r};
    lanes[r].acc = memory + r * call.value_width;
  }
  for (int64_t first = 0; first < call.keys; first += kKeysOfTile) {
    const int64_t last = std::min(first + kKeysOfTile, call.keys);
    bool vote = false;
    for (int64_t r = 0; r < rows; ++r) {
      score_tile(call, first, last, &lanes[r]);
      vote = vote || lanes[r].top - lanes[r].max > kLag;
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (vote) {
        raise(call, &lanes[r]);
      }
      absorb_tile(call, first, last, &lanes[r]);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const Lane& lane = lanes[r];
    write_sums(call, lane.at, lane.seen, lane.acc, lane.sum,
               lane.max + std::log(lane.sum));
  }
}

qkvet_status compute_together(const ForwardCall& call, qkvet_text* why) {
  std::unique_ptr<float[]> memory;
  QKVET_TRY(allocate(kRowsOfTile * call.value_width, &memory, why,
                     "no memory for four rows"));
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      for (int64_t row = 0; row < call.queries; row += kRowsOfTile) {
        attend_rows_together(call, {b, h, row}, memory.get());
      }
    }
  }
  return QKVET_OK;
}

constexpr uint64_t kPlainPairs =
    kCommonOptions | QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
    QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED | QKVET_OPTION_EMPTY_EXTENTS;
constexpr qkvet_capabilities kPlainPairsScaledAlike =
    claiming(capabilities_with(kPlainPairs, {kF32, kF16, kBf16}),
             QKVET_FLAG_POWER_OF_TWO_INVARIANT);
constexpr Arithmetic kLazyTiles = {.tile = 16, .lag = kLag};

// ---- Keys without their mean -----------------------------------------------

// Softmax does not change when all scores of a row shift. In double, so no
// digit is lost if the mean is far from 0.
void attend_centred(const ForwardCall& call, RowAt at, const double* centre,
                    double* scores, float* acc) {
  const float* const q = call.q.at(at.b, at.h, at.i);
  const Run run = call.in_reach(at.i);
  double max = -double{kInfinity}, moved = 0;
  for (int64_t c = 0; c < call.width; ++c) {
    moved += double{q[c * call.q.step[3]]} * centre[c];
  }
  bool any = false;
  for (int64_t j = run.begin; j < run.end; ++j) {
    if (Pairs::sees(call, at, j)) {
      const float* const k = call.k.at(at.b, at.h / call.group(), j);
      double dot = 0;
      for (int64_t c = 0; c < call.width; ++c) {
        dot += double{q[c * call.q.step[3]]} *
               (double{k[c * call.k.step[3]]} - centre[c]);
      }
      scores[j] = dot * double{call.scale};
      max = std::fmax(max, scores[j]);
      any = true;
    }
  }
  float sum = 0;
  std::fill_n(acc, call.value_width, 0.0f);
  for (int64_t j = run.begin; j < run.end; ++j) {
    if (Pairs::sees(call, at, j)) {
      const float p = std::exp(static_cast<float>(scores[j] - max));
      sum += p;
      add_value(call, at, j, p, acc);
    }
  }
  const double lse = max + std::log(double{sum}) + double{call.scale} * moved;
  write_sums(call, at, any, acc, sum, static_cast<float>(lse));
}

qkvet_status compute_centred(const ForwardCall& call, qkvet_text* why) {
  std::unique_ptr<double[]> doubles;
  std::unique_ptr<float[]> acc;
  QKVET_TRY(allocate(call.keys + call.width, &doubles, why));
  QKVET_TRY(allocate(call.value_width, &acc, why));
  double* const centre = doubles.get() + call.keys;
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      for (int64_t c = 0; c < call.width; ++c) {
        centre[c] = 0;
        for (int64_t j = 0; j < call.keys; ++j) {
          centre[c] +=
              double{call.k.at(b, h / call.group(), j)[c * call.k.step[3]]} /
              static_cast<double>(call.keys);
        }
      }
      for (int64_t i = 0; i < call.queries; ++i) {
        attend_centred(call, {b, h, i}, centre, doubles.get(), acc.get());
      }
    }
  }
  return QKVET_OK;
}

constexpr qkvet_dialect kMeanOfAllKeys = [] {
  qkvet_dialect d = options_dialect();
  d.masked_nonfinite = QKVET_MASKED_NOT_IGNORED;
  return d;
}();

}  // namespace

QKVET_CONTROL(
    range_check, "another path where any key is large",
    kTwoWays<forward_by<has_large_keys, kInOrder, kInLanes>, kNoClaims>);

QKVET_CONTROL(
    value_check, "weights are divided first where any value is large",
    kTwoWays<forward_by<has_large_values, kDividedFirst, kInOrder>, kNoClaims>);

// Decoding in parts, and scales that need no multiplication.
QKVET_CONTROL(
    path_by_call,
    "another path for one query, for a scale of 1 and one below 0",
    kTwoWays<forward_by<is_special, kInParts, kInTiles>, kOwnRowsAlone>);

QKVET_CONTROL(path_by_address, "lanes where k is aligned to them",
              kTwoWays<forward_by<is_aligned<32, &qkvet_forward_args::k>,
                                  kInLanes, kInOrder>,
                       kAnyLayout>);

QKVET_CONTROL(f16_scores_where_aligned,
              "scores stored in f16 where q is aligned, and in f32 elsewhere",
              kTwoWays<forward_by<is_aligned<64, &qkvet_forward_args::q>,
                                  kScoresInF16, kInOrder>,
                       kF32AndF16>,
              &qkvet_kernel::precision, &kScoresInF16Declared);

QKVET_CONTROL(deterministic_where_asked,
              "another path every other time, unless the same bits are wanted",
              kTwoWays<forward_as_asked, kOwnRowsAlone>);

QKVET_CONTROL(split_by_own_length, "keys in two parts in long sequences alone",
              kernel_of(OptionsKernel<OptionHooks, RowsByOwnKeys>::forward,
                        &kNothingDeclared, &kBatchChangesNothing));

QKVET_CONTROL(
    dropout_path, "another path where a mask is returned",
    kTwoWays<forward_by_mask, kF32With<kAllOptions | kDropoutOptions>>);

QKVET_CONTROL(tile_vote, "four rows are rescaled when one of them has to be",
              kernel_of(forward_in_f32<compute_together>,
                        &kDeclaredPrecision<kLazyTiles>,
                        &kPlainPairsScaledAlike));

QKVET_CONTROL(keys_centred, "keys less the mean of all keys of the head",
              kernel_of(forward_in_f32<compute_centred>,
                        &kDeclaredPrecision<kInOrder>, &kPlainPairsScaledAlike),
              &qkvet_kernel::dialect, &kMeanOfAllKeys);

}  // namespace qkvet::impl
