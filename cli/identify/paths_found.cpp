// SPDX-License-Identifier: Apache-2.0
// Numbers of keys and of rows at which a kernel takes another path, seen in
// numbers alone. With equal scores, every key weighs the same. With M at one
// key, -M at another and ones at all others, the ones that are left show how
// many keys are added up when these two meet (sums.h). A change from one number
// of keys to the next is another path. Paths that add in the same order are not
// seen.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "cli/identify/parts_found.h"
#include "cli/identify/sums.h"
#include "core/capability/paths.h"
#include "properties/judging/law.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// Numbers of keys: tried in steps, up to these numbers if rows are as many as
// keys, and if not. A path over fewer numbers than a step may be missed.
constexpr int64_t kStep = 32, kMostSquare = 512, kMostKeys = 4096;
// For tiles, which every call shows.
constexpr int64_t kMostOfJoins = 512, kMostOfTile = 1024;
constexpr int64_t kMostRows = 288, kEveryRow = 40, kKeysOfRows = 48;
// An order that changes more often follows the number of keys.
constexpr size_t kMostChanges = 8;

// One column of v.
struct Column {
  int64_t plus = -1, minus = -1;  // M and -M; ones elsewhere
  int64_t only = -1;              // or a one at this key and zeros elsewhere
};

// The observations for a number of keys, in whole numbers.
struct Seen {
  int64_t keys = 0;
  bool first_counts = true, last_counts = true;  // as much as each of them
  double first = 0, last = 0;                    // weights
  std::vector<int64_t> meets;  // keys 0 and kFar[n]: above so many
};
constexpr std::array<int64_t, 20> kFar = {1,   2,   3,   4,   5,    7,   8,
                                          15,  16,  31,  32,  63,   64,  127,
                                          128, 255, 256, 511, 1023, 2047};

class Paths {
 public:
  Paths(Asker& asker, Identified& found) : asker_(asker), found_(found) {}

  void find() {
    if (is_found(found_, "flags", "nondeterministic"))
      return not_told("the same call has other bits each time");
    const SumFound sum = ask_value_sum(asker_, 16);
    if (sum.wider || sum.bits < 24)
      return not_told("asked of sums over keys of 24 bits or more, " +
                      (sum.bits == 0 ? "which are not seen: " + sum.why
                                     : std::string("not of others")));
    for (const char* field : {"score_dtype", "p_dtype", "softmax_dtype"})
      if (is_found_field(field))
        return not_told(fmt::format("hidden by the rounding of {}", field));
    const int room =
        static_cast<int>(std::ceil(std::log2(double(kMostKeys)))) + 1;
    M_ = std::ldexp(1, sum.bits + room);
    find_of_keys();
    find_of_rows();
    say();
  }

 private:
  struct Path {
    int32_t axis = 0;
    int64_t at = 0;
    std::string evidence;
  };

  bool is_found_field(const std::string& field) const {
    return std::any_of(
        found_.fields.begin(), found_.fields.end(),
        [&field](const FoundField& one) { return one.field == field; });
  }
  void not_told(std::string why) {
    found_.rest.push_back({NotFound::Why::kNotTold, "paths", std::move(why)});
  }

  // Larger numbers than one with a path already are not informative: calls are
  // drawn at multiples, too.
  void add(int32_t axis, int64_t at, std::string evidence) {
    at = std::max<int64_t>(at, 2);
    const bool is_known =
        std::any_of(paths_.begin(), paths_.end(), [&](const Path& had) {
          return had.axis == axis && at % had.at == 0 && at / had.at <= 3;
        });
    if (!is_known) paths_.push_back({axis, at, std::move(evidence)});
  }

  // ---- Keys -----------------------------------------------------------------

  bool takes_rows_apart() const {
    return asker_.takes_cross_lengths && asker_.base.causal == Causal::kNone;
  }
  int64_t most_keys() const {
    return takes_rows_apart() ? kMostKeys : kMostSquare;
  }

  Case with_keys(int64_t rows, int64_t keys, int64_t heads) const {
    Case value = asker_.base;
    value.shape.Tk = keys;
    value.shape.Tq = takes_rows_apart() ? rows : keys;
    value.shape.H = value.shape.Hkv = heads;
    value.q = value.k = value.v = {RecipeKind::kZero, 0};
    return value;
  }

