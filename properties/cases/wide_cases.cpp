// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/wide_cases.h"

#include <algorithm>
#include <cstring>

#include "core/base/philox.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

enum class Axis { kKeys, kRows, kMembers, kHeads };

struct Edge {
  Axis axis;
  int64_t extent;
  uint64_t option = 0;  // that counts keys as well
};
// One beyond 2^6, 2^7, 2^8, 2^12, 2^15 and 2^16, the smaller ones first. Launch
// grids also end at 2^16.
constexpr std::array<Edge, 24> kEdges = {
    {{Axis::kMembers, 65},
     {Axis::kMembers, 129},
     {Axis::kHeads, 129},
     {Axis::kKeys, 257},
     {Axis::kRows, 257},
     {Axis::kMembers, 257},
     {Axis::kHeads, 257},
     {Axis::kKeys, 257, QKVET_OPTION_LENGTHS},
     {Axis::kKeys, 257, QKVET_OPTION_WINDOW},
     {Axis::kKeys, 257, QKVET_OPTION_PAGED},
     {Axis::kKeys, 4097},
     {Axis::kRows, 4097},
     {Axis::kMembers, 4097},
     {Axis::kHeads, 4097},
     {Axis::kKeys, 32769},
     {Axis::kRows, 32769},
     {Axis::kMembers, 32769},
     {Axis::kHeads, 32769},
     {Axis::kKeys, 65537},
     {Axis::kRows, 65537},
     {Axis::kMembers, 65537},
     {Axis::kHeads, 65537},
     {Axis::kKeys, 65537, QKVET_OPTION_LENGTHS},
     {Axis::kKeys, 65537, QKVET_OPTION_WINDOW}}};

// As expensive as the most expensive cases of a plan.
constexpr int64_t kMostOfCase = int64_t{1} << 22;
constexpr int64_t kCheap = 4097;  // extents
// An emulator of a GPU takes the blocks of a launch one by one.
constexpr int64_t kMostEmulatedRows = 8192;

Shape shape_at(const Edge& edge) {
  Shape s;
  s.B = s.H = s.Hkv = 1;
  s.Tq = 1;
  s.Tk = s.d = s.dv = 2;
  switch (edge.axis) {
    case Axis::kKeys:
      s.Tk = edge.extent;
      break;
    case Axis::kRows:
      s.Tq = edge.extent;
      break;
    case Axis::kMembers:
      s.B = edge.extent;
      break;
    case Axis::kHeads:
      s.H = s.Hkv = edge.extent;
      break;
  }
  return s;
}

int64_t extent_at(const Edge& edge, const Shape& s) {
  switch (edge.axis) {
    case Axis::kKeys:
      return s.Tk;
    case Axis::kRows:
      return s.Tq;
    case Axis::kMembers:
      return s.B;
    case Axis::kHeads:
      return s.Hkv;
  }
  return 0;
}

// Pages of one token for keys, so that there are as many pages; another option
// for the others.
void draw_one_option(Draw& draw, const Law& law, const Scope& scope,
                     const Edge& edge, Case& value) {
  const uint64_t allowed = allowed_in(law.domain) & allowed_by(scope);
  constexpr uint64_t kShapes =
      QKVET_OPTION_EMPTY_EXTENTS | QKVET_OPTION_PACKED |
      QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_APPEND | kOptionCalls |
      QKVET_OPTION_KEY_LIST_LENGTHS | QKVET_OPTION_ALIBI_PER_MEMBER |
      QKVET_OPTION_INT32_LENGTHS;
  if (edge.axis == Axis::kKeys && (allowed & QKVET_OPTION_PAGED) != 0) {
    draw_option(draw, QKVET_OPTION_PAGED, value);
    value.paging.size = 1;
    value.kv_len.clear();
    return;
  }
  const std::vector<uint64_t> bits = single_options(allowed & ~kShapes);
  if (!bits.empty())
    draw_option(draw,
                bits[static_cast<size_t>(
                    draw.range(0, static_cast<int64_t>(bits.size()) - 1))],
                value);
}

