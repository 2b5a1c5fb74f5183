// SPDX-License-Identifier: Apache-2.0
// The second plain, correct kernel with named seams: it takes every option, and
// each decision that an option asks for is one seam. A fault is a class that
// derives from OptionSeams and replaces one of them.
//
//   member       what of a call is one member       -> rows, keys, diagonal
//   share        what the threads compute           -> rows, keys
//   QueryTurn, KeyTurn   how q and k are rotated    -> scores
//   query        the row of q that is read          -> scores
//   kv_head      the head of k and v that is read   -> scores, values
//   in_reach     causal rule and window             -> which keys are seen
//   allows       mask                               -> which keys are seen
//   capped       softcap                            -> scores
//   biased       bias                               -> scores
//   distance     what ALiBi multiplies              -> scores
//   tilted       ALiBi                              -> scores
//   sink         the score of the sink              -> denominator
//   first_max    where the maximum begins           -> weights
//   weight       the weight of a key                -> denominator, values
//   denominator  what the sums are divided by       -> values, lse
//   first_value  where a sum of values begins       -> values
//   value        how an element of V is read        -> values
//   adds_hidden  whether hidden keys reach a sum    -> values
//   lse          what is returned of the sums       -> lse
//   empty_row, empty_lse   of a row without keys    -> values, lse
//
// Without options it gives the bits of seams.h; its arithmetic is the same, and
// the sink comes first in every sum. f32 only.
//
// Contract: any strides, addresses aligned to elements; stays inside its
// tensors, as every fault does too.
#ifndef QKVET_IMPL_FAULTY_OPTION_SEAMS_H_
#define QKVET_IMPL_FAULTY_OPTION_SEAMS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "impl/declare.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/seams.h"
#include "impl/forward_view.h"
#include "impl/in_f32.h"
#include "impl/members.h"

namespace qkvet::impl {

struct RowAt {
  int64_t b, h, i;
};

// Rotates a token by its row, whatever its position is.
struct TurnByRow : PlainTurn {
  static int64_t position(const View<const int64_t>&, int64_t, int64_t t) {
    return t;
  }
};

struct OptionSeams {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();

  // *member is right; `whole` is the call that it was cut out of.
  static void member(const ForwardCall& /*whole*/, int64_t /*n*/,
                     ForwardCall* /*member*/) {}
  // *call is all of a member; `threads` may divide it.
  static void share(int64_t /*threads*/, ForwardCall* /*call*/) {}
  using QueryTurn = PlainTurn;
  using KeyTurn = PlainTurn;
  static RowAt query(const ForwardCall&, RowAt at) { return at; }
  // b and h of the result count.
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, at.h / call.group(), 0};
  }
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end;
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.allows(at.b, at.h, at.i, j);
  }
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? cap * std::tanh(s / cap) : s;
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present() ? s + bias.get(at.b, at.h, at.i, j) : s;
  }
  static float distance(const ForwardCall& call, int64_t i, int64_t j) {
    return std::fabs(static_cast<float>(call.position(i) - j));
  }
  static float tilted(float s, float slope, float distance) {
    return slope != 0 ? s - slope * distance : s;
  }
  // -infinity: none.
  static float sink(const ForwardCall& call, int64_t h) {
    return call.options.sink_of(h);
  }
  // `carried` is the maximum of the row before, in the order of the walk.
  static float first_max(float sink, float /*carried*/) { return sink; }
  static float weight(const ForwardCall&, int64_t /*j*/, float weight) {
    return weight;
  }
  // Of `seen` keys.
  static float denominator(float sum, float /*max*/, int64_t /*seen*/) {
    return sum;
  }
  static float first_value() { return 0; }
  static float value(float v) { return v; }
  static bool adds_hidden() { return false; }
  static float lse(float max, float sum, float /*sink*/) {
    return max + std::log(sum);
  }
  static float empty_row() { return 0; }
  static float empty_lse() { return kNone; }
};

inline int64_t threads_of(const qkvet_exec* exec) {
  qkvet_exec known = {};
  return exec != nullptr && read_struct(exec, &known, nullptr) == QKVET_OK
             ? known.threads
             : 1;
}

template <class Seams>
struct OptionsKernel {
  struct Memory {
    float* weights;  // [Tk]
    float max;       // of the last row
  };

  static bool sees(const ForwardCall& call, RowAt at, int64_t j) {
    return Seams::in_reach(call, at.i, j) && Seams::allows(call, at, j);
  }

