// SPDX-License-Identifier: Apache-2.0
// Kernels that declare a CUDA device, launched on the fake driver: one that is
// right, and others that are the same but for one deed. All refuse tensors that
// do not lie on the device.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/testdata/fake_cuda.h"
#include "core/testdata/library.h"

namespace {

constexpr int kIllegalAddress = 700;
constexpr size_t kLeak = size_t{1} << 20;

const qkvet_host* g_host = nullptr;
fake_launch_function g_launch = nullptr;
fake_fail_function g_fail = nullptr;
fake_owns_function g_owns = nullptr;

// What a kernel on a device is given: all by value.
template <class T>
struct View {
  T* data = nullptr;
  int64_t step[4] = {};

  T& at(int64_t b, int64_t h = 0, int64_t i = 0, int64_t c = 0) const {
    return data[b * step[0] + h * step[1] + i * step[2] + c * step[3]];
  }
};

struct Job {
  void (*deed)(const Job&);  // after the attention
  bool reads_past_v, leaves_last_row;
  int64_t B, H, Hkv, Tq, Tk, Tnew, d, dv;
  View<float> q, k, v, o, lse, k_new, v_new;
  View<int64_t> q_len, kv_len;
  int64_t o_span, k_span, v_span;  // elements
  double scale;
  int causal;
  double* scores;  // the workspace: [Tk + 1]
};

int64_t span(const qkvet_tensor& t) {
  int64_t last = 0;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] == 0) return 0;
    if (t.shape[i] > 1) last += (t.shape[i] - 1) * t.strides[i];
  }
  return last + 1;
}

template <class T>
View<T> view(const qkvet_tensor& t) {
  View<T> view;
  view.data = data_of<T>(t);
  for (int i = 0; i < t.ndim; ++i)
    view.step[i] = t.shape[i] > 1 ? t.strides[i] : 0;
  return view;
}

void append(const Job& j, int64_t b) {
  for (int64_t h = 0; h < j.Hkv; ++h)
    for (int64_t n = 0; n < j.Tnew; ++n) {
      const int64_t at = j.kv_len.at(b) + n;
      for (int64_t c = 0; c < j.d; ++c)
        j.k.at(b, h, at, c) = j.k_new.at(b, h, n, c);
      for (int64_t c = 0; c < j.dv; ++c)
        j.v.at(b, h, at, c) = j.v_new.at(b, h, n, c);
    }
}

// Keys 0 .. end are seen.
void attend(const Job& j, int64_t b, int64_t h, int64_t i, int64_t end) {
  const int64_t g = h / (j.H / j.Hkv);
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t n = 0; n < end; ++n) {
    double dot = 0;
    for (int64_t c = 0; c < j.d; ++c)
      dot += double{j.q.at(b, h, i, c)} * double{j.k.at(b, g, n, c)};
    j.scores[n] = dot * j.scale;
    most = std::max(most, j.scores[n]);
  }
  for (int64_t n = 0; n < end; ++n)
    sum += j.scores[n] = std::exp(j.scores[n] - most);
  for (int64_t c = 0; c < j.dv; ++c) {
    double o = 0;
    for (int64_t n = 0; n < end; ++n)
      o += j.scores[n] / sum * double{j.v.at(b, g, n, c)};
    if (j.reads_past_v) o += 0 * double{j.v.data[j.v_span]};
    j.o.at(b, h, i, c) = static_cast<float>(o);
  }
  if (j.lse.data != nullptr)
    j.lse.at(b, h, i) = static_cast<float>(most + std::log(sum));
}

void attention(void* data) {
  const Job& j = *static_cast<const Job*>(data);
  for (int64_t b = 0; b < j.B; ++b) {
    if (j.Tnew > 0) append(j, b);
    const int64_t rows = j.q_len.data != nullptr ? j.q_len.at(b) : j.Tq;
    const int64_t keys =
        j.kv_len.data != nullptr ? j.kv_len.at(b) + j.Tnew : j.Tk;
    for (int64_t h = 0; h < j.H; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t diagonal =
            j.causal == QKVET_CAUSAL_BOTTOM_RIGHT ? i + keys - rows : i;
        const int64_t end = j.causal == QKVET_CAUSAL_NONE
                                ? keys
                                : std::clamp<int64_t>(diagonal + 1, 0, keys);
        if (j.leaves_last_row && i == rows - 1) continue;
        attend(j, b, h, i, end);
      }
  }
  j.deed(j);
}

