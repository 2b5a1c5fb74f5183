// SPDX-License-Identifier: Apache-2.0
// The neighbours of a failing case that pass and fail.
#include <algorithm>

#include "diagnosis/evidence/nearby.h"
#include "properties/conventions/domain.h"

namespace qkvet::diagnosis {
namespace {

constexpr int64_t kExtents[] = {1, 2, 3, 4, 7, 8, 16, 33};
// In the order in which people usually check them.
struct Axis {
  const char* name;
  int64_t Shape::*extent;
};
constexpr Axis kAxes[] = {{"Tk", &Shape::Tk},
                          {"Tq", &Shape::Tq},
                          {"d", &Shape::d},
                          {"H", &Shape::H},
                          {"B", &Shape::B}};
// More axes than these make the text less informative.
constexpr int kMostAxes = 2;

// Whether the case with this extent fails; nullopt if that is not known.
std::optional<bool> fails(const Law& law, const Case& value, Witness& witness) {
  if (!invalid_reason(value).empty() || !(constrained(law, value) == value))
    return std::nullopt;
  const auto evidence = witness.ask(law, value);
  if (evidence == nullptr) return std::nullopt;
  return evidence->failed();
}

// Whether the verdict is the same for similar cases: with other data, and with
// one more member. If not, it is an accident.
bool is_confirmed(const Law& law, const Case& value, bool failed,
                  Witness& witness) {
  for (const int64_t more : {0, 1}) {
    Case like = value;
    like.seed += static_cast<uint64_t>(1 + more);
    like.shape.B += more;
    if (fails(law, like, witness).value_or(failed) != failed) return false;
  }
  return true;
}

// An extent and the extents that change with it.
Case with_extent(Case value, const Axis& axis, int64_t extent) {
  Shape& s = value.shape;
  const bool grouped = s.H == s.Hkv, square = s.d == s.dv;
  s.*axis.extent = extent;
  if (axis.extent == &Shape::H && grouped) s.Hkv = s.H;
  if (axis.extent == &Shape::d && square) s.dv = s.d;
  if (s.D > 0) {
    if (axis.extent == &Shape::Tk) s.Tq = extent;
    if (axis.extent == &Shape::H || axis.extent == &Shape::d) s.D = s.H * s.d;
  }
  return value;
}

std::string listed(const Axis& axis, const std::vector<int64_t>& extents,
                   const char* word) {
  std::string out = std::string(axis.name) + " = ";
  for (size_t i = 0; i < extents.size(); ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(extents[i]);
  return out + " " + word;
}

// "Tk = 4, 8 pass; Tk = 1, 3 fail", or "" if all fail.
std::string along(const Axis& axis, const Law& law, const Case& value,
                  Witness& witness) {
  std::vector<int64_t> passing, failing;
  for (const int64_t extent : kExtents) {
    const auto failed = fails(law, with_extent(value, axis, extent), witness);
    if (!failed) continue;
    (*failed ? failing : passing).push_back(extent);
  }
  if (passing.empty() || failing.empty()) return "";
  for (const bool failed : {false, true})
    for (const int64_t extent : failed ? failing : passing)
      if (!is_confirmed(law, with_extent(value, axis, extent), failed, witness))
        return "";
  return listed(axis, passing, passing.size() == 1 ? "passes" : "pass") + "; " +
         listed(axis, failing, failing.size() == 1 ? "fails" : "fail") + ".";
}

// Options without which the same case passes.
std::string without_options(const Law& law, const Case& value,
                            Witness& witness) {
  std::vector<std::string> names;
  const auto look = [&](const Case& other, const std::string& name) {
    if (!(other == value) && !fails(law, other, witness).value_or(true) &&
        is_confirmed(law, other, /*failed=*/false, witness) &&
        is_confirmed(law, value, /*failed=*/true, witness))
      names.push_back(name);
  };
  Case other = value;
  other.causal = Causal::kNone;
  look(other, "the causal rule");
  const uint64_t has = options_of(value);
  for (const uint64_t option :
       single_options(has & ~(kOptionLayout | kOptionShare)))
    look(keep_allowed(value, has & ~option), option_names(option));
  std::string out;
  for (size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "It passes without " : ", without ") + names[i];
  return out.empty() ? out : out + ".";
}

// Whether the order of threads alone changes numbers: each call has its own
// process, so that earlier calls have no effect, and all calls end. A call that
// dies fails the law as well, in any order.
bool differs_by_order(const Law& law, const Case& value, Witness& witness) {
  if (!(constrained(law, value) == value)) return false;
  const auto evidence =
      witness.ask(law, value, [](std::vector<KernelCall>& calls) {
        for (KernelCall& call : calls) call.new_process = true;
      });
  return evidence != nullptr && evidence->failed() &&
         evidence->judgement.kind == FailureKind::kLaw;
}

// Tries a law of its own, whatever the failing one is: a missing barrier
// explains everything else.
std::string hidden_in_threads(const Case& value, Witness& witness) {
  const Law* law = find_law("threads_change_nothing");
  if (law == nullptr || value.subject() != Subject::kAttention ||
      !witness.kernel().info.orders_threads)
    return "";
  // The smallest case may be too small for two threads to meet, so channels are
  // added: two, and more than a warp.
  for (const int64_t wider : {0, 2, 32}) {
    Case near = value;
    near.shape.d += wider;
    near.shape.dv += wider;
    if (differs_by_order(*law, near, witness))
      return "Its answer depends on the order in which GPU threads run: a "
             "barrier (__syncthreads, __syncwarp) is missing, or they race "
             "otherwise.";
  }
  return "";
}

}  // namespace

std::string hidden_among_neighbours(const Law& law, const Case& value,
                                    Witness& witness, bool has_sentence) {
  std::string out;
  const auto add = [&out](const std::string& text) {
    if (!text.empty()) out += (out.empty() ? "" : " ") + text;
  };
  add(hidden_in_threads(value, witness));
  if (has_sentence) return out;
  // First, so that there are enough calls for them.
  const std::string options = value.subject() == Subject::kAttention
                                  ? without_options(law, value, witness)
                                  : "";
  if (value.subject() != Subject::kCache) {
    int axes = 0;
    for (const Axis& axis : kAxes) {
      const std::string text = along(axis, law, value, witness);
      add(text);
      axes += text.empty() ? 0 : 1;
      if (axes == kMostAxes) break;
    }
  }
  add(options);
  return out;
}

}  // namespace qkvet::diagnosis
