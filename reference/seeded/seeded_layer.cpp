// SPDX-License-Identifier: Apache-2.0
// Each fault is one class that hides one hook, and one row of kRows.
#include "reference/seeded/seeded_layer.h"

#include <array>

#include "reference/layer/plain_layer.h"
#include "reference/layer/twin_layer.h"

namespace qkvet::reference {
namespace {

struct BiasIgnored : PlainLayerHooks {
  static double bias(const LinearProblem& /*problem*/, int64_t /*j*/) {
    return 0;
  }
};

struct Transposed : PlainLayerHooks {
  static double weight(const LinearProblem& problem, int64_t i, int64_t j) {
    const bool square = problem.in == problem.out;
    return square ? PlainLayerHooks::weight(problem, j, i)
                  : PlainLayerHooks::weight(problem, i, j);
  }
};

struct SplitReshaped : PlainLayerHooks {
  static int64_t split_from(const HeadLayout& layout, int64_t b, int64_t h,
                            int64_t t, int64_t c) {
    return layout.in_heads(b, h, t, c);
  }
};

struct MergeReshaped : PlainLayerHooks {
  static int64_t merge_to(const HeadLayout& layout, int64_t b, int64_t h,
                          int64_t t, int64_t c) {
    return layout.in_heads(b, h, t, c);
  }
};

struct SecondNotTurned : PlainLayerHooks {
  static double second(double /*a*/, double b, double cos, double /*sin*/) {
    return b * cos;
  }
};

struct LastInputDropped : TwinLayerHooks {
  static int64_t last_input(const LinearProblem& problem) {
    return problem.in - 2;
  }
};

struct BiasShifted : TwinLayerHooks {
  static int64_t bias_of(const LinearProblem& problem, int64_t column) {
    return (column + 1) % problem.out;
  }
};

struct ColumnsInterleaved : TwinLayerHooks {
  static int64_t head_column(int64_t heads, int64_t /*width*/, int64_t h,
                             int64_t c) {
    return c * heads + h;
  }
};

struct KeysForValues : TwinLayerHooks {
  static const double* value_matrix(const LayerProblem& problem) {
    const bool alike = problem.shape.d == problem.shape.dv;
    return alike ? problem.w_k : problem.w_v;
  }
};

struct TokensAtFirst : TwinLayerHooks {
  static int64_t position(const LayerProblem& problem, int64_t b,
                          int64_t /*t*/) {
    return TwinLayerHooks::position(problem, b, 0);
  }
};

struct Row {
  std::string_view name;
  bool projection;
  std::vector<double> (*linear)(const LinearProblem&);
  LayerOutput (*layer)(const LayerProblem&);
};

template <class Hooks>
constexpr Row plain_row(std::string_view name, bool projection) {
  return {name, projection, plain_linear_with<Hooks>, plain_layer_with<Hooks>};
}

template <class Hooks>
constexpr Row twin_row(std::string_view name, bool projection) {
  return {name, projection, twin_linear_with<Hooks>, twin_layer_with<Hooks>};
}

// In the order of SeededLayerFault.
constexpr std::array<Row, kSeededLayerFaultCount> kRows = {{
    plain_row<BiasIgnored>("plain_bias_ignored", true),
    plain_row<Transposed>("plain_transposed", true),
    plain_row<SplitReshaped>("plain_split_reshaped", false),
    plain_row<MergeReshaped>("plain_merge_reshaped", false),
    plain_row<SecondNotTurned>("plain_second_not_turned", false),
    twin_row<LastInputDropped>("twin_last_input_dropped", true),
    twin_row<BiasShifted>("twin_bias_shifted", true),
    twin_row<ColumnsInterleaved>("twin_columns_interleaved", false),
    twin_row<KeysForValues>("twin_keys_for_values", false),
    twin_row<TokensAtFirst>("twin_tokens_at_first", false),
}};

const Row& row(SeededLayerFault fault) {
  return kRows[static_cast<size_t>(fault)];
}

}  // namespace

std::string_view seeded_layer_name(SeededLayerFault fault) {
  return row(fault).name;
}

bool seeded_in_plain(SeededLayerFault fault) {
  return fault < SeededLayerFault::kTwinLastInputDropped;
}

bool seeded_in_projection(SeededLayerFault fault) {
  return row(fault).projection;
}

std::vector<double> seeded_linear(SeededLayerFault fault,
                                  const LinearProblem& problem) {
  return row(fault).linear(problem);
}

LayerOutput seeded_layer(SeededLayerFault fault, const LayerProblem& problem) {
  return row(fault).layer(problem);
}

}  // namespace qkvet::reference
