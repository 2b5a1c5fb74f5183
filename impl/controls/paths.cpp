// SPDX-License-Identifier: Apache-2.0
// Controls that choose between two correct paths by something outside the
// formula of a row: other rows and heads, padding, shapes, addresses, requested
// outputs. Each is deterministic, and within its bound on either path; none
// claims an invariance that it violates.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>

#include "impl/abi/in_f32.h"
#include "impl/abi/tensor_view.h"
#include "impl/controls/control.h"
#include "impl/skeletons/hooks.h"
#include "impl/skeletons/options_kernel.h"

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

bool is_aligned(const qkvet_forward_args& args) {
  return reinterpret_cast<uintptr_t>(first_element(args.k)) % 32 == 0;
}

bool has_aligned_queries(const qkvet_forward_args& args) {
  return reinterpret_cast<uintptr_t>(first_element(args.q)) % 64 == 0;
}

using Choice = bool (*)(const qkvet_forward_args& args);

template <Choice kChoice, const Arithmetic& kYes, const Arithmetic& kNo>
qkvet_status forward_by(const qkvet_kernel* self, qkvet_context* context,
                        const qkvet_forward_args* args, const qkvet_exec* exec,
                        qkvet_text* why) {
  qkvet_forward_args known = {};
  qkvet_status status = supports_forward(self, args, why);
  status = status == QKVET_OK ? read_struct(args, &known, why) : status;
  if (status != QKVET_OK) {
    return status;
  }
  qkvet_kernel chosen = *self;
  chosen.user = const_cast<Arithmetic*>(kChoice(known) ? &kYes : &kNo);
  return kRowForward<Controlled>(&chosen, context, args, exec, why);
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

constexpr qkvet_kernel two_ways(const char* name, const char* description,
                                Place place, ForwardFunction forward,
                                const qkvet_capabilities* capabilities) {
  return plain_kernel(name, description, place, &kNothingDeclared, forward,
                      capabilities);
}

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

// ---- Dropout ---------------------------------------------------------------

constexpr qkvet_capabilities kDropoutAlone =
    capabilities_with(kAllOptions | kDropoutOptions, {kF32});

// Dropout has a kernel of its own; with p = 0 and no requested mask the usual
// one runs.
qkvet_status forward_by_mask(const qkvet_kernel* self, qkvet_context* context,
                             const qkvet_forward_args* args,
                             const qkvet_exec* exec, qkvet_text* why) {
  qkvet_forward_args known = {};
  const qkvet_status status = read_struct(args, &known, why);
  if (status != QKVET_OK) {
    return status;
  }
  if (known.dropout_p != 0 || !is_absent(known.dropout_mask)) {
    return OptionsKernel<OptionHooks>::forward(self, context, args, exec, why);
  }
  qkvet_kernel usual = *self;
  usual.user = const_cast<Arithmetic*>(&kInLanes);
  return kRowForward<Controlled>(&usual, context, args, exec, why);
}

// ---- Four rows together ----------------------------------------------------

constexpr int64_t kRowsOfTile = 4;
constexpr int64_t kKeysOfTile = 16;

struct Lane {
  float max = -kInfinity;
  float top = -kInfinity;
  float sum = 0;
  float scores[kKeysOfTile] = {};
  bool sees[kKeysOfTile] = {};
  float* acc = nullptr;  // [dv]
};

// Scores of keys [first, last) that row i sees.
void score_tile(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                int64_t first, int64_t last, Lane* lane) {
  const float* const q = call.q.at(b, h, i);
  const Run run = call.in_reach(i);
  lane->top = lane->max;
  for (int64_t j = first; j < last; ++j) {
    lane->sees[j - first] =
        j >= run.begin && j < run.end && call.options.allows(b, h, i, j);
    if (!lane->sees[j - first]) {
      continue;
    }
    const float* const k = call.k.at(b, h / call.group(), j);
    float sum = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      sum += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    lane->scores[j - first] = sum * call.scale;
    lane->top = std::fmax(lane->top, lane->scores[j - first]);
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

void absorb_tile(const ForwardCall& call, int64_t b, int64_t kv, int64_t first,
                 int64_t last, Lane* lane) {
  for (int64_t j = first; j < last; ++j) {
    if (!lane->sees[j - first]) {
      continue;
    }
    const float s = lane->scores[j - first];
    const float p = s == -kInfinity ? 0 : std::exp(s - lane->max);
    const float* const v = call.v.at(b, kv, j);
    lane->sum += p;
    for (int64_t c = 0; c < call.value_width; ++c) {
      lane->acc[c] += p * v[c * call.v.step[3]];
    }
  }
}

void write_lane(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                bool seen, const Lane& lane) {
  float* const o = call.o.at(b, h, i);
  for (int64_t c = 0; c < call.value_width; ++c) {
    o[c * call.o.step[3]] = seen ? lane.acc[c] / lane.sum : 0;
  }
  if (call.lse.data != nullptr) {
    *call.lse.at(b, h, i) = seen ? lane.max + std::log(lane.sum) : -kInfinity;
  }
}

// One vote for all rows of the tile: if one of them needs rescaling, all are
// rescaled.
void attend_rows_together(const ForwardCall& call, int64_t b, int64_t h,
                          int64_t row, float* memory) {
  const int64_t rows =
      call.queries - row < kRowsOfTile ? call.queries - row : kRowsOfTile;
  Lane lanes[kRowsOfTile];
  bool seen[kRowsOfTile] = {};
  for (int64_t r = 0; r < rows; ++r) {
    lanes[r].acc = memory + r * call.value_width;
    for (int64_t c = 0; c < call.value_width; ++c) {
      lanes[r].acc[c] = 0;
    }
  }
  for (int64_t first = 0; first < call.keys; first += kKeysOfTile) {
    const int64_t last =
        first + kKeysOfTile < call.keys ? first + kKeysOfTile : call.keys;
    bool vote = false;
    for (int64_t r = 0; r < rows; ++r) {
      score_tile(call, b, h, row + r, first, last, &lanes[r]);
      vote = vote || lanes[r].top - lanes[r].max > kLag;
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (vote) {
        raise(call, &lanes[r]);
      }
      absorb_tile(call, b, h / call.group(), first, last, &lanes[r]);
      for (int64_t j = first; j < last; ++j) {
        seen[r] = seen[r] || lanes[r].sees[j - first];
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    write_lane(call, b, h, row + r, seen[r], lanes[r]);
  }
}

qkvet_status compute_together(const ForwardCall& call, qkvet_text* why) {
  const std::unique_ptr<float[]> memory(new (
      std::nothrow) float[static_cast<size_t>(kRowsOfTile * call.value_width)]);
  if (memory == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for four rows");
  }
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      for (int64_t row = 0; row < call.queries; row += kRowsOfTile) {
        attend_rows_together(call, b, h, row, memory.get());
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
void attend_centred(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                    const double* centre, double* scores, float* acc) {
  const float* const q = call.q.at(b, h, i);
  const int64_t kv = h / call.group();
  const Run run = call.in_reach(i);
  const auto sees = [&](int64_t j) { return call.options.allows(b, h, i, j); };
  double max = -double{kInfinity}, moved = 0;
  for (int64_t c = 0; c < call.width; ++c) {
    moved += double{q[c * call.q.step[3]]} * centre[c];
  }
  for (int64_t c = 0; c < call.value_width; ++c) {
    acc[c] = 0;
  }
  for (int64_t j = run.begin; j < run.end; ++j) {
    const float* const k = call.k.at(b, kv, j);
    double dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += double{q[c * call.q.step[3]]} *
             (double{k[c * call.k.step[3]]} - centre[c]);
    }
    scores[j] = dot * double{call.scale};
    max = sees(j) ? std::fmax(max, scores[j]) : max;
  }
  float sum = 0;
  bool any = false;
  for (int64_t j = run.begin; j < run.end; ++j) {
    if (!sees(j)) {
      continue;
    }
    any = true;
    const float p = std::exp(static_cast<float>(scores[j] - max));
    const float* const v = call.v.at(b, kv, j);
    sum += p;
    for (int64_t c = 0; c < call.value_width; ++c) {
      acc[c] += p * v[c * call.v.step[3]];
    }
  }
  float* const o = call.o.at(b, h, i);
  for (int64_t c = 0; c < call.value_width; ++c) {
    o[c * call.o.step[3]] = any ? acc[c] / sum : 0;
  }
  if (call.lse.data != nullptr) {
    const double lse = max + std::log(double{sum}) + double{call.scale} * moved;
    *call.lse.at(b, h, i) = any ? static_cast<float>(lse) : -kInfinity;
  }
}

qkvet_status compute_centred(const ForwardCall& call, qkvet_text* why) {
  const std::unique_ptr<double[]> doubles(
      new (std::nothrow) double[static_cast<size_t>(call.keys + call.width)]);
  const std::unique_ptr<float[]> acc(
      new (std::nothrow) float[static_cast<size_t>(call.value_width)]);
  if (doubles == nullptr || acc == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
  }
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
        attend_centred(call, b, h, i, centre, doubles.get(), acc.get());
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

QKVET_CONTROL(range_check) = two_ways(
    "controls/range_check", "another path where any key is large", QKVET_PLACE,
    forward_by<has_large_keys, kInOrder, kInLanes>, &kNoClaims);

QKVET_CONTROL(value_check) =
    two_ways("controls/value_check",
             "weights are divided first where any value is large", QKVET_PLACE,
             forward_by<has_large_values, kDividedFirst, kInOrder>, &kNoClaims);

// Decoding in parts, and scales that need no multiplication.
QKVET_CONTROL(path_by_call) = two_ways(
    "controls/path_by_call",
    "another path for one query, for a scale of 1 and one below 0", QKVET_PLACE,
    forward_by<is_special, kInParts, kInTiles>, &kOwnRowsAlone);

QKVET_CONTROL(path_by_address) = two_ways(
    "controls/path_by_address", "lanes where k is aligned to them", QKVET_PLACE,
    forward_by<is_aligned, kInLanes, kInOrder>, &kAnyLayout);

QKVET_CONTROL(f16_scores_where_aligned) = plain_kernel(
    "controls/f16_scores_where_aligned",
    "scores stored in f16 where q is aligned, and in f32 elsewhere",
    QKVET_PLACE, &kScoresInF16Declared,
    forward_by<has_aligned_queries, kScoresInF16, kInOrder>, &kF32AndF16);

// In parts on every other call, unless the same bits are requested.
bool is_other_time(const qkvet_exec* exec) {
  static std::atomic<uint32_t> calls = 0;
  const bool is_odd = calls++ % 2 == 1;
  return exec->deterministic == 0 && is_odd;
}

qkvet_status forward_as_asked(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
  qkvet_kernel chosen = *self;
  chosen.user =
      const_cast<Arithmetic*>(is_other_time(exec) ? &kInParts : &kInTiles);
  return kRowForward<Controlled>(&chosen, context, args, exec, why);
}

QKVET_CONTROL(deterministic_where_asked) =
    two_ways("controls/deterministic_where_asked",
             "another path every other time, unless the same bits are wanted",
             QKVET_PLACE, forward_as_asked, &kOwnRowsAlone);

QKVET_CONTROL(dropout_path) = two_ways("controls/dropout_path",
                                       "another path where a mask is returned",
                                       QKVET_PLACE, forward_by_mask,
                                       &kDropoutAlone);

QKVET_CONTROL(tile_vote) = plain_kernel(
    "controls/tile_vote", "four rows are rescaled when one of them has to be",
    QKVET_PLACE, &kDeclaredPrecision<kLazyTiles>,
    forward_in_f32<compute_together>, &kPlainPairsScaledAlike);

QKVET_CONTROL(keys_centred) = [] {
  qkvet_kernel kernel = plain_kernel(
      "controls/keys_centred", "keys less the mean of all keys of the head",
      QKVET_PLACE, &kDeclaredPrecision<kInOrder>,
      forward_in_f32<compute_centred>, &kPlainPairsScaledAlike);
  kernel.dialect = &kMeanOfAllKeys;
  return kernel;
}();

}  // namespace qkvet::impl
