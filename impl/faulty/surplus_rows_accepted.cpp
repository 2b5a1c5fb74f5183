// SPDX-License-Identifier: Apache-2.0
// faulty/surplus_rows_accepted: a W_O that is too long is cut to fit.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct SurplusRowsAccepted : PlainLayer {
  static void cut(qkvet_layer_args* args, int64_t* shape) {
    const qkvet_tensor &v = args->w_v, &o = args->w_o;
    if (v.ndim != 2 || o.ndim != 2 || v.shape == nullptr ||
        o.shape == nullptr || args->kv_heads < 1) {
      return;
    }
    const int64_t rows = args->heads * (v.shape[1] / args->kv_heads);
    if (o.shape[0] > rows) {
      shape[0] = rows;
      shape[1] = o.shape[1];
      args->w_o.shape = shape;
    }
  }
};

constexpr const char* kKilledBy[] = {"mismatched_widths_are_refused", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "rows of W_O beyond H dv are ignored",
    .symptom =
        "a checkpoint of another model loads, and the layer computes something",
    .cause =
        "the loop runs over the columns of merged, and nothing compares them "
        "with W_O",
    .fix = "refuse matrices whose extents do not fit, and name both numbers",
    .source = "textbook",
    .trigger = "a W_O with more rows than H dv",
    .killed_by = kKilledBy,
    .when = "mistake == output_rows",
};

}  // namespace

extern constinit const qkvet_kernel faulty_surplus_rows_accepted =
    faulty_layer<SurplusRowsAccepted>(
        "faulty/surplus_rows_accepted", &kFault,
        {"impl/faulty/surplus_rows_accepted.cpp", __LINE__});

}  // namespace qkvet::impl