  double value_of(const Column& column, int64_t key) const {
    if (column.only >= 0) return key == column.only ? 1 : 0;
    return key == column.plus ? M_ : key == column.minus ? -M_ : 1;
  }

  // o of the last row, which sees all keys, for each column.
  std::vector<double> ask(int64_t rows, int64_t keys,
                          const std::vector<Column>& columns) {
    constexpr int64_t kHeads = 32;
    const int64_t dv = asker_.base.shape.dv;
    const auto all = static_cast<int64_t>(columns.size());
    std::vector<double> out;
    for (int64_t from = 0; from < all; from += kHeads * dv) {
      const int64_t count = std::min(all - from, kHeads * dv);
      const Case value = with_keys(rows, keys, (count + dv - 1) / dv);
      const Reply reply = asker_.ask(value, [&](Inputs& inputs) {
        for (int64_t n = 0; n < count; ++n)
          for (int64_t j = 0; j < keys; ++j)
            inputs.v[static_cast<size_t>((n / dv * keys + j) * dv + n % dv)] =
                value_of(columns[static_cast<size_t>(from + n)], j);
      });
      if (!reply.done()) return {};
      const int64_t Tq = value.shape.Tq;
      for (int64_t n = 0; n < count; ++n)
        out.push_back(
            reply
                .o[static_cast<size_t>(((n / dv + 1) * Tq - 1) * dv + n % dv)]);
    }
    return out;
  }

  // Number of keys that are added up when these two meet; 0 if it is no whole
  // number.
  static int64_t meeting(double o, int64_t keys) {
    const double ones = o * static_cast<double>(keys);
    if (!(std::fabs(ones - std::round(ones)) < 0.25) || ones < -0.25 ||
        ones > static_cast<double>(keys) - 1.75)
      return 0;
    return keys - static_cast<int64_t>(std::lround(ones));
  }

  std::optional<Seen> seen(int64_t rows, int64_t keys) {
    std::vector<Column> columns = {{-1, -1, 0}, {-1, -1, keys - 1}};
    for (const int64_t far : kFar)
      if (far < keys) columns.push_back({0, far, -1});
    const std::vector<double> o = ask(rows, keys, columns);
    if (o.empty()) return std::nullopt;
    Seen now;
    now.keys = keys;
    // Beyond what rounding explains.
    constexpr double kOff = 0x1p-7;
    const auto counts = [keys](double weight) {
      return std::fabs(weight * static_cast<double>(keys) - 1) < kOff;
    };
    now.first = o[0];
    now.last = o[1];
    now.first_counts = counts(o[0]);
    now.last_counts = counts(o[1]);
    for (size_t n = 2; n < o.size(); ++n)
      now.meets.push_back(meeting(o[n], keys));
    return now;
  }

  static std::string weight_text(const Seen& now, bool first) {
    const double weight = first ? now.first : now.last;
    return fmt::format(
        "at {} keys of equal scores the {} weighs {:.4g}, not "
        "1/{}",
        now.keys, first ? "first" : "last", weight, now.keys);
  }

  // "" or a difference between the two in their common keys.
  static std::string difference(const Seen& one, const Seen& two) {
    for (const bool first : {true, false}) {
      const auto counts = [first](const Seen& x) {
        return first ? x.first_counts : x.last_counts;
      };
      if (counts(one) == counts(two)) continue;
      return weight_text(counts(one) ? two : one, first) +
             fmt::format("; at {} each counts", (counts(one) ? one : two).keys);
    }
    // If keys do not count, the sums are unknown.
    if (!one.first_counts || !one.last_counts) return "";
    for (size_t n = 0; n < std::min(one.meets.size(), two.meets.size()); ++n) {
      if (one.meets[n] == two.meets[n]) continue;
      const auto text = [n](const Seen& x) {
        return x.meets[n] == 0
                   ? fmt::format("at {} no whole number is left", x.keys)
                   : fmt::format("at {} keys above {}", x.keys, x.meets[n]);
      };
      return fmt::format("keys 0 and {} meet in P v {}, {}", kFar[n], text(one),
                         text(two));
    }
    return "";
  }

