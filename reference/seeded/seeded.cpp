// SPDX-License-Identifier: Apache-2.0
// Each fault is one class that hides one hook, and one row of kRows.
#include "reference/seeded/seeded.h"

#include <array>

#include "reference/attention/plain.h"
#include "reference/attention/twin.h"
#include "reference/options/dropout_rows.h"

namespace qkvet::reference {
namespace {

struct StrictDiagonal : PlainHooks {
  static bool in_past(const Problem& problem, const PlainPlace& place,
                      int64_t j) {
    if (problem.causal == Causal::kNone) return true;
    return PlainHooks::in_past(problem, place, j + 1);
  }
};

struct TopLeft : PlainHooks {
  static bool in_past(const Problem& problem, const PlainPlace& place,
                      int64_t j) {
    return problem.causal == Causal::kNone || j <= place.i;
  }
};

struct BottomRight : PlainHooks {
  static bool in_past(const Problem& problem, const PlainPlace& place,
                      int64_t j) {
    return problem.causal == Causal::kNone ||
           j <= place.i + place.Lk - place.Lq;
  }
};

struct HeadModulo : PlainHooks {
  static int64_t kv_head(const Shape& shape, int64_t h) {
    return h % shape.Hkv;
  }
};

struct LastKeyDropped : PlainHooks {
  template <class Hooks>
  static bool visible(const Problem& problem, const PlainPlace& place,
                      int64_t j) {
    const int64_t Tk = problem.shape.Tk;
    return PlainHooks::visible<Hooks>(problem, place, j) &&
           (place.first_k + j + 1 < Tk || Tk == 1);
  }
};

struct ScaleFromDv : PlainHooks {
  static double scale(const Problem& problem) {
    const Shape& shape = problem.shape;
    return problem.scale * std::sqrt(static_cast<double>(shape.d) /
                                     static_cast<double>(shape.dv));
  }
};

struct ShiftFromZero : PlainHooks {
  static double shift_start() { return 0; }
};

struct WindowShort : PlainHooks {
  static bool in_window(const Window& window, int64_t diagonal, int64_t j) {
    const bool lost = window.left > 0 && diagonal - j == window.left;
    return !lost && PlainHooks::in_window(window, diagonal, j);
  }
};

struct MaskOfOnes : PlainHooks {
  static bool attends(uint8_t mask) { return mask == 1; }
};

struct AlibiSigned : PlainHooks {
  static double distance(int64_t diagonal, int64_t j) {
    return static_cast<double>(diagonal - j);
  }
};

struct SinkLost : PlainHooks {
  static double with_sink(double sum, double /*weight*/) { return sum; }
};

struct PairsSwapped : PlainHooks {
  static RopeStyle other(RopeStyle style) {
    return style == RopeStyle::kHalf ? RopeStyle::kInterleaved
                                     : RopeStyle::kHalf;
  }
  static int64_t first_channel(RopeStyle style, int64_t n) {
    return PlainHooks::first_channel(other(style), n);
  }
  static int64_t second_channel(RopeStyle style, int64_t n, int64_t d) {
    return PlainHooks::second_channel(other(style), n, d);
  }
};

struct LastPairLost : PlainHooks {
  static int64_t turned(const Rotation& rotation, int64_t d) {
    return rotation.channels < d ? rotation.channels - 2 : d;
  }
};

struct SecondNotTurned : PlainHooks {
  static double second(double /*a*/, double b, double cos, double /*sin*/) {
    return b * cos;
  }
};

struct SlopesOfFirst : PlainHooks {
  static double slope(const Problem& problem, const PlainPlace& place) {
    return problem.slopes[place.h];
  }
};

struct ListRestCounts : PlainHooks {
  static int64_t listed(const Problem& problem, const PlainPlace& /*place*/) {
    return problem.listed.entries;
  }
};

struct ScaleIgnored : PlainHooks {
  static double scale(const Problem& problem) {
    return default_scale(problem.shape.d);
  }
};

struct CapNotScaled : PlainHooks {
  static double capped(const Problem& problem, double score) {
    const double capped = PlainHooks::capped(problem, score);
    return problem.softcap > 0 ? capped / problem.softcap : capped;
  }
};

struct QueriesPadded : PlainHooks {
  static int64_t diagonal(const Problem& problem, const PlainPlace& place) {
    PlainPlace padded = place;
    if (problem.q_len != nullptr) padded.Lq = problem.shape.Tq;
    return PlainHooks::diagonal(problem, padded);
  }
};

struct EmptyRowZero : PlainHooks {
  static double without_a_key() { return 0; }
};

struct PaddingAttends : PlainHooks {
  static bool in_segment(const Problem& problem, const PlainPlace& place,
                         int64_t j) {
    const int64_t row = place.b * problem.shape.Tq + place.first_q + place.i;
    const int64_t key = place.b * problem.shape.Tk + place.first_k + j;
    return problem.fields.segments_q[row] == problem.fields.segments_k[key];
  }
};

struct RangeClosed : PlainHooks {
  static bool in_range(const Problem& problem, const PlainPlace& place,
                       int64_t diagonal, int64_t j) {
    return PlainHooks::in_range(problem, place, diagonal, j) ||
           PlainHooks::in_range(problem, place, diagonal, j - 1);
  }
};

struct ChunkTowards0 : PlainHooks {
  static bool in_chunk(int64_t chunk, int64_t diagonal, int64_t j) {
    return diagonal / chunk == j / chunk;
  }
};

struct SiblingsSeen : PlainHooks {
  static bool on_branch(const Problem& /*problem*/, const PlainPlace& /*place*/,
                        int64_t /*j*/) {
    return true;
  }
};

struct SumNotRescaled : TwinHooks {
  static DoubleDouble rescale_sum(DoubleDouble sum, DoubleDouble /*factor*/) {
    return sum;
  }
};

struct ValueNotRescaled : TwinHooks {
  static DoubleDouble rescale_value(DoubleDouble value,
                                    DoubleDouble /*factor*/) {
    return value;
  }
};

struct SeriesTruncated : TwinHooks {
  // Leaves r^4/24 * 256 with |r| <= 0.00136: an error of up to 2^-35.
  static DoubleDouble exponential(DoubleDouble x) {
    return dd_exp(x, /*terms=*/3);
  }
};

struct Ln2Short : TwinHooks {
  static DoubleDouble exponential(DoubleDouble x) {
    return dd_exp(x, kExpTerms, static_cast<float>(kLn2.hi));
  }
};

struct DiagonalTooFar : TwinHooks {
  static int64_t last_key(const Problem& problem, const TwinExtent& all,
                          int64_t centre) {
    const int64_t last = TwinHooks::last_key(problem, all, centre);
    const bool more = problem.causal == Causal::kBottomRight &&
                      last >= all.k_begin && last + 1 < all.k_end;
    return more ? last + 1 : last;
  }
};

struct HeadsInterleaved : TwinHooks {
  static int64_t query_head(const Shape& shape, int64_t kv_head,
                            int64_t member) {
    return member * shape.Hkv + kv_head;
  }
};

struct CapLast : TwinHooks {
  static bool cap_last(const Problem& /*problem*/) { return true; }
};

struct WindowTopLeft : TwinHooks {
  static int64_t left_end(const TwinExtent& all, int64_t centre, int64_t left) {
    const int64_t more = (all.k_end - all.k_begin) - (all.q_end - all.q_begin);
    const int64_t wrong = centre - std::max<int64_t>(more, 0);
    return TwinHooks::left_end(all, wrong, left);
  }
};

struct LengthIgnored : TwinHooks {
  static int64_t centre(const Problem& problem, const TwinExtent& all,
                        int64_t i) {
    TwinExtent longer = all;
    if (problem.kv_len != nullptr) longer.k_end = problem.shape.Tk;
    return TwinHooks::centre(problem, longer, i);
  }
};

struct MemberTooWide : TwinHooks {
  static TwinExtent extent(const Problem& problem, int64_t b, int64_t i) {
    TwinExtent all = TwinHooks::extent(problem, b, i);
    if (problem.cu_k != nullptr && all.k_begin > 0) --all.k_begin;
    return all;
  }
};

struct UnturnedLost : TwinHooks {
  static DoubleDouble unturned(DoubleDouble /*product*/) { return 0.0; }
};

struct TurnedBack : TwinHooks {
  static DoubleDouble turn_sign(DoubleDouble sin) {
    return DoubleDouble(0.0) + sin * DoubleDouble(-1.0);
  }
};

struct KeyOfFirstMember : TwinHooks {
  static int64_t key_position(const Rotation& turn, int64_t keys, int64_t key) {
    return turn.k_positions[key % keys];
  }
};

struct SlopesOneApart : TwinHooks {
  static const double* slopes(const Problem& problem, const TwinExtent& all) {
    if (problem.slopes == nullptr || !problem.member_slopes)
      return problem.slopes;
    return problem.slopes + all.before;
  }
};

struct ListModulo : TwinHooks {
  static int64_t list_of(const Problem& problem, int64_t h) {
    return h % problem.listed.heads;
  }
};

struct InfinityHides : TwinHooks {
  static bool allowed(const Problem& problem, int64_t pair) {
    Problem other = problem;
    other.softcap = 0;
    return TwinHooks::allowed(other, pair);
  }
};

struct DefaultFromDv : TwinHooks {
  static double scale(const Problem& problem) {
    return problem.scale_given ? problem.scale
                               : default_scale(problem.shape.dv);
  }
};

struct BiasOfFirstHead : TwinHooks {
  static DoubleDouble offset(const Problem& problem, int64_t h, int64_t pair,
                             int64_t j, const TwinSpan& span) {
    const int64_t first = pair - h * problem.shape.Tq * problem.shape.Tk;
    return TwinHooks::offset(problem, h, first, j, span);
  }
};

struct LseInSingle : TwinHooks {
  static DoubleDouble logarithm(DoubleDouble x) {
    return static_cast<float>(TwinHooks::logarithm(x).hi);
  }
};

struct WeightsUndivided : TwinHooks {
  static DoubleDouble share(DoubleDouble w, DoubleDouble /*sum*/) { return w; }
};

struct EarlierSegments : TwinHooks {
  static bool same_segment(const Problem& problem, int64_t row, int64_t key) {
    const int64_t of_key = problem.fields.segments_k[key];
    return of_key <= problem.fields.segments_q[row] && of_key >= 0;
  }
};

struct RangeInWindow : TwinHooks {
  static bool reached(const Problem& problem, int64_t b, int64_t key,
                      const TwinSpan& span) {
    Problem other = problem;
    other.fields.in_window = true;
    return TwinHooks::reached(other, b, key, span);
  }
};

struct ChunkSlides : TwinHooks {
  static int64_t chunk_start(int64_t at, int64_t chunk) {
    return at - chunk + 1;
  }
};

struct TreeTransposed : TwinHooks {
  static bool sees_draft(const Problem& problem, int64_t row, int64_t draft) {
    const int64_t Tq = problem.shape.Tq;
    return TwinHooks::sees_draft(problem, row - row % Tq + draft, row % Tq);
  }
};

struct Row {
  std::string_view name;
  OracleOutput (*forward)(const Problem&);
};

// In the order of SeededFault.
constexpr std::array<Row, kSeededFaultCount> kRows = {{
    {"plain_strict_diagonal", plain_forward_with<StrictDiagonal>},
    {"plain_top_left", plain_forward_with<TopLeft>},
    {"plain_head_modulo", plain_forward_with<HeadModulo>},
    {"plain_last_key_dropped", plain_forward_with<LastKeyDropped>},
    {"plain_scale_from_dv", plain_forward_with<ScaleFromDv>},
    {"plain_shift_from_zero", plain_forward_with<ShiftFromZero>},
    {"plain_window_short", plain_forward_with<WindowShort>},
    {"plain_mask_of_ones", plain_forward_with<MaskOfOnes>},
    {"plain_alibi_signed", plain_forward_with<AlibiSigned>},
    {"plain_sink_lost", plain_forward_with<SinkLost>},
    {"plain_pairs_swapped", plain_forward_with<PairsSwapped>},
    {"plain_second_not_turned", plain_forward_with<SecondNotTurned>},
    {"plain_slopes_of_first", plain_forward_with<SlopesOfFirst>},
    {"plain_list_rest_counts", plain_forward_with<ListRestCounts>},
    {"plain_bottom_right", plain_forward_with<BottomRight>},
    {"plain_scale_ignored", plain_forward_with<ScaleIgnored>},
    {"plain_cap_not_scaled", plain_forward_with<CapNotScaled>},
    {"plain_queries_padded", plain_forward_with<QueriesPadded>},
    {"plain_empty_row_zero", plain_forward_with<EmptyRowZero>},
    {"plain_padding_attends", plain_forward_with<PaddingAttends>},
    {"plain_range_closed", plain_forward_with<RangeClosed>},
    {"plain_chunk_towards_0", plain_forward_with<ChunkTowards0>},
    {"plain_siblings_seen", plain_forward_with<SiblingsSeen>},
    {"plain_last_pair_lost", plain_forward_with<LastPairLost>},
    {"twin_sum_not_rescaled", twin_forward_with<SumNotRescaled>},
    {"twin_value_not_rescaled", twin_forward_with<ValueNotRescaled>},
    {"twin_series_truncated", twin_forward_with<SeriesTruncated>},
    {"twin_ln2_short", twin_forward_with<Ln2Short>},
    {"twin_diagonal_too_far", twin_forward_with<DiagonalTooFar>},
    {"twin_heads_interleaved", twin_forward_with<HeadsInterleaved>},
    {"twin_cap_last", twin_forward_with<CapLast>},
    {"twin_window_top_left", twin_forward_with<WindowTopLeft>},
    {"twin_length_ignored", twin_forward_with<LengthIgnored>},
    {"twin_member_too_wide", twin_forward_with<MemberTooWide>},
    {"twin_turned_back", twin_forward_with<TurnedBack>},
    {"twin_unturned_lost", twin_forward_with<UnturnedLost>},
    {"twin_key_of_first_member", twin_forward_with<KeyOfFirstMember>},
    {"twin_slopes_one_apart", twin_forward_with<SlopesOneApart>},
    {"twin_list_modulo", twin_forward_with<ListModulo>},
    {"twin_infinity_hides", twin_forward_with<InfinityHides>},
    {"twin_default_from_dv", twin_forward_with<DefaultFromDv>},
    {"twin_bias_of_first_head", twin_forward_with<BiasOfFirstHead>},
    {"twin_lse_in_single", twin_forward_with<LseInSingle>},
    {"twin_weights_undivided", twin_forward_with<WeightsUndivided>},
    {"twin_earlier_segments", twin_forward_with<EarlierSegments>},
    {"twin_range_in_window", twin_forward_with<RangeInWindow>},
    {"twin_chunk_slides", twin_forward_with<ChunkSlides>},
    {"twin_tree_transposed", twin_forward_with<TreeTransposed>},
}};

struct NotScaled : PlainDropoutHooks {
  static double factor(double /*p*/) { return 1; }
};

struct MaskInverted : PlainDropoutHooks {
  static bool keeps(uint8_t kept) { return kept == 0; }
};

const Row& row(SeededFault fault) { return kRows[static_cast<size_t>(fault)]; }

}  // namespace

std::string_view seeded_fault_name(SeededFault fault) {
  return row(fault).name;
}

bool seeded_in_plain(SeededFault fault) {
  return fault < SeededFault::kTwinSumNotRescaled;
}

OracleOutput seeded_forward(SeededFault fault, const Problem& problem) {
  return row(fault).forward(problem);
}

OracleOutput seeded_dropout(SeededDropout fault,
                            const DropoutProblem& problem) {
  return fault == SeededDropout::kNotScaled
             ? plain_dropout_with<NotScaled>(problem)
             : plain_dropout_with<MaskInverted>(problem);
}

}  // namespace qkvet::reference
