// SPDX-License-Identifier: Apache-2.0
// Each fault is one class that hides one hook, and one row of kRows.
#include "reference/seeded/seeded_gradient.h"

#include <array>

#include "reference/gradient/plain_gradient.h"
#include "reference/gradient/twin_gradient.h"

namespace qkvet::reference {
namespace {

struct DeltaMissing : PlainGradientHooks {
  static double delta(const double* /*g*/, const double* /*o*/,
                      int64_t /*dv*/) {
    return 0;
  }
};

struct KeyScaleMissing : PlainGradientHooks {
  static double key_scale(const Problem& /*problem*/) { return 1; }
};

struct HeadModulo : PlainGradientHooks {
  static int64_t kv_head(const Shape& shape, int64_t h) {
    return h % shape.Hkv;
  }
};

struct MaskIgnored : PlainGradientHooks {
  static bool attends(uint8_t /*mask*/) { return true; }
};

struct CapSlopeLost : PlainGradientHooks {
  static double cap_slope(const Problem& /*problem*/, double /*capped*/) {
    return 1;
  }
};

struct LastRowKept : PlainGradientHooks {
  static void collect(double& sum, double term) { sum = term; }
};

struct SinkOfKeys : PlainGradientHooks {
  static double sink_share(const Problem& problem, int64_t h, double lse) {
    return std::exp(problem.sink[h] - lse);
  }
};

struct NotTurnedBack : PlainGradientHooks {
  static std::vector<double> turned_back(const Rotation&,
                                         const RopeRows& rows) {
    return {rows.data, rows.data + rows.B * rows.heads * rows.rows * rows.d};
  }
};

struct QueryScaleMissing : TwinGradientHooks {
  static double query_scale(const Problem& /*problem*/) { return 1; }
};

struct MomentNotRescaled : TwinGradientHooks {
  static DoubleDouble rescale_moment(DoubleDouble sum,
                                     DoubleDouble /*factor*/) {
    return sum;
  }
};

struct SinkSignLost : TwinGradientHooks {
  static DoubleDouble sink_term(DoubleDouble p, DoubleDouble delta) {
    return p * delta;
  }
};

struct LastRowDropped : TwinGradientHooks {
  static int64_t rows_end(const Shape& shape) { return shape.Tq - 1; }
};

struct HeadsInterleaved : TwinGradientHooks {
  static int64_t query_head(const Shape& shape, int64_t kv_head,
                            int64_t member) {
    return member * shape.Hkv + kv_head;
  }
};

struct OffsetOutsideCap : TwinGradientHooks {
  static bool offset_in_cap(const Problem& /*problem*/) { return false; }
};

struct SlopeNotSquared : TwinGradientHooks {
  static DoubleDouble cap_slope(DoubleDouble x) {
    const DoubleDouble e = dd_exp(x.hi < 0 ? x : -x);
    return times_power_of_two(e, 1) / (DoubleDouble(1.0) + e * e);
  }
};

struct TurnedForth : TwinGradientHooks {
  static DoubleDouble across_key(DoubleDouble x) { return -x; }
};

struct Row {
  std::string_view name;
  GradientOutput (*backward)(const GradientProblem&);
};

// In the order of SeededGradientFault.
constexpr std::array<Row, kSeededGradientFaultCount> kRows = {{
    {"plain_delta_missing", plain_backward_with<DeltaMissing>},
    {"plain_key_scale_missing", plain_backward_with<KeyScaleMissing>},
    {"plain_head_modulo", plain_backward_with<HeadModulo>},
    {"plain_mask_ignored", plain_backward_with<MaskIgnored>},
    {"plain_cap_slope_lost", plain_backward_with<CapSlopeLost>},
    {"plain_last_row_kept", plain_backward_with<LastRowKept>},
    {"plain_sink_of_keys", plain_backward_with<SinkOfKeys>},
    {"plain_not_turned_back", plain_backward_with<NotTurnedBack>},
    {"twin_query_scale_missing", twin_backward_with<QueryScaleMissing>},
    {"twin_moment_not_rescaled", twin_backward_with<MomentNotRescaled>},
    {"twin_sink_sign_lost", twin_backward_with<SinkSignLost>},
    {"twin_last_row_dropped", twin_backward_with<LastRowDropped>},
    {"twin_heads_interleaved", twin_backward_with<HeadsInterleaved>},
    {"twin_offset_outside_cap", twin_backward_with<OffsetOutsideCap>},
    {"twin_slope_not_squared", twin_backward_with<SlopeNotSquared>},
    {"twin_turned_forth", twin_backward_with<TurnedForth>},
}};

const Row& row(SeededGradientFault fault) {
  return kRows[static_cast<size_t>(fault)];
}

}  // namespace

std::string_view seeded_gradient_fault_name(SeededGradientFault fault) {
  return row(fault).name;
}

bool seeded_in_plain(SeededGradientFault fault) {
  return fault < SeededGradientFault::kTwinQueryScaleMissing;
}

GradientOutput seeded_backward(SeededGradientFault fault,
                               const GradientProblem& problem) {
  return row(fault).backward(problem);
}

}  // namespace qkvet::reference