  // The last number that is as `low` is, and the first that is not.
  std::optional<std::pair<Seen, Seen>> bisect(int64_t rows, Seen low,
                                              Seen high) {
    while (high.keys - low.keys > 1) {
      auto mid = seen(rows, (low.keys + high.keys) / 2);
      if (!mid) return std::nullopt;
      (difference(low, *mid).empty() ? low : high) = std::move(*mid);
    }
    return std::pair{std::move(low), std::move(high)};
  }

  void find_of_keys() {
    std::vector<int64_t> rows = {asker_.base.shape.Tq};
    if (takes_rows_apart()) rows = {1, asker_.base.shape.Tq};
    for (const int64_t n : rows) {
      find_changes(n);
      find_joins(n);
    }
    if (takes_rows_apart()) find_tile();
  }

  std::string rows_text(int64_t rows) const {
    return takes_rows_apart() ? " (" + counted(rows, "row") + ")"
                              : " (as many rows)";
  }

  void find_changes(int64_t rows) {
    std::vector<std::pair<Seen, Seen>> changes;
    auto low = seen(rows, kStep / 4);
    int64_t asked = 0;
    for (int64_t keys = kStep / 2; low && keys <= most_keys();
         keys += keys < kStep ? keys : kStep) {
      auto now = seen(rows, keys);
      if (!now) break;
      asked = keys;
      if (!difference(*low, *now).empty()) {
        auto border = bisect(rows, *low, *now);
        if (!border) break;
        changes.push_back(std::move(*border));
        if (changes.size() > kMostChanges) break;
      }
      low = std::move(now);
    }
    asked_keys_ = std::max(asked_keys_, asked);
    if (changes.size() > kMostChanges) {
      const auto& [last, first] = changes[0];
      const std::string from = difference(last, first) + rows_text(rows);
      follows_ = "the order of P v follows the number of keys: " + from;
      // If it did not for long, it begins there.
      constexpr int64_t kLong = 4 * kStep;
      if (last.keys >= kLong)
        add(QKVET_AXIS_TK, last.keys,
            from + "; it follows the number of keys from there on");
      return;
    }
    for (const auto& [last, first] : changes) {
      add(QKVET_AXIS_TK, last.keys, difference(last, first) + rows_text(rows));
      if (!first.first_counts || !first.last_counts) say_wrong(first, rows);
    }
  }

  // Once, however many rows show it.
  void say_wrong(const Seen& now, int64_t rows) {
    const std::string what = fmt::format("Tk = {}", now.keys);
    for (const NotFound& one : found_.rest)
      if (one.what == what) return;
    found_.rest.push_back(
        {NotFound::Why::kWrong, what,
         weight_text(now, !now.first_counts) + rows_text(rows)});
  }

  // Keys 0 to n - 1 are added up before all others: for each n, if keys are
  // added one by one; at the ends of tiles, if there are tiles.
  void find_joins(int64_t rows) {
    const int64_t keys = kMostOfJoins;
    std::vector<Column> columns;
    for (int64_t far = 1; far < keys; ++far) columns.push_back({0, far, -1});
    const std::vector<double> o = ask(rows, keys, columns);
    std::vector<int64_t> closed;
    int64_t most = 1;
    for (int64_t far = 1; far < std::ssize(o); ++far) {
      const int64_t meet = meeting(o[static_cast<size_t>(far) - 1], keys);
      if (meet == 0) return;
      if (meet > far && most <= far) closed.push_back(far);
      most = std::max(most, meet);
    }
    // The search is for the first with a successor more than one further.
    closed.push_back(keys);
    for (size_t n = 0; n + 1 < closed.size(); ++n) {
      const int64_t at = closed[n], next = closed[n + 1];
      if (next == at + 1 || next == keys || at == 1) continue;
      // Two equal tiles, or else another order.
      const bool is_tiled =
          n + 2 < closed.size() && closed[n + 2] - next == next - at;
      if (!is_tiled) return;
      const std::string evidence = fmt::format(
          "of {} keys the first {} are added up in P v, then the first {}, "
          "then {}, and no number between{}",
          keys, at, next, closed[n + 2], rows_text(rows));
      add(QKVET_AXIS_TK, next - at, evidence);
      add(QKVET_AXIS_TK, at, evidence);
      return;
    }
  }