  static float score(const ForwardCall& call, RowAt at, int64_t j) {
    const RowAt from = Seams::query(call, at);
    const RowAt kv = Seams::kv_head(call, at);
    const float* const q = call.q.at(from.b, from.h, from.i);
    const float* const k = call.k.at(kv.b, kv.h, j);
    float dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    const float s =
        Seams::biased(call, at, j, Seams::capped(call, dot * call.scale));
    return Seams::tilted(s, call.options.slope_of(at.h),
                         Seams::distance(call, at.i, j));
  }

  // Column c of o.
  static float column(const ForwardCall& call, RowAt at, int64_t c,
                      const float* weights, float denominator) {
    const RowAt kv = Seams::kv_head(call, at);
    float acc = Seams::first_value();
    for (int64_t j = 0; j < call.keys; ++j) {
      if (Seams::adds_hidden() || sees(call, at, j)) {
        acc += weights[j] *
               Seams::value(call.v.at(kv.b, kv.h, j)[c * call.v.step[3]]);
      }
    }
    return acc / denominator;
  }

  // Scores into memory->weights and their maximum into memory->max; returns how
  // many keys are seen.
  static int64_t scores(const ForwardCall& call, RowAt at, Memory* memory) {
    float max = Seams::first_max(Seams::sink(call, at.h), memory->max);
    int64_t seen = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      memory->weights[j] = 0;
      if (sees(call, at, j)) {
        memory->weights[j] = score(call, at, j);
        max = std::fmax(max, memory->weights[j]);
        ++seen;
      }
    }
    memory->max = seen > 0 ? max : memory->max;
    return seen;
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    const int64_t seen = scores(call, at, memory);
    float sum = 0;
    float lse = Seams::empty_lse();
    if (seen > 0) {
      const float max = memory->max;
      const float sink = Seams::sink(call, at.h);
      sum = std::exp(sink - max);
      for (int64_t j = 0; j < call.keys; ++j) {
        if (sees(call, at, j)) {
          float* const weight = memory->weights + j;
          *weight = Seams::weight(call, j, std::exp(*weight - max));
          sum += *weight;
        }
      }
      sum = Seams::denominator(sum, max, seen);
      lse = Seams::lse(max, sum, sink);
    }
    float* const o = call.o.at(at.b, at.h, at.i);
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = seen > 0
                                  ? column(call, at, c, memory->weights, sum)
                                  : Seams::empty_row();
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) = lse;
    }
  }

  static void compute(const ForwardCall& call, Memory* memory) {
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        for (int64_t i = 0; i < call.queries; ++i) {
          row(call, {b, h, i}, memory);
        }
      }
    }
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    ForwardCall call;
    qkvet_status status = check_exec(exec, why);
    status = status == QKVET_OK ? read_forward(self, args, &call, why) : status;
    const bool cut = status == QKVET_OK && call.options.has_lengths();
    status = cut ? check_lengths(call, why) : status;
    status = status == QKVET_OK ? check_positions(call, why) : status;
    if (status != QKVET_OK) {
      return status;
    }
    const std::unique_ptr<float[]> scratch(
        new (std::nothrow) float[static_cast<size_t>(call.keys)]);
    if (scratch == nullptr) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
    }
    Memory memory = {scratch.get(), OptionSeams::kNone};
    const int64_t members = cut ? member_count(call) : 1;
    for (int64_t n = 0; status == QKVET_OK && n < members; ++n) {
      ForwardCall member = cut ? member_of(call, n) : call;
      Seams::member(call, n, &member);
      Seams::share(threads_of(exec), &member);
      status =
          compute_turned<typename Seams::QueryTurn, typename Seams::KeyTurn>(
              member, why, [&memory](const ForwardCall& turned) {
                compute(turned, &memory);
                return QKVET_OK;
              });
    }
    return status;
  }
};

// Those of seams.h, and these QKVET_OPTION_* of kAllOptions, in f32.
template <uint64_t kOptions>
inline constexpr qkvet_capabilities kF32With =
    capabilities_with(kCommonOptions | kOptions, {kF32});

// The kernel of a fault. `fault` must be a constant of static storage. A fault
// declares the options that it lies in and no others, so that few calls are
// wasted on those.
template <class Seams, uint64_t kOptions = 0>
constexpr qkvet_kernel option_fault(const char* name, const qkvet_fault* fault,
                                    Place place) {
  qkvet_kernel kernel =
      plain_kernel(name, fault->mechanism, place, &kSeamsPrecision,
                   OptionsKernel<Seams>::forward, &kF32With<kOptions>);
  kernel.dialect = &kOptionsDialect;
  return with_fault(kernel, fault);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_OPTION_SEAMS_H_
