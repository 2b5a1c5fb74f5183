// SPDX-License-Identifier: Apache-2.0
#include "impl/cuda/launch.h"

#include <limits>

namespace qkvet::impl {

const char* tensor_on_cpu(qkvet_tensor* t) {
  if (is_absent(*t)) {
    return nullptr;
  }
  if (t->device_type != kDevice) {
    return kDevice == QKVET_DEVICE_CUDA
               ? "a tensor lies not on a CUDA device"
               : "a tensor lies not in memory of the CPU";
  }
  t->device_type = QKVET_DEVICE_CPU;
  return nullptr;
}

namespace {

const char* as_on_cpu(qkvet_forward_args* args) {
  qkvet_tensor* const tensors[] = {
#define QKVET_FORWARD_TENSOR(field, ...) &args->field,
#include "qkvet/tensors.def"
  };
  for (qkvet_tensor* const tensor : tensors) {
    if (const char* wrong = tensor_on_cpu(tensor)) {
      return wrong;
    }
  }
  return nullptr;
}

// Numbers of int64, or the int32 that the call has instead.
DeviceNumbers device_numbers(const View<const int64_t>& wide,
                             const ServingCall::NarrowList& narrow) {
  return narrow.given.data != nullptr
             ? DeviceNumbers{device_tensor(narrow.given), /*narrow=*/1}
             : DeviceNumbers{device_tensor(wide), /*narrow=*/0};
}

DeviceNumbers device_numbers(const View<const int32_t>& list) {
  return {device_tensor(list), /*narrow=*/1};
}

// The most keys of a member: the room in its row of a table or the list.
int64_t most_keys(const ServingCall& s) {
  const int64_t all = s.call.keys;
  return s.page_size > 0 && !s.csr() && s.columns <= all / s.page_size
             ? s.columns * s.page_size
             : all;
}

bool fits_int(const ServingCall& s, int64_t most) {
  const ForwardCall& c = s.call;
  for (const int64_t extent :
       {s.members() * c.heads, c.queries, c.keys, s.entries,
        c.options.lists.entries, c.options.lists.block}) {
    if (extent > most) {
      return false;
    }
  }
  return true;
}

void fill(const ServingCall& s, DeviceCall* call) {
  const ForwardCall& c = s.call;
  call->batch = static_cast<int>(s.members());
  call->heads = static_cast<int>(c.heads);
  call->kv_heads = static_cast<int>(c.kv_heads);
  call->group = static_cast<int>(c.group());
  call->queries = static_cast<int>(c.queries);
  call->keys = static_cast<int>(most_keys(s));
  call->width = static_cast<int>(c.width);
  call->value_width = static_cast<int>(c.value_width);
  const bool f32 = c.storage == Storage::kF32;
  call->q = f32 ? device_tensor(c.q) : device_tensor(c.half.q);
  call->o = f32 ? device_tensor(c.o) : device_tensor(c.half.o);
  call->k = {device_tensor(s.k), static_cast<int>(s.group), s.group_step};
  call->v = device_tensor(s.v);
  call->lse = device_tensor(c.lse);
  call->scale = c.scale;
  call->causal = c.causal ? 1 : 0;
  call->top_left = c.top_left ? 1 : 0;
  call->window_left = c.options.window_left;
  call->window_right = c.options.window_right;
  call->q_len = device_numbers(c.options.q_len, s.narrow_q_len);
  call->kv_len = device_numbers(s.before, s.narrow_kv_len);
  call->cu_q = device_numbers(c.options.cu_q, s.narrow_cu_q);
  call->table = device_tensor(s.table);
  call->starts = device_numbers(s.starts);
  call->list = device_numbers(s.list);
  call->last = device_numbers(s.last);
  call->page_size = static_cast<int>(s.page_size);
  call->k_new = device_tensor(s.k_new);
  call->v_new = device_tensor(s.v_new);
  call->new_tokens = static_cast<int>(s.new_tokens);
  call->slopes = {device_tensor(c.options.slopes), c.options.slopes.type};
  const KeyLists& lists = c.options.lists;
  call->lists = {device_tensor(lists.keys), device_tensor(lists.counts),
                 static_cast<int>(lists.entries), static_cast<int>(lists.group),
                 static_cast<int>(lists.block)};
}

}  // namespace

qkvet_status check_device(const qkvet_exec* exec, qkvet_text* why) {
  return exec == nullptr ||
                 (exec->device_type != 0 && exec->device_type != kDevice)
             ? refuse(why, QKVET_UNAVAILABLE,
                      "another device than this kernel's")
             : QKVET_OK;
}

qkvet_status read_served_call(const qkvet_kernel* self,
                              const qkvet_forward_args* args, int most,
                              ServingCall* serving, qkvet_text* why) {
  constexpr int64_t kMostOfGrid = 65535;  // blocks in y
  constexpr int64_t kMostTokens = std::numeric_limits<int>::max() / 2;
  qkvet_forward_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  known.struct_size = sizeof(known);
  if (const char* wrong = as_on_cpu(&known)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  QKVET_TRY(read_serving(self, &known, serving, why));
  const ForwardCall& c = serving->call;
  if (c.width > most || c.value_width > most) {
    return refuse(why, QKVET_UNSUPPORTED, "heads are wider than this kernel's");
  }
  if (serving->members() * c.heads > kMostOfGrid ||
      !fits_int(*serving, kMostTokens)) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "more heads or tokens than a grid has room for");
  }
  return QKVET_OK;
}

qkvet_status read_device_call(const qkvet_kernel* self,
                              const qkvet_forward_args* args, int most,
                              DeviceCall* call, Storage* type,
                              qkvet_text* why) {
  ServingCall serving;
  QKVET_TRY(read_served_call(self, args, most, &serving, why));
  fill(serving, call);
  *type = serving.call.storage;
  return QKVET_OK;
}

qkvet_status begin_device_call(const qkvet_kernel* self,
                               const qkvet_forward_args* args,
                               const qkvet_exec* exec, int most,
                               DeviceCall* call, Storage* type,
                               qkvet_text* why) {
  ServingCall serving;
  QKVET_TRY(check_device(exec, why));
  QKVET_TRY(read_served_call(self, args, most, &serving, why));
#if !defined(__CUDACC__)
  QKVET_TRY(check_serving(&serving, why));
#endif
  fill(serving, call);
  *type = serving.call.storage;
  return QKVET_OK;
}

}  // namespace qkvet::impl
