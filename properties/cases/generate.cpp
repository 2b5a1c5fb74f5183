// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/generate.h"

#include <optional>

#include "core/base/philox.h"
#include "properties/cases/case_generator.h"
#include "properties/cases/draw.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"

namespace qkvet::properties {

Case draw_case(Draw& draw, const Law& law, const Scope& scope) {
  return subject_row(law.domain.subject).draw(draw, law, scope);
}

rc::Gen<Case> case_generator(const Law& law, const Scope& scope) {
  const rc::Gen<Case> base([&law, scope](rc::Random random, int) {
    Draw draw([&random] { return random.next(); });
    return rc::shrinkable::just(draw_case(draw, law, scope));
  });
  return rc::gen::shrink(base, [&law](Case&& value) {
    return rc::seq::fromContainer(simpler_cases(law, value));
  });
}

std::optional<Case> declared_case(const Law& law, const Scope& scope,
                                  const Case& value) {
  if (is_declared(scope, value)) return value;
  Case kept = value;
  keep_to_declared(scope, kept);
  kept = constrained(law, std::move(kept));
  if (is_declared(scope, kept)) return kept;
  return std::nullopt;
}

uint32_t stream_of(const Law& law) {
  uint32_t id = 0;
  for (const char* c = law.id; *c != 0; ++c)
    id = id * 31 + static_cast<uint32_t>(*c);
  return id;
}

namespace {

Case drawn_case(const Law& law, uint64_t seed, int64_t number,
                const Scope& scope) {
  const rc::Random random(philox_u64(seed, stream_of(law),
                                     static_cast<uint32_t>(number),
                                     static_cast<uint32_t>(number >> 32)));
  constexpr int kSize = 100;  // not used by the generator above
  return case_generator(law, scope)(random, kSize).value();
}

}  // namespace

Case planned_case(const Law& law, uint64_t seed, int64_t number,
                  const Scope& scope) {
  // Draws again instead of a case that would be refused, or that a law has made
  // as long in both extents as it was in one.
  constexpr uint64_t kDraws = 8;
  constexpr uint64_t kNextSeed = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  std::optional<Case> undeclared;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const Case drawn = drawn_case(law, seed + draw * kNextSeed, number, scope);
    const auto declared = declared_case(law, scope, drawn);
    const Case& value = declared ? *declared : drawn;
    // Pinned extents are kept even if they are expensive.
    const bool is_dear = scope.pins.empty() && is_too_much_work(value.shape);
    if (is_dear && (undeclared || draw + 1 < kDraws)) continue;
    if (declared) return value;
    if (!undeclared) undeclared = value;
  }
  return *undeclared;
}

std::string undeclared_need(const Law& law, const Scope& scope) {
  if (law.domain.plans && !scope.plans) return kNoPlans;
  constexpr int64_t kCases = 4;
  bool any = !scope.pins.empty();
  for (int64_t number = 1; number <= kCases && !any; ++number)
    any = is_declared(scope, planned_case(law, 1, number, scope));
  if (!any)
    return "no case of this law has the declared extents and is causal as "
           "declared";
  if (law.domain.about == 0 || (law.domain.subject != Subject::kAttention &&
                                law.domain.subject != Subject::kBackward))
    return "";
  // Draws keep to the declaration: an undeclared option is added by
  // constrain(), either always or hardly ever.
  constexpr int64_t kLooks = 8;
  uint64_t missing = 0;
  for (int64_t number = 1; number <= kLooks; ++number) {
    const uint64_t options =
        options_of(planned_case(law, 1, number, scope)) & ~allowed_by(scope);
    if (options == 0) return "";
    missing |= options;
  }
  return "not declared: " + option_names(missing);
}

bool is_stress(const Case& value) {
  const auto wild = [](const Recipe& recipe) {
    return (recipe.kind == RecipeKind::kLargeN && recipe.parameter > 2) ||
           (recipe.kind == RecipeKind::kOffsetN && recipe.parameter > 4) ||
           recipe.kind == RecipeKind::kDominantN ||
           recipe.kind == RecipeKind::kHeavy;
  };
  return wild(value.q) || wild(value.k) || wild(value.v) || wild(value.x) ||
         wild(value.w) || wild(value.d_o) || value.file != 0 ||
         (value.score_bias && is_of_bias_alone(value.score_bias->kind));
}

int64_t sum_of_extents(const Shape& s) {
  return s.B + s.H + s.Hkv + s.Tq + s.Tk + s.d + s.dv;
}

}  // namespace qkvet::properties
