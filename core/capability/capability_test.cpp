// SPDX-License-Identifier: Apache-2.0
#include "core/capability/capability.h"

#include <gtest/gtest.h>

#include "core/testing/capability_calls.h"

namespace qkvet::capability_test {
namespace {

std::string reason_of_kernel(
    const std::function<void(qkvet_capabilities&)>& change) {
  KernelInfo kernel = plain_kernel();
  change(kernel.capabilities);
  return reason_of(kernel, plain_call());
}

TEST(Capability, PlainCallIsAllowed) {
  EXPECT_EQ(reason([](auto&) {}), "");
}

TEST(Capability, EveryOptionIsNeeded) {
  expect_needed({
      {[](auto& c) { c.causal = Causal::kTopLeft; },
       QKVET_OPTION_CAUSAL_TOP_LEFT, "causal from the top left"},
      {[](auto& c) { c.causal = Causal::kBottomRight; },
       QKVET_OPTION_CAUSAL_BOTTOM_RIGHT, "causal from the bottom right"},
      {[](auto& c) { c.scale = 0.5f; }, QKVET_OPTION_SCALE, "a given scale"},
      {[](auto& c) { c.want_lse = true; }, QKVET_OPTION_LSE, "lse"},
      {[](auto& c) { c.want_weights = true; }, QKVET_OPTION_WEIGHTS, "weights"},
      {[](auto& c) { c.shape.Hkv = 1; }, QKVET_OPTION_GROUPED_HEADS,
       "grouped heads (Hkv < H)"},
      {[](auto& c) { c.shape.dv = 3; }, QKVET_OPTION_VALUE_WIDTH,
       "a value width (dv != d)"},
      {[](auto& c) { c.shape.Tk = 9; }, QKVET_OPTION_CROSS_LENGTHS,
       "cross lengths (Tq != Tk)"},
      {[](auto& c) { c.shape.B = 0; }, QKVET_OPTION_EMPTY_EXTENTS,
       "empty extents"},
  });
}

TEST(Capability, DefaultScaleIsAnOption) {
  const auto why = reason_of_kernel([](auto& c) { c.options = 0; });
  EXPECT_EQ(why, "the default scale is not declared");
}

TEST(Capability, DtypesGoTogether) {
  const auto halves = [](KernelCall& c) {
    c.q_dtype = c.kv_dtype = c.o_dtype = Dtype::kF16;
  };
  EXPECT_EQ(reason(halves), "q f16, kv f16, o f16 is not declared");
  KernelInfo kernel = plain_kernel();
  const auto f16 = dtype_to_abi(Dtype::kF16);
  kernel.capabilities.dtype_count = 1;
  kernel.capabilities.dtypes[0] = {f16, f16, f16};
  KernelCall call = plain_call();
  std::string why;
  EXPECT_FALSE(capability_allows(kernel, call, &why));
  halves(call);
  EXPECT_TRUE(capability_allows(kernel, call, &why)) << why;
  call.o_dtype = Dtype::kF32;
  EXPECT_FALSE(capability_allows(kernel, call, &why));
}

TEST(Capability, DeclaredExtentsMemoryAndLayouts) {
  using Declared = qkvet_capabilities;
  const struct {
    qkvet_extent_rule Declared::*rule;
    qkvet_extent_rule value;
    const char* why;
  } rules[] = {
      {&Declared::d, {0, 8, 0}, "d = 16 is above the declared 8"},
      {&Declared::dv, {32, 0, 0}, "dv = 16 is below the declared 32"},
      {&Declared::tq, {0, 0, 3}, "Tq = 8 is not a multiple of 3"},
      {&Declared::tk, {9, 0, 0}, "Tk = 8 is below the declared 9"},
      {&Declared::group, {2, 0, 0}, "H / Hkv = 1 is below the declared 2"},
      {&Declared::d, {16, 16, 16}, ""},
      {&Declared::b, {5, 0, 0}, "B = 1 is below the declared 5"},
      {&Declared::h, {0, 0, 3}, "H = 2 is not a multiple of 3"}};
  for (const auto& row : rules)
    EXPECT_EQ(reason_of_kernel([&](auto& c) { c.*row.rule = row.value; }),
              row.why);
  const std::pair<std::function<void(Declared&)>, const char*> others[] = {
      {[](auto& c) {
         c.width_count = 1;
         c.widths[0] = {16, 8};
       },
       "d = 16 with dv = 16 is no declared width"},
      {[](auto& c) { c.devices = 1 << 3; },
       "neither CPU nor CUDA memory is declared"},
      {[](auto& c) { c.devices = 1 << 2; }, ""},
      {[](auto& c) { c.devices = 1 << 1; }, ""},
      {[](auto& c) { c.layouts = QKVET_LAYOUT_BTHD; },
       "contiguous [B, H, T, d] is not declared"},
      {[](auto& c) { c.layouts = QKVET_LAYOUT_ANY_STRIDES; }, ""}};
  for (const auto& [change, why] : others)
    EXPECT_EQ(reason_of_kernel(change), why);
}

TEST(Capability, ADeviceIsAskedForForwardAlone) {
  KernelInfo kernel = plain_kernel();
  kernel.has_layer = kernel.has_cache = true;
  KernelCall layer = plain_call(), cache = plain_call();
  layer.operation = Operation::kLayer;
  layer.shape.D = 32;
  layer.x = layer.w_q = layer.w_k = layer.w_v = layer.w_o = layer.q;
  cache.operation = Operation::kCacheCreate;
  std::string why;
  for (const KernelCall& call : {layer, cache}) {
    EXPECT_TRUE(capability_allows(kernel, call, &why)) << why;
    kernel.capabilities.devices = uint64_t{1} << QKVET_DEVICE_CUDA;
    EXPECT_EQ(kernel.device(), QKVET_DEVICE_CUDA);
    EXPECT_FALSE(capability_allows(kernel, call, &why));
    EXPECT_EQ(why,
              "layers, caches and merges in memory of a device are not judged");
    // A kernel that also declares the CPU is called there.
    kernel.capabilities.devices |= uint64_t{1} << QKVET_DEVICE_CPU;
    EXPECT_EQ(kernel.device(), QKVET_DEVICE_CPU);
    EXPECT_TRUE(capability_allows(kernel, call, &why)) << why;
    kernel.capabilities.devices = 0;
  }
}

TEST(Capability, ContradictionsAreNoCalls) {
  expect_reasons(
      {{[](auto& c) { c.shape.H = 3; }, kAllOptions,
        "H is not a multiple of Hkv"},
       {[](auto& c) { c.shape.Tq = -1; }, kAllOptions, "an extent is negative"},
       {[](auto& c) { c.k = nullptr; }, 0, "an input is missing"},
       // No element, no pointer.
       {[](auto& c) {
          c.k = c.v = nullptr;
          c.shape.Tk = 0;
        },
        kAllOptions, ""}});
}

// Allowed by plain_kernel() with a plain layer.
KernelCall layer_call() {
  KernelCall call;
  call.operation = Operation::kLayer;
  call.shape = {1, 2, 2, 8, 8, 16, 16, 32};
  call.x = call.w_q = call.w_k = call.w_v = call.w_o = kData;
  return call;
}

KernelCall cache_call(Operation operation) {
  KernelCall call;
  call.operation = operation;
  call.shape = {1, 2, 2, 0, 3, 16, 16};
  call.k = call.v = kData;
  call.tokens = 9;
  return call;
}

// The reason of a kernel that has all tables, and these options.
std::string reason_of_tables(KernelCall call, const Change& change,
                             const std::function<void(KernelInfo&)>& allow) {
  KernelInfo kernel = plain_kernel();
  kernel.has_layer = kernel.has_cache = kernel.has_truncate = true;
  kernel.has_evict = true;
  allow(kernel);
  change(call);
  return reason_of(kernel, call);
}

struct TableRow {
  KernelCall call;
  Change change;
  std::function<void(KernelInfo&)> allow;
  const char* why;
};

template <uint64_t option>
void declare(KernelInfo& kernel) {
  kernel.capabilities.options |= option;
}
template <uint64_t option>
void declare_cache(KernelInfo& kernel) {
  kernel.cache_options |= option;
}
template <uint64_t option>
void declare_layer(KernelInfo& kernel) {
  kernel.layer_options |= option;
}

TEST(Capability, LayersAndCachesNeedTheirOptions) {
  const auto nothing = [](auto&) {};
  const KernelCall layer = layer_call();
  const KernelCall create = cache_call(Operation::kCacheCreate);
  const KernelCall step = cache_call(Operation::kCacheStep);
  const TableRow rows[] = {
      {layer, [](auto& c) { c.b_o = kData; }, declare_layer<QKVET_LAYER_BIASES>,
       "biases of a layer are"},
      {layer, [](auto& c) { c.want_stages = true; },
       declare_layer<QKVET_LAYER_STAGES>, "stages of a layer are"},
      {layer, [](auto& c) { c.unbatched = true; },
       declare_layer<QKVET_LAYER_UNBATCHED>, "an unbatched layer is"},
      {layer, [](auto& c) { c.w_qkv = kData, c.fused = FusedOrder::kVkq; },
       declare_layer<QKVET_LAYER_FUSED_VKQ>, "fused projections (vkq) are"},
      {layer, [](auto& c) { c.mask_buffer = kData, c.context = 9; },
       declare_layer<QKVET_LAYER_MASK_BUFFER>, "a mask buffer of a layer is"},
      {layer, [](auto& c) { c.want_weights = true; },
       declare_layer<QKVET_LAYER_WEIGHTS>, "weights of a layer are"},
      {layer, [](auto& c) { c.causal = Causal::kBottomRight; },
       declare<QKVET_OPTION_CAUSAL_BOTTOM_RIGHT>,
       "causal from the bottom right is"},
      {layer, [](auto& c) { c.shape.D = 0; },
       declare<QKVET_OPTION_EMPTY_EXTENTS>, "empty extents is"},
      {create, [](auto& c) { c.scale = 2; }, declare<QKVET_OPTION_SCALE>,
       "a given scale is"},
      {create, [](auto& c) { c.shape.Hkv = 1; },
       declare<QKVET_OPTION_GROUPED_HEADS>, "grouped heads (Hkv < H) is"},
      {create, [](auto& c) { c.shape.dv = 1; },
       declare<QKVET_OPTION_VALUE_WIDTH>, "a value width (dv != d) is"},
      {step, [](auto& c) { c.want_lse = true; }, declare<QKVET_OPTION_LSE>,
       "lse is"},
      {step, [](auto& c) { c.q = c.mask = kData, c.shape.Tq = 2; },
       declare_cache<QKVET_CACHE_MASK>, "a mask of a cache is"},
      {step, [](auto& c) { c.q = c.bias = kData, c.shape.Tq = 2; },
       declare_cache<QKVET_CACHE_BIAS>, "a bias of a cache is"},
  };
  for (const TableRow& row : rows) {
    EXPECT_EQ(reason_of_tables(row.call, nothing, nothing), "");
    EXPECT_EQ(reason_of_tables(row.call, row.change, nothing),
              row.why + std::string(" not declared"));
    EXPECT_EQ(reason_of_tables(row.call, row.change, row.allow), "");
  }
  // Only for forward(): a step has no causal mask and no scale of its own, and
  // its two lengths differ.
  const auto narrow = [](KernelInfo& kernel) {
    kernel.capabilities.options = 0;
    kernel.capabilities.tk = {9, 0, 0};
    kernel.capabilities.d = {16, 16, 0};
  };
  EXPECT_EQ(reason_of_tables(step, nothing, narrow), "");
  EXPECT_EQ(reason_of_tables(
                step, [](auto& c) { c.shape.d = c.shape.dv = 8; }, narrow),
            "d = 8 is below the declared 16");
}

TEST(Capability, TablesAreNeeded) {
  const auto nothing = [](auto&) {};
  const auto bare = [](KernelInfo& kernel) {
    kernel.has_forward = kernel.has_layer = kernel.has_cache = false;
  };
  EXPECT_EQ(reason_of_tables(plain_call(), nothing, bare),
            "no forward is declared");
  EXPECT_EQ(reason_of_tables(layer_call(), nothing, bare),
            "no layer is declared");
  for (const Operation operation :
       {Operation::kCacheCreate, Operation::kCacheStep, Operation::kCacheReset,
        Operation::kCacheTruncate}) {
    EXPECT_EQ(reason_of_tables(cache_call(operation), nothing, bare),
              "no cache is declared");
    EXPECT_EQ(reason_of_tables(cache_call(operation), nothing, nothing), "");
  }
  EXPECT_EQ(reason_of_tables(cache_call(Operation::kCacheTruncate), nothing,
                             [](auto& k) { k.has_truncate = false; }),
            "truncate is not offered");
  EXPECT_EQ(reason_of_tables(cache_call(Operation::kCacheEvict), nothing,
                             [](auto& k) { k.has_evict = false; }),
            "evict is not offered");
}

TEST(Capability, ContradictionsOfLayersAndCaches) {
  const KernelCall layer = layer_call();
  const KernelCall create = cache_call(Operation::kCacheCreate);
  const KernelCall step = cache_call(Operation::kCacheStep);
  const auto all = [](KernelInfo& kernel) {
    kernel.capabilities.options = kernel.layer_options = ~uint64_t{0};
  };
  const struct {
    KernelCall call;
    Change change;
    const char* why;
  } rows[] = {
      {layer, [](auto& c) { c.shape.Tk = 9; }, "a layer has Tq = Tk"},
      {layer, [](auto& c) { c.o_dtype = Dtype::kF16; },
       "a layer has one storage type"},
      {layer, [](auto& c) { c.w_o = nullptr; }, "an input is missing"},
      {layer, [](auto& c) { c.want_lse = true; }, "a layer gives no lse"},
      {layer, [](auto& c) { c.mistake = Mistake::kBiasExtent; },
       "an input is missing"},
      {layer, [](auto& c) { c.mistake = Mistake::kValueAbsent; },
       "a layer has no such mistake"},
      {layer, [](auto& c) { c.mistake = Mistake::kInputRows; }, ""},
      {create, [](auto& c) { c.shape.B = 257; }, "more than 256 sequences"},
      {create, [](auto& c) { c.tokens = -1; }, "the capacity is negative"},
      {step, [](auto& c) { c.shape.B = 2; }, "a step is one sequence's"},
      {step, [](auto& c) { c.v = nullptr; }, "an input is missing"},
      {step, [](auto& c) { c.mistake = Mistake::kHeads; },
       "step() has no such mistake"},
      {layer, [](auto& c) { c.mask = kData; },
       "only forward() and backward() take masks, lengths and layouts"},
      {step, [](auto& c) { c.layout = Layout::kFar; },
       "only forward() and backward() take masks, lengths and layouts"},
      // For the kernel to refuse.
      {step, [](auto& c) { c.mistake = Mistake::kValueAbsent; }, ""},
      {step, [](auto& c) { c.sequence = -1; }, ""},
      {step, [](auto& c) { c.shape.Tk = 0; }, ""},
  };
  for (const auto& row : rows)
    EXPECT_EQ(reason_of_tables(row.call, row.change, all), row.why);
}

}  // namespace
}  // namespace qkvet::capability_test
