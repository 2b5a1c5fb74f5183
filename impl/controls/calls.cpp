// SPDX-License-Identifier: Apache-2.0
// Controls with unusual sets of calls: one refuses pairs of options, some take
// only pages, one gathers a packed batch, one is in f64; and one keeps the
// resources that a process may keep.
#include <fcntl.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "impl/call/in_f32.h"
#include "impl/call/scratch.h"
#include "impl/call/tensor_view.h"
#include "impl/controls/control.h"
#include "impl/skeletons/f64_rows.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr Arithmetic kPlainest = {};

// Takes a mask, a bias or the causal rule, but only one of them a call, like
// PyTorch's attention.
qkvet_status supports_either(const qkvet_kernel* self,
                             const qkvet_forward_args* args, qkvet_text* why) {
  qkvet_forward_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  const int hiding = !is_absent(known.mask) + !is_absent(known.bias) +
                     (known.causal != QKVET_CAUSAL_NONE);
  return hiding > 1 ? refuse(why, QKVET_UNSUPPORTED,
                             "one of mask, bias and the causal rule is taken a "
                             "call")
                    : supports_forward(self, args, why);
}

constexpr qkvet_capabilities kEitherCapabilities =
    flagged(kDeclaredCapabilities<kPlainest>,
            QKVET_FLAG_MASK_OR_BIAS | QKVET_FLAG_BIAS_OR_CAUSAL);

constexpr qkvet_dialect kEitherDialect = [] {
  qkvet_dialect d = options_dialect();
  d.mask_and_causal = QKVET_MASK_AND_CAUSAL_REFUSED;
  return d;
}();

constexpr Arithmetic kOnline16 = {.tile = 16};
using Serving = ServingKernel<ServingHooks, compute_arithmetic<kOnline16>>;
constexpr uint64_t kPages = (kAllOptions & ~QKVET_OPTION_PACKED) |
                            kServingOptions | QKVET_OPTION_PACKED_PAGES |
                            QKVET_OPTION_PAGED_CSR | QKVET_OPTION_INT32_LENGTHS;

template <ForwardFunction kForward, const qkvet_capabilities& kCapabilities>
constexpr qkvet_kernel kServes = serving_kernel("", "", {},
                                                &kDeclaredPrecision<kOnline16>,
                                                kForward, &kCapabilities);

// Keys and values only in pages of 4 or 16 tokens, as in most kernels of
// servers.
constexpr qkvet_capabilities kPagesCapabilities = [] {
  qkvet_capabilities c =
      flagged(capabilities_with(kPages, {kF32, kBf16}), QKVET_FLAG_PAGES_ONLY);
  c.page_size_count = 2;
  c.page_sizes[0] = 4;
  c.page_sizes[1] = 16;
  return c;
}();

qkvet_status supports_pages(const qkvet_kernel* self,
                            const qkvet_forward_args* args, qkvet_text* why) {
  ServingCall serving;
  QKVET_TRY(read_serving(self, args, &serving, why));
  return serving.page_size == 4 || serving.page_size == 16
             ? QKVET_OK
             : refuse(why, QKVET_UNSUPPORTED,
                      "k and v must be pages of 4 or 16 tokens");
}

// Keys only in groups of channels, in contiguous pages of 8, 16 or 32 tokens,
// one query each: as in vLLM's paged_attention_v1. The only stride that is read
// is the one between pages; a group is read at once, and its address must be a
// multiple of its 16 bytes.
struct GroupsInOnePiece : ServingHooks {
  static int64_t channel(const ServingCall& s, int64_t h, Slot slot,
                         int64_t c) {
    const int64_t groups = s.call.width / s.group;
    const int64_t group = (h * groups + c / s.group) * s.page_size + slot.row;
    return slot.block * s.k.step[0] + group * s.group + c % s.group;
  }
};
using GroupedServing =
    ServingKernel<GroupsInOnePiece, compute_arithmetic<kOnline16>>;

