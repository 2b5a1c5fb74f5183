// SPDX-License-Identifier: Apache-2.0
// The definition of attention, in two implementations that share no function:
// plain_forward (reference/attention/plain.cpp) is the definition, in double;
// twin_forward (reference/attention/twin.cpp) is another algorithm, in
// double-double.
#ifndef QKVET_REFERENCE_ARITHMETIC_ORACLE_H_
#define QKVET_REFERENCE_ARITHMETIC_ORACLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/floors.h"
#include "core/base/shape.h"
#include "core/call/options.h"

namespace qkvet::reference {

// A rotation of q and k by their positions; core/call/options.h defines the
// pairs of channels.
struct Rotation {
  RopeStyle style = RopeStyle::kNone;
  int64_t channels = 0;  // the first r <= d are turned, all others are not
  const double* cos = nullptr;           // [positions,r/2]
  const double* sin = nullptr;           // [positions,r/2]
  const int64_t* q_positions = nullptr;  // [B,Tq]
  const int64_t* k_positions = nullptr;  // [B,Tk]
};

// The keys that a row may see: the first counts[b,i] entries of its list, or
// all of them. No key occurs twice, and -1 is no key. Keys are counted from the
// first key of the row's member.
struct ListedKeys {
  const int32_t* keys = nullptr;    // [B,heads,Tq,entries]; null: no lists
  const int32_t* counts = nullptr;  // [B,Tq] or null
  int64_t entries = 0;
  int64_t heads = 1;  // Hkv, or 1 for all
};

// Masks in a few numbers (kernel.h); null or 0: absent. Nothing of them is read
// that belongs to rows and keys beyond the lengths.
struct FieldMasks {
  const int64_t* segments_q = nullptr;   // [B,Tq]
  const int64_t* segments_k = nullptr;   // [B,Tk]
  const int64_t* full_ranges = nullptr;  // [B,ranges,2]: begin, end
  int64_t ranges = 0;
  bool in_window = false;  // the dialect: a window cuts a range, too
  int64_t chunk = 0;
  const uint8_t* tree = nullptr;  // [B,Tq,Tq]
};

// One call, every input exact in double, contiguous, row-major.
struct Problem {
  Shape shape;
  Causal causal = Causal::kNone;
  // The factor of q k^T as the kernel has it: the float that the caller gave,
  // or, if the caller left it to the kernel, 1/sqrt(d) in full precision.
  double scale = 1;
  bool scale_given = false;
  const double* q = nullptr;  // [B,H,Tq,d]
  const double* k = nullptr;  // [B,Hkv,Tk,d]
  const double* v = nullptr;  // [B,Hkv,Tk,dv]

  // Options (core/call/options.h); null or 0: absent. k and v may hold anything
  // beyond the lengths, NaN as well.
  std::optional<Window> window;
  const uint8_t* mask = nullptr;   // [B,H,Tq,Tk], nonzero: attend
  const double* bias = nullptr;    // [B,H,Tq,Tk], added to the scaled scores
  const double* slopes = nullptr;  // [H], ALiBi: part of the bias
  bool member_slopes = false;      // [B,H] of them, packed [members,H]
  // Positions of keys, for ALiBi; the rows have the last ones, and lengths do
  // not apply. Null: key j is at position j.
  const int64_t* places = nullptr;  // [Tk], ascending
#define QKVET_OPTION_NUMBER(name, ...) double name = 0;
#include "core/call/option_numbers.def"
  const double* sink = nullptr;     // [H], a logit that joins the denominator
  const int64_t* q_len = nullptr;   // [B]
  const int64_t* kv_len = nullptr;  // [B]
  // A packed batch, B = 1: member m has the rows cu_q[m] .. cu_q[m + 1] - 1.
  int64_t members = 0;
  const int64_t* cu_q = nullptr;  // [members + 1], ascending
  const int64_t* cu_k = nullptr;  // [members + 1], ascending
  Rotation rotation;
  ListedKeys listed;
  FieldMasks fields;

  // The dialect, as far as the definition depends on it.
  bool softcap_after_bias = false;
  bool sink_in_lse = true;
};

// OracleOutput::visible of a row beyond q_len, or in no packed member: its
// outputs are undefined.
inline constexpr int64_t kRowNotCounted = -1;

// How many slopes there are, and that of query row i of head h.
int64_t slope_count(const Problem& problem);
double slope_of(const Problem& problem, int64_t b, int64_t h, int64_t i);

// 1/sqrt(d), what an absent scale means.
double default_scale(int64_t d);

// A call without options.
Problem make_problem(const Shape& shape, Causal causal,
                     std::optional<float> scale, const double* q,
                     const double* k, const double* v);

struct OracleOutput {
  // [B,H,Tq,dv]; NaN in rows without a key, 0 where these have a sink.
  std::vector<double> o;
  // [B,H,Tq], natural; -inf in rows without a key, or the sink that counts.
  std::vector<double> lse;
  std::vector<double> weights;   // [B,H,Tq,Tk]; 0 at masked keys
  std::vector<int64_t> visible;  // [B,H,Tq]: how many keys the row sees
  std::vector<uint8_t> sees;     // [B,H,Tq,Tk]: 1 if the row sees the key
};

OracleOutput plain_forward(const Problem& problem);
OracleOutput twin_forward(const Problem& problem);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ARITHMETIC_ORACLE_H_