constexpr auto kNothing = [](const Job&) {};
const std::map<std::string, void (*)(const Job&)> kDeeds = {
    {"good", kNothing},
    {"past_o", [](const Job& j) { j.o.data[j.o_span] = 3; }},
    {"far_past_o", [](const Job& j) { j.o.data[j.o_span + 2000] = 3; }},
    {"before_o", [](const Job& j) { j.o.data[-1] = 3; }},
    {"into_k",
     [](const Job& j) {
       if (j.k_span > 0) j.k.data[2 % j.k_span] += 1;
     }},
    {"past_k", [](const Job& j) { j.k.data[j.k_span] = 3; }},
    // Only if rows are three elements apart.
    {"into_gap",
     [](const Job& j) {
       if (j.o.step[2] == j.dv + 3 && (j.H == 1 || j.o.step[1] > j.o.step[2]))
         j.o.data[j.dv] = 3;
     }},
    {"past_workspace", [](const Job& j) { j.scores[j.Tk + 1] = 3; }},
    {"fails", [](const Job&) { g_fail(kIllegalAddress); }},
    {"read_past_v", kNothing},
    {"unwritten", kNothing},
    {"leaks", kNothing},
    {"show_stream", kNothing},
    {"reads_on_host", kNothing},
    {"host_table", kNothing},
    {"zero_gradient", kNothing}};

// Every function of the host's table once, there and back.
const char* host_table_problem() {
  const qkvet_host& host = *g_host;
  const char sent[8] = "seven..";
  char back[8] = {};
  void* const a = host.device_alloc(host.self, QKVET_DEVICE_CUDA, 0, 8);
  void* const b = host.device_alloc(host.self, QKVET_DEVICE_CUDA, 0, 8);
  if (a == nullptr || b == nullptr) return "device_alloc gives nothing";
  if (g_owns(a, 8) == 0) return "device_alloc gives memory of the host";
  if (host.device_copy(host.self, a, sent, 8) != QKVET_OK ||
      host.device_copy(host.self, b, a, 8) != QKVET_OK ||
      host.device_fill(host.self, b, 'x', 2) != QKVET_OK ||
      host.device_copy(host.self, back, b, 8) != QKVET_OK ||
      host.device_sync(host.self, QKVET_DEVICE_CUDA, 0) != QKVET_OK)
    return "a function of the host fails";
  if (std::strcmp(back, "xxven..") != 0) return "other bytes come back";
  if (host.device_alloc(host.self, QKVET_DEVICE_CPU, 0, 8) != nullptr ||
      host.device_alloc(host.self, QKVET_DEVICE_CUDA, 1, 8) != nullptr ||
      host.device_sync(host.self, QKVET_DEVICE_CUDA, 1) != QKVET_UNSUPPORTED)
    return "a device that is not there is offered";
  host.device_free(host.self, QKVET_DEVICE_CUDA, 0, a);
  host.device_free(host.self, QKVET_DEVICE_CUDA, 0, b);
  return g_owns(a, 8) == 0 ? nullptr : "device_free leaves it";
}

const char* foreign(const qkvet_forward_args* a, const qkvet_exec* exec) {
  for (const qkvet_tensor* t : {&a->q, &a->k, &a->v, &a->o, &a->lse, &a->k_new,
                                &a->v_new, &a->q_len, &a->kv_len}) {
    if (t->ndim == 0) continue;
    if (t->device_type != QKVET_DEVICE_CUDA) return "a tensor of the CPU";
    const auto bytes = static_cast<size_t>(span(*t) * (t->dtype.bits / 8));
    if (g_owns(t->data, bytes) == 0) return "a tensor in memory of the host";
  }
  if (exec->device_type != QKVET_DEVICE_CUDA) return "not run on the device";
  return g_owns(exec->workspace, exec->workspace_size) == 0
             ? "a workspace in memory of the host"
             : nullptr;
}

qkvet_status workspace(const qkvet_kernel*, qkvet_context*,
                       const qkvet_forward_args* a, size_t* bytes) {
  *bytes = static_cast<size_t>(a->k.shape[2] + 1) * sizeof(double);
  return QKVET_OK;
}

