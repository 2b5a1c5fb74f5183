// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/readings.h"

#include <algorithm>
#include <cstdlib>

#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// One of the keys that a row sees.
struct SeenKey {
  int64_t keys;   // that the row sees
  int64_t place;  // of this one among them
  int64_t key;    // its number
};
using Sees = std::function<bool(const SeenKey&)>;

// The keys that each row sees [B,H,Tq,Tk]: those with a weight if all scores
// are equal.
std::vector<uint8_t> seen_keys(Problem p) {
  Shape& s = p.shape;
  s.d = s.dv = 1;
  const std::vector<double> q(static_cast<size_t>(s.q_elements())),
      k(static_cast<size_t>(s.k_elements()));
  p.q = q.data();
  p.k = p.v = k.data();
  p.scale = 1;
  p.bias = p.slopes = p.sink = nullptr;
  p.softcap = 0;
  p.rotation = {};
  std::vector<uint8_t> seen;
  for (const double weight : plain_forward(p).weights)
    seen.push_back(weight > 0);
  return seen;
}

// Sees the keys that `sees` leaves of those that each row sees. The masks live
// as long as the reading does.
Reading seen_as(Sees sees) {
  auto masks = std::make_shared<std::vector<std::vector<uint8_t>>>();
  return [masks, sees = std::move(sees)](Problem p) {
    if (p.listed.keys != nullptr) return p;  // they have an order of their own
    std::vector<uint8_t> mask = seen_keys(p);
    const auto Tk = static_cast<size_t>(p.shape.Tk);
    for (size_t row = 0; row < mask.size(); row += Tk) {
      const int64_t keys = std::count(&mask[row], &mask[row] + Tk, 1);
      int64_t place = 0;
      for (size_t j = 0; j < Tk; ++j)
        if (mask[row + j] != 0)
          mask[row + j] = sees({keys, place++, static_cast<int64_t>(j)});
    }
    masks->push_back(std::move(mask));
    p.mask = masks->back().data();
    return p;
  };
}

// The causal rule with its diagonal `shift` keys further.
Reading shifted(int64_t shift) {
  auto masks = std::make_shared<std::vector<std::vector<uint8_t>>>();
  return [masks, shift](Problem p) {
    // Windows, chunks and ranges depend on the diagonal, too.
    if (p.causal == Causal::kNone || p.window || p.q_len != nullptr ||
        p.kv_len != nullptr || p.members != 0 || p.listed.keys != nullptr ||
        p.fields.ranges != 0 || p.fields.chunk != 0 || p.fields.tree != nullptr)
      return p;
    const Shape& s = p.shape;
    const int64_t offset = p.causal == Causal::kBottomRight ? s.Tk - s.Tq : 0;
    std::vector<uint8_t> mask(static_cast<size_t>(s.weights_elements()));
    for (size_t n = 0; n < mask.size(); ++n) {
      const auto j = static_cast<int64_t>(n) % s.Tk;
      const auto i = static_cast<int64_t>(n) / s.Tk % s.Tq;
      mask[n] =
          j <= i + offset + shift && (p.mask == nullptr || p.mask[n] != 0);
    }
    masks->push_back(std::move(mask));
    p.mask = masks->back().data();
    p.causal = Causal::kNone;
    return p;
  };
}

void add_shifts(std::vector<std::unique_ptr<Suspect>>& suspects) {
  constexpr int64_t kMostShift = 8;
  for (int64_t shift = -kMostShift; shift <= kMostShift; ++shift) {
    if (shift == 0) continue;
    const std::string keys = std::to_string(std::abs(shift)) +
                             (std::abs(shift) == 1 ? " key" : " keys");
    suspects.push_back(std::make_unique<ReadingSuspect>(
        shift > 0 ? "diagonal_too_far_by_" + std::to_string(shift)
                  : "diagonal_too_short_by_" + std::to_string(-shift),
        "The causal rule is shifted: each row sees " + keys +
            (shift > 0 ? " too many, of the future." : " too few."),
        "Compare the key with the row's own position.", shifted(shift)));
  }
}

void add_windows(std::vector<std::unique_ptr<Suspect>>& suspects) {
  for (const int shift : {-1, 1})
    for (const bool left : {true, false})
      suspects.push_back(std::make_unique<ReadingSuspect>(
          std::string("window_") + (left ? "left" : "right") +
              (shift > 0 ? "_one_too_wide" : "_one_too_narrow"),
          std::string("The window is one key too ") +
              (shift > 0 ? "wide" : "narrow") + " on its " +
              (left ? "left." : "right."),
          "Both sides are inclusive counts of keys beside the row's own.",
          [shift, left](Problem p) {
            if (!p.window) return p;
            auto& side = left ? p.window->left : p.window->right;
            if (side >= 0) side = std::max<int64_t>(0, side + shift);
            return p;
          }));
}

void add_lost(std::vector<std::unique_ptr<Suspect>>& suspects) {
  const auto add = [&](std::string name, std::string cause, std::string fix,
                       Sees sees) {
    suspects.push_back(std::make_unique<ReadingSuspect>(
        std::move(name), std::move(cause), std::move(fix),
        seen_as(std::move(sees))));
  };
  for (const int64_t n : {1, 2, 3}) {
    const std::string count = n == 1 ? "key" : std::to_string(n) + " keys";
    add("last_keys_lost_" + std::to_string(n),
        "The last " + count + " that a row sees are left out.",
        "End the loop over keys after the last one.",
        [n](const SeenKey& at) { return at.place < at.keys - n; });
    add("first_keys_lost_" + std::to_string(n),
        "The first " + count + " that a row sees are left out.",
        "Begin the loop over keys at the first one.",
        [n](const SeenKey& at) { return at.place >= n; });
  }
  for (int64_t tile = 2; tile <= 256; tile *= 2) {
    const std::string of = std::to_string(tile);
    add("rest_of_tile_lost_" + of,
        "Only whole tiles of " + of + " keys are computed: the rest is lost.",
        "Compute the last, partly filled tile as well, its rest masked.",
        [tile](const SeenKey& at) {
          return at.keys < tile || at.place < at.keys / tile * tile;
        });
    add("keys_after_first_tile_lost_" + of,
        "No more than " + of + " keys are computed.",
        "Loop over all tiles of keys.",
        [tile](const SeenKey& at) { return at.key < tile; });
  }
}

}  // namespace

Word ReadingSuspect::says(Evidence& evidence, const Witness& witness) {
  if (evidence.law != &agreement_about(Subject::kAttention))
    return Word::kSilent;
  CaseWork work(*evidence.law, evidence.value(), false, witness.time(),
                plain_forward, reads_);
  if (work.calls_for(witness.kernel()).size() != evidence.outcomes.size())
    return Word::kSilent;
  const Judgement judgement = work.judge(witness.kernel(), evidence.outcomes);
  return judgement.verdict == Verdict::kPassed   ? Word::kPredicted
         : judgement.verdict == Verdict::kFailed ? Word::kContradicts
                                                 : Word::kSilent;
}

void add_readings(const Case& value,
                  std::vector<std::unique_ptr<Suspect>>& suspects) {
  if (value.causal != Causal::kNone) add_shifts(suspects);
  if (value.window) add_windows(suspects);
  add_lost(suspects);
}

}  // namespace qkvet::diagnosis