  // Only key m has a score other than 0, and v is near the largest number
  // before it: their sum overflows if m's score is not known in advance.
  bool overflows(int64_t m) {
    const Case value = with_keys(asker_.base.shape.Tq, kMostOfTile, 1);
    const Shape s = value.shape;
    const Reply reply = asker_.ask(value, [&](Inputs& inputs) {
      for (int64_t i = 0; i < s.Tq; ++i)
        inputs.q[static_cast<size_t>(i * s.d)] = 1;
      inputs.k[static_cast<size_t>(m * s.d)] = 100 / scale_of(value);
      for (int64_t j = 0; j < m; ++j)
        for (int64_t c = 0; c < s.dv; ++c)
          inputs.v[static_cast<size_t>(j * s.dv + c)] = 3e38;
    });
    return reply.done() &&
           !std::isfinite(reply.o[static_cast<size_t>((s.Tq - 1) * s.dv)]);
  }

  void find_tile() {
    if (asker_.base.kv_dtype == Dtype::kF16) return;
    int64_t finite = 2, beyond = kMostOfTile - 1;
    if (overflows(finite) || !overflows(beyond)) return;
    while (beyond - finite > 1) {
      const int64_t m = (finite + beyond) / 2;
      (overflows(m) ? beyond : finite) = m;
    }
    add(QKVET_AXIS_TK, beyond,
        fmt::format("v near the largest number in front of key m, which alone "
                    "has a score of 100: o is finite up to m = {} and "
                    "overflows from m = {} on",
                    finite, beyond));
  }

  // ---- Rows -----------------------------------------------------------------

  // Row 0 sees the same keys for any number of rows, and must have the same
  // bits.
  std::vector<double> first_row(int64_t rows) {
    Case value = asker_.base;
    value.shape.Tq = rows;
    value.shape.Tk = kKeysOfRows;
    const Reply reply = asker_.ask(value);
    if (!reply.done()) return {};
    return {reply.o.begin(), reply.o.begin() + value.shape.dv};
  }

  void find_of_rows() {
    if (!takes_rows_apart()) return;
    std::vector<std::pair<int64_t, int64_t>> changes;
    std::vector<double> low = first_row(1);
    int64_t last = 1;
    for (int64_t rows = 2; !low.empty() && rows <= kMostRows;
         rows += rows < kEveryRow ? 1 : kStep) {
      const std::vector<double> now = first_row(rows);
      if (now.empty()) break;
      asked_rows_ = rows;
      if (!same_bits(now, low)) {
        int64_t from = last, to = rows;
        while (to - from > 1) {
          const int64_t mid = (from + to) / 2;
          (same_bits(first_row(mid), low) ? from : to) = mid;
        }
        changes.emplace_back(from, to);
      }
      low = now;
      last = rows;
    }
    if (changes.size() > kMostChanges) {
      follows_ += std::string(follows_.empty() ? "" : "; ") +
                  "the bits of a row follow the number of rows";
      return;
    }
    for (const auto& [from, to] : changes)
      add(QKVET_AXIS_TQ, from,
          fmt::format("row 0, which sees the same {} keys, has other bits with "
                      "{} than with {}",
                      kKeysOfRows, counted(to, "row"), from));
  }

  static bool same_bits(const std::vector<double>& one,
                        const std::vector<double>& two) {
    return one.size() == two.size() &&
           std::memcmp(one.data(), two.data(), one.size() * sizeof(double)) ==
               0;
  }

  // ---- Said -----------------------------------------------------------------

  void say() {
    for (const Path& one : paths_)
      found_.fields.push_back(
          {Part::kCapabilities, "paths",
           path_text({one.axis, static_cast<int32_t>(one.at)}), one.evidence});
    std::string why = follows_;
    if (why.empty())
      why = fmt::format(
          "{}asked in steps of {} keys up to {}, and of rows up to {}: paths "
          "that add in the same order are not seen, nor those of fewer "
          "numbers, or of widths, heads and members",
          paths_.empty() ? "none is seen; " : "others; ", kStep, asked_keys_,
          asked_rows_);
    not_told(std::move(why));
  }

  Asker& asker_;
  Identified& found_;
  double M_ = 0;
  std::vector<Path> paths_;
  std::string follows_;
  int64_t asked_keys_ = 0, asked_rows_ = 0;
};

}  // namespace

void find_paths(Asker& asker, Identified& found) { Paths(asker, found).find(); }

}  // namespace qkvet::cli