Job job_of(const qkvet_forward_args* a, const qkvet_exec* exec) {
  Job j{};
  j.B = a->q.shape[0];
  j.H = a->q.shape[1];
  j.Hkv = a->k.shape[1];
  j.Tq = a->q.shape[2];
  j.Tk = a->k.shape[2];
  j.Tnew = a->k_new.ndim > 0 ? a->k_new.shape[2] : 0;
  j.d = a->q.shape[3];
  j.dv = a->v.shape[3];
  j.q = view<float>(a->q);
  j.k = view<float>(a->k);
  j.v = view<float>(a->v);
  j.o = view<float>(a->o);
  j.lse = view<float>(a->lse);
  j.k_new = view<float>(a->k_new);
  j.v_new = view<float>(a->v_new);
  j.q_len = view<int64_t>(a->q_len);
  j.kv_len = view<int64_t>(a->kv_len);
  j.o_span = span(a->o);
  j.k_span = span(a->k);
  j.v_span = span(a->v);
  j.scale = a->scale_given != 0 ? double{a->scale}
                                : 1 / std::sqrt(static_cast<double>(j.d));
  j.causal = a->causal;
  j.scores = static_cast<double*>(exec->workspace);
  return j;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* a, const qkvet_exec* exec,
                     qkvet_text* why) {
  if (const char* wrong = foreign(a, exec))
    return say(why, QKVET_INVALID_ARGUMENT, wrong);
  if (is(self, "show_stream"))
    return say(why, QKVET_INVALID_ARGUMENT,
               exec->stream == nullptr ? "default" : "its own");
  if (is(self, "host_table"))
    if (const char* wrong = host_table_problem())
      return say(why, QKVET_INTERNAL, wrong);
  if (is(self, "reads_on_host"))  // as on the CPU
    return *data_of<volatile float>(a->q) > 0 ? QKVET_OK : QKVET_INTERNAL;
  if (is(self, "leaks") && g_host->device_alloc(g_host->self, QKVET_DEVICE_CUDA,
                                                0, kLeak) == nullptr)
    return say(why, QKVET_OUT_OF_MEMORY, "the device is full");
  Job job = job_of(a, exec);
  job.deed = kDeeds.at(self->name + std::strlen("device/"));
  job.reads_past_v = is(self, "read_past_v");
  job.leaves_last_row = is(self, "unwritten");
  if (g_launch(exec->stream, attention, &job, sizeof job) != 0)
    return say(why, QKVET_INTERNAL, "the launch failed");
  return QKVET_OK;
}

// Gradients of nothing: zeros, written on the device, if o and lse lie there.
struct Zeros {
  float* data[3];
  int64_t count[3];
};
void write_zeros(void* data) {
  const Zeros& zeros = *static_cast<const Zeros*>(data);
  for (int n = 0; n < 3; ++n) std::fill_n(zeros.data[n], zeros.count[n], 0.0F);
}

qkvet_status backward(const qkvet_kernel*, qkvet_context*,
                      const qkvet_backward_args* args, const qkvet_exec* exec,
                      qkvet_text* why) {
  if (const char* wrong = foreign(args->forward, exec))
    return say(why, QKVET_INVALID_ARGUMENT, wrong);
  Zeros zeros;
  int n = 0;
  for (const qkvet_tensor* t : {&args->d_q, &args->d_k, &args->d_v}) {
    zeros.data[n] = data_of<float>(*t);
    zeros.count[n++] = span(*t);
  }
  return g_launch(exec->stream, write_zeros, &zeros, sizeof zeros) == 0
             ? QKVET_OK
             : QKVET_INTERNAL;
}
qkvet_status gradient_workspace(const qkvet_kernel*, qkvet_context*,
                                const qkvet_backward_args*, size_t* bytes) {
  *bytes = sizeof(double);
  return QKVET_OK;
}
const qkvet_backward_table kGradient = {sizeof(qkvet_backward_table), 0,
                                        gradient_workspace, backward, nullptr};

// The harness has opened the driver before.
qkvet_status open(const qkvet_kernel*, const qkvet_exec* exec, qkvet_context**,
                  qkvet_text* why) {
  const char* const path = std::getenv("QKVET_CUDA_DRIVER");
  void* const fake = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (fake == nullptr || exec->device_type != QKVET_DEVICE_CUDA)
    return say(why, QKVET_UNAVAILABLE, "open() was called without a device");
  g_launch = reinterpret_cast<fake_launch_function>(dlsym(fake, "fakeLaunch"));
  g_fail = reinterpret_cast<fake_fail_function>(dlsym(fake, "fakeFail"));
  g_owns = reinterpret_cast<fake_owns_function>(dlsym(fake, "fakeOwns"));
  return QKVET_OK;
}

Library g_library;
qkvet_capabilities g_capabilities, g_with_dropout;
qkvet_dialect g_dialect;

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char*,
                                   qkvet_library* out, qkvet_text*) {
  g_host = host;
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.devices = UINT64_C(1) << QKVET_DEVICE_CUDA;
  g_capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES | QKVET_LAYOUT_PACKED_QKV;
  g_capabilities.options =
      QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
      QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_LSE |
      QKVET_OPTION_GROUPED_HEADS | QKVET_OPTION_VALUE_WIDTH |
      QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_EMPTY_EXTENTS |
      QKVET_OPTION_LENGTHS | QKVET_OPTION_APPEND;
  g_with_dropout = g_capabilities;
  g_with_dropout.options |= QKVET_OPTION_DROPOUT;
  g_dialect.struct_size = sizeof g_dialect;
  g_dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  g_dialect.lse_base = QKVET_LSE_NATURAL;
  g_dialect.empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF;
  for (const auto& [name, deed] : kDeeds) {
    qkvet_kernel& kernel = g_library.add("device/" + name, g_capabilities);
    kernel.dialect = &g_dialect;
    kernel.open = open;
    kernel.workspace = workspace;
    kernel.forward = forward;
    if (name != "zero_gradient") continue;
    kernel.capabilities = &g_with_dropout;
    kernel.backward = &kGradient;
  }
  return g_library.give("device", out);
}