constexpr qkvet_capabilities kGroupsCapabilities = [] {
  constexpr int64_t kTokens[] = {8, 16, 32};
  qkvet_capabilities c = capabilities_with(
      QKVET_OPTION_CAUSAL_BOTTOM_RIGHT | QKVET_OPTION_SCALE |
          QKVET_OPTION_GROUPED_HEADS | QKVET_OPTION_CROSS_LENGTHS |
          QKVET_OPTION_LENGTHS | QKVET_OPTION_ALIBI | QKVET_OPTION_PAGED |
          QKVET_OPTION_PAGED_CHANNEL_GROUPS,
      {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_PAGES_ONLY | QKVET_FLAG_CHANNEL_GROUPS_ONLY;
  c.layouts = QKVET_LAYOUT_BHTD | QKVET_LAYOUT_BTHD;
  c.alignment = 16;
  c.d.multiple = 8;
  c.tq.max = 1;
  for (const int64_t tokens : kTokens) {
    c.page_sizes[c.page_size_count++] = tokens;
  }
  return c;
}();

qkvet_status supports_groups(const qkvet_kernel* self,
                             const qkvet_forward_args* args, qkvet_text* why) {
  ServingCall serving;
  QKVET_TRY(read_serving(self, args, &serving, why));
  return serving.group > 0 ? QKVET_OK
                           : refuse(why, QKVET_UNSUPPORTED,
                                    "keys must be in groups of channels");
}

qkvet_status forward_groups(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  constexpr uintptr_t kGroupBytes = 16;
  return reinterpret_cast<uintptr_t>(first_element(args->k)) % kGroupBytes == 0
             ? GroupedServing::forward(self, context, args, exec, why)
             : refuse(why, QKVET_INVALID_ARGUMENT,
                      "a key begins at no multiple of 16 bytes");
}

// As in the decoding kernels of MLA: one cache in pages; a key is a row and its
// value the beginning of that row. v is not read.
constexpr qkvet_capabilities kLatentCapabilities = [] {
  qkvet_capabilities c =
      flagged(capabilities_with(kCommonOptions | QKVET_OPTION_LENGTHS |
                                    QKVET_OPTION_PAGED |
                                    QKVET_OPTION_VALUES_IN_KEYS | kListOptions,
                                {kF32, kBf16}),
              QKVET_FLAG_PAGES_ONLY | QKVET_FLAG_VALUES_IN_KEYS_ONLY);
  c.tq = {1, 2, 1};
  return c;
}();

qkvet_status forward_latent(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  qkvet_forward_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  known.struct_size = sizeof(known);
  known.v.data = known.k.data;
  known.v.byte_offset = known.k.byte_offset;
  known.v.strides = known.k.strides;
  return Serving::forward(self, context, &known, exec, why);
}

// A packed batch over pages, as in systems that support only packed batches:
// the keys of all members are gathered next to each other, from the last member
// to the first and each from its end, for one packed call. A batch that is not
// packed takes the usual path.
template <class T>
void gather_backwards(const ServingCall& s, const Stored& from, int64_t width,
                      T* to, View<const T>* rows) {
  const int64_t total = s.all[static_cast<size_t>(s.members())];
  const T* const data = static_cast<const T*>(from.data);
  for (int64_t m = s.members() - 1; m >= 0; --m) {
    const int64_t first = s.all[static_cast<size_t>(m)];
    for (int64_t j = s.held(m) + s.new_tokens - 1; j >= 0; --j) {
      const Slot slot = s.slot(m, j);
      for (int64_t h = 0; h < s.call.kv_heads; ++h) {
        const T* const row = data + from.index(slot.block, h, slot.row, 0);
        for (int64_t c = 0; c < width; ++c) {
          to[(h * total + first + j) * width + c] = row[c * from.step[3]];
        }
      }
    }
  }
  *rows = {to, {0, total * width, width, 1}};
}

template <class T>
void gather_all(const ServingCall& s, char* memory, View<const T>* k,
                View<const T>* v) {
  const int64_t total = s.all[static_cast<size_t>(s.members())];
  T* const rows = reinterpret_cast<T*>(memory);
  gather_backwards(s, s.k, s.call.width, rows, k);
  gather_backwards(s, s.v, s.call.value_width,
                   rows + s.call.kv_heads * total * s.call.width, v);
}

qkvet_status forward_gathered_batch(const qkvet_kernel* self,
                                    qkvet_context* context,
                                    const qkvet_forward_args* args,
                                    const qkvet_exec* exec, qkvet_text* why) {
  ServingCall s;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_serving(self, args, &s, why));
  if (!s.packed()) {
    return Serving::forward(self, context, args, exec, why);
  }
  QKVET_TRY(check_serving(&s, why));
  QKVET_TRY(check_positions(s.call, why));
  for (int64_t m = s.members() - 1; m >= 0; --m) {
    ServingHooks::append(s, m);
  }
  const int64_t bytes = s.all[static_cast<size_t>(s.members())] *
                        s.call.kv_heads * (s.call.width + s.call.value_width) *
                        bytes_of(s.call.storage);
  std::unique_ptr<char[]> memory;
  QKVET_TRY(allocate(bytes, &memory, why, "no memory to gather the pages"));
  if (s.call.storage == Storage::kF32) {
    gather_all(s, memory.get(), &s.call.k, &s.call.v);
  } else {
    gather_all(s, memory.get(), &s.call.half.k, &s.call.half.v);
  }
  return compute_in_f32(s.call, compute_arithmetic<kOnline16>, why);
}

// Pages only in lists, as in FlashInfer.
constexpr qkvet_capabilities kCsrOnly = flagged(
    capabilities_with((kAllOptions & ~QKVET_OPTION_PACKED) |
                          QKVET_OPTION_LENGTHS | QKVET_OPTION_APPEND |
                          QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR,
                      {kF32, kF16}),
    QKVET_FLAG_PAGES_ONLY);

constexpr qkvet_capabilities kGatheredBatch =
    capabilities_with(kPages, {kF32, kBf16});

// As jax.nn.dot_product_attention in f64: scores become f32, and weights are
// f64 again.
struct SoftmaxInF32 : F64Hooks {
  static double softmax(double max, int64_t n, double* w, double* sum) {
    const auto top = static_cast<float>(max);
    float total = 0;
    for (int64_t j = 0; j < n; ++j) {
      const float weight = std::exp(static_cast<float>(w[j]) - top);
      total += weight;
      w[j] = weight;
    }
    for (int64_t j = 0; j < n; ++j) {
      w[j] = static_cast<float>(w[j]) / total;
    }
    *sum = 1;
    return top + std::log(total);
  }
};

constexpr qkvet_precision kSoftmaxInF32 = [] {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.preset = QKVET_PRECISION_CPU_F32;
  p.declared = QKVET_KNOB_DOT_SUM | QKVET_KNOB_NORM | QKVET_KNOB_SOFTMAX_DTYPE;
  p.dot_sum = QKVET_SUM_LANES;
  p.dot_lanes = 1;
  p.norm_roundings = 1;
  p.norm_first = 1;
  p.softmax_dtype = kF32;
  return p;
}();

// Two waiting threads, an open file, and room for the last calls, which is full
// after a hundred of them.
class KeptByProcess {
 public:
  KeptByProcess() {
    for (int n = 0; n < 2; ++n) {
      std::thread([this] {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [] { return false; });
      }).detach();
    }
    static_cast<void>(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  void keep(int64_t rows) {
    constexpr size_t kMost = 100;
    const std::lock_guard lock(mutex_);
    calls_.emplace_back(static_cast<size_t>(rows % 1000 + 1));
    if (calls_.size() > kMost) {
      calls_.pop_front();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::vector<float>> calls_;
};

qkvet_status forward_keeping(const qkvet_kernel* self, qkvet_context* context,
                             const qkvet_forward_args* args,
                             const qkvet_exec* exec, qkvet_text* why) {
  // Never destroyed, because its threads wait in it.
  static KeptByProcess& kept = *new KeptByProcess;
  QKVET_TRY(kRowForward<Controlled>(self, context, args, exec, why));
  kept.keep(args->q.shape[2]);  // only now are the extents known
  return QKVET_OK;
}

}  // namespace

QKVET_CONTROL(one_mask_a_call, "refuses two of mask, bias and causal",
              kArithmeticKernel<kPlainest>, &qkvet_kernel::capabilities,
              &kEitherCapabilities, &qkvet_kernel::dialect, &kEitherDialect,
              &qkvet_kernel::supports, supports_either, &qkvet_kernel::forward,
              forward_if<kRowForward<Controlled>, supports_either>);

QKVET_CONTROL(
    pages_only, "pages of 4 or 16 tokens and nothing else",
    kServes<forward_if<Serving::forward, supports_pages>, kPagesCapabilities>,
    &qkvet_kernel::supports, supports_pages);

QKVET_CONTROL(
    channel_groups_only,
    "keys in groups of channels, pages in one piece, one query",
    kServes<forward_if<forward_groups, supports_groups>, kGroupsCapabilities>,
    &qkvet_kernel::supports, supports_groups);

QKVET_CONTROL(values_in_keys_only,
              "one cache in pages, values are the begin of a key, two queries",
              kServes<forward_latent, kLatentCapabilities>);

QKVET_CONTROL(csr_only, "pages in lists, in no block table and in no rows",
              kServes<Serving::forward, kCsrOnly>);

QKVET_CONTROL(
    gathered_batch,
    "gathers the pages of a packed batch backwards into one packed call",
    kServes<forward_gathered_batch, kGatheredBatch>);

QKVET_CONTROL(keeps_what_it_may,
              "keeps threads, a file and its last hundred calls",
              kArithmeticKernel<kPlainest>, &qkvet_kernel::forward,
              forward_keeping);

// f64 storage and double arithmetic. It is judged by the double-double oracle
// with u = 2^-53.
QKVET_CONTROL(f64_plain, "f64 storage, sequential sums in double",
              f64_kernel<F64Hooks>("", "", {}));

QKVET_CONTROL(f64_softmax_in_f32,
              "f64 storage, sums in double, a softmax in float",
              f64_kernel<SoftmaxInF32, kSoftmaxInF32>("", "", {}));

}  // namespace qkvet::impl
