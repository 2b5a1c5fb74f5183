// SPDX-License-Identifier: Apache-2.0
// Every correct layer with fused matrices, a mask buffer and weights. That
// these questions can fail is what layer_faults_test.cpp shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "impl/testing/layer_fixture.h"

namespace qkvet::impl::layer_forms_test {
namespace {

const LayerProblem kGrouped = {.batch = 2,
                               .tokens = 4,
                               .model_width = 6,
                               .heads = 4,
                               .kv_heads = 2,
                               .width = 2,
                               .value_width = 3};

std::vector<LayerProblem> problems() {
  std::vector<LayerProblem> all;
  for (int32_t fused = QKVET_FUSED_NONE; fused <= QKVET_FUSED_VKQ; ++fused) {
    for (const int64_t context : {0, 4, 5, 9}) {
      for (const bool biases : {true, false}) {
        all.push_back(kGrouped);
        all.back().fused = fused;
        all.back().context = context;
        all.back().biases = biases;
        all.back().weights = true;
        all.back().unbatched = false;
      }
    }
  }
  return all;
}

TEST(LayerForms, EveryLayerAgreesWithDoubles) {
  for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
    for (const Storage type : kAllStorages) {
      for (LayerProblem problem : problems()) {
        problem.type = type;
        const Storage stage = stage_type(kernel, type);
        LayerTensors call(problem, stage);
        const LayerAnswer answer = run_layer(kernel, &call);
        ASSERT_EQ(answer.status, QKVET_OK) << kernel->name << answer.reason;
        EXPECT_EQ(answer.weights.size(), 2u * 4 * 4 * 4);
        EXPECT_LE(layer_error(answer, truth_of(call), problem, stage), 1)
            << kernel->name << " fused " << problem.fused << " context "
            << problem.context;
      }
    }
  }
}

struct Refusal {
  const char* reason;
  void (*spoil)(qkvet_layer_args*);
};

TEST(LayerForms, WhatContradictsItselfIsRefused) {
  static int64_t wide[] = {6, 15};
  const Refusal rows[] = {
      {"w_qkv has 15 columns, 18 are needed",
       [](qkvet_layer_args* a) { a->w_qkv.shape = wide; }},
      {"w_qkv or b_qkv, and no order of its parts",
       [](qkvet_layer_args* a) { a->fused = QKVET_FUSED_NONE; }},
      {"no order of w_qkv", [](qkvet_layer_args* a) { a->fused = 7; }},
      {"b_qkv is given with b_q, b_k and b_v, or none of them",
       [](qkvet_layer_args* a) { a->b_k = {}; }},
      {"mask_buffer and causal: the buffer is the rule alone",
       [](qkvet_layer_args* a) { a->causal = QKVET_CAUSAL_TOP_LEFT; }},
      {"mask_buffer: is not of bytes",
       [](qkvet_layer_args* a) { a->mask_buffer.dtype = kF32; }},
      {"mask_buffer: is not the causal mask", [](qkvet_layer_args* a) {
         static_cast<uint8_t*>(a->mask_buffer.data)[1] = 1;
       }}};
  for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
    LayerProblem problem = kGrouped;
    problem.fused = QKVET_FUSED_KVQ;
    problem.context = 5;
    LayerTensors call(problem, stage_type(kernel, problem.type));
    for (const Refusal& row : rows) {
      qkvet_layer_args args = call.args();
      EXPECT_EQ(run_layer(kernel, args).status, QKVET_OK);  // control
      args = call.args();
      row.spoil(&args);
      const LayerAnswer answer = run_layer(kernel, args);
      EXPECT_NE(answer.status, QKVET_OK) << kernel->name;
      EXPECT_EQ(answer.reason, row.reason) << kernel->name;
    }
    problem.context = 3;
    const LayerAnswer longer = answer_of(kernel, problem);
    EXPECT_EQ(longer.status, QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(longer.reason, "4 tokens, and mask_buffer is for 3");
  }
}

// Callers that were built before there were these fields.
TEST(LayerForms, AShorterStructIsACallWithoutThem) {
  for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
    LayerTensors call(kGrouped, stage_type(kernel, kGrouped.type));
    const LayerAnswer whole = run_layer(kernel, &call);
    qkvet_layer_args args = call.args();
    args.struct_size = offsetof(qkvet_layer_args, w_qkv);
    args.fused = 99;
    const LayerAnswer shorter = run_layer(kernel, args);
    EXPECT_EQ(shorter.status, QKVET_OK) << shorter.reason;
    EXPECT_EQ(call.y.values(), whole.y) << kernel->name;
    args.struct_size = sizeof(args);  // control
    EXPECT_NE(run_layer(kernel, args).status, QKVET_OK);
  }
}

}  // namespace
}  // namespace qkvet::impl::layer_forms_test
