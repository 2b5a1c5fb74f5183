// SPDX-License-Identifier: Apache-2.0
// What plan() and update() (qkvet/plan.h) are given of a call, and run() is
// not: its lengths and tables.
#ifndef QKVET_CORE_DOOR_PLAN_TENSORS_H_
#define QKVET_CORE_DOOR_PLAN_TENSORS_H_

#include "qkvet/kernel.h"

namespace qkvet {

struct PlanTensor {
  const char* name;
  qkvet_tensor qkvet_forward_args::*at;
};

inline constexpr PlanTensor kPlanTensors[] = {
    {"q_len", &qkvet_forward_args::q_len},
    {"kv_len", &qkvet_forward_args::kv_len},
    {"cu_seqlens_q", &qkvet_forward_args::cu_seqlens_q},
    {"cu_seqlens_k", &qkvet_forward_args::cu_seqlens_k},
    {"block_table", &qkvet_forward_args::block_table},
    {"page_indptr", &qkvet_forward_args::page_indptr},
    {"page_indices", &qkvet_forward_args::page_indices},
    {"last_page_len", &qkvet_forward_args::last_page_len}};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_PLAN_TENSORS_H_