// An option with a number that equals the number of keys. With equal scores
// each key counts, so a number in too few bits, which leaves some out, is
// visible.
void draw_number(Draw& draw, const Edge& edge, Case& value) {
  draw_option(draw, edge.option, value);
  value.q = {RecipeKind::kZero, 0};
  value.v = make_recipe(RecipeKind::kCount);
  value.q_len.clear();
  value.kv_len.clear();
  if (edge.option == QKVET_OPTION_LENGTHS) value.kv_len = {edge.extent};
  if (edge.option == QKVET_OPTION_WINDOW)
    value.window = Window{edge.extent - 1, 0};
  if (edge.option == QKVET_OPTION_PAGED) value.paging.size = 1;
}

// If there are many keys, only the last one has a value: no storage type is too
// coarse for it.
std::optional<Case> draw_wide(Draw& draw, const Law& law, const Scope& scope,
                              const Edge& edge, bool with_option) {
  if ((allowed_in(law.domain) & allowed_by(scope) & edge.option) != edge.option)
    return std::nullopt;
  Case value;
  draw_dtype(draw, scope, value);
  value.shape = shape_at(edge);
  if (draw.chance(40)) value.causal = Causal::kBottomRight;
  if (with_option) draw_one_option(draw, law, scope, edge, value);
  if (edge.option != 0) draw_number(draw, edge, value);
  finish_options(draw, law, scope, value);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
  value.seed = draw.bits() >> 44;
  if (edge.axis == Axis::kKeys && edge.option == 0) {
    value.q = {RecipeKind::kLead, 0};
    value.k = {RecipeKind::kDominantN, value.shape.Tk - 1};
  }
  auto made = declared_case(law, scope, constrained(law, std::move(value)));
  if (!made || !keeps_pins(scope, *made) || !invalid_reason(*made).empty() ||
      extent_at(edge, made->shape) < edge.extent ||
      (options_of(*made) & edge.option) != edge.option ||
      work_of(made->shape) > kMostOfCase)
    return std::nullopt;
  return made;
}

// WideCases.
size_t turn_of(const Edge& edge, bool with_option) {
  if (edge.extent <= kCheap) return with_option ? 2 : 0;
  if (with_option) return 3;
  return edge.axis == Axis::kKeys && edge.option == 0 ? 0 : 1;
}

bool is_too_slow(const KernelInfo& kernel, const Shape& s) {
  return kernel.has_gpu_threads() && kernel.device() == QKVET_DEVICE_CPU &&
         s.B * s.H * s.Tq > kMostEmulatedRows;
}

}  // namespace

WideCases wide_cases(const PairPlan& plan) {
  WideCases out;
  const auto law =
      std::find_if(plan.laws.begin(), plan.laws.end(), [](const Law* one) {
        return std::strcmp(one->id, "agrees_with_oracle") == 0;
      });
  if (law == plan.laws.end() || plan.scope.largest != SizeClass::kLong)
    return out;
  constexpr uint64_t kStream = 0x77696465;  // separate from plans
  int64_t count = 0, cost = 0;
  for (const bool with_option : {false, true})
    for (uint64_t n = 0; n < kEdges.size(); ++n) {
      // The widest cost about a tenth of a second each: once.
      const bool is_cheap =
          kEdges[n].axis == Axis::kKeys || kEdges[n].extent <= kCheap;
      if (with_option && (!is_cheap || kEdges[n].option != 0)) continue;
      uint64_t next = 0;
      Draw draw([&] {
        return philox_u64(plan.seed, kStream, 2 * n + with_option, next++);
      });
      const auto value =
          draw_wide(draw, **law, plan.scope, kEdges[n], with_option);
      if (!value || count >= plan.most_cases ||
          cost + cost_of(*value) > plan.most_cost)
        continue;
      PairCase one{*law, *value, {}};
      for (const KernelInfo* kernel : plan.kernels)
        one.kernels.push_back(!is_too_slow(*kernel, value->shape) &&
                              is_asked(**law, *value, *kernel));
      if (std::count(one.kernels.begin(), one.kernels.end(), true) == 0)
        continue;
      ++count;
      cost += cost_of(*value);
      out[turn_of(kEdges[n], with_option)].push_back(std::move(one));
    }
  return out;
}

}  // namespace qkvet::properties
