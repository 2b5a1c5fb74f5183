// SPDX-License-Identifier: Apache-2.0
// paged_attention_v1() and paged_attention_v2() of vllm-project/vllm v0.6.6,
// csrc/cpu/attention.cpp, whole: one query a member against pages of 16
// tokens, keys in groups of channels (channel_group). The second one takes 512
// keys at a time and merges.
#include "adapter.h"

// Theirs, which needs torch_stub/ for PyTorch.
#include "theirs/vllm/csrc/cpu/attention.cpp"

namespace {

constexpr int64_t kPage = 16;
constexpr int64_t kPartition = 512;

at::ScalarType type_of(const qkvet_tensor& t) {
  if (t.dtype.bits == 32) return at::ScalarType::Float;
  return t.dtype.code == QKVET_DTYPE_BFLOAT ? at::ScalarType::BFloat16
                                            : at::ScalarType::Half;
}

// Lengths and slopes as they want them, and what is the same for both.
struct Paged {
  explicit Paged(const qkvet_forward_args& a)
      : type(type_of(a.q)),
        B(a.q.shape[0]),
        H(a.q.shape[1]),
        Hkv(a.k.shape[1]),
        d(a.q.shape[3]),
        x(a.channel_group),
        columns(a.block_table.shape[1]),
        scale(a.scale_given != 0 ? a.scale
                                 : 1 / std::sqrt(static_cast<double>(d))),
        out(foreign::data_of(a.o), {B, H, d}, type),
        query(foreign::data_of(a.q), {B, H, d}, type),
        k(foreign::data_of(a.k), {a.k.shape[0], Hkv, d / x, kPage, x}, type),
        v(foreign::data_of(a.v), {a.k.shape[0], Hkv, d, kPage}, type),
        table(foreign::data_of(a.block_table), {B, columns}),
        lengths(static_cast<size_t>(B)),
        seq_lens(lengths.data(), {B}) {
    for (size_t b = 0; b < lengths.size(); ++b)
      lengths[b] = static_cast<int>(
          reinterpret_cast<const int64_t*>(foreign::data_of(a.kv_len))[b]);
    if (a.slopes.data != nullptr)
      slopes.emplace(foreign::data_of(a.slopes), std::vector<int64_t>{H});
  }

  at::ScalarType type;
  int64_t B, H, Hkv, d, x, columns;
  double scale;
  torch::Tensor out, query, k, v, table;
  std::vector<int> lengths;
  torch::Tensor seq_lens;
  std::optional<torch::Tensor> slopes;
};

qkvet_status one_pass(const qkvet_kernel*, qkvet_context*,
                      const qkvet_forward_args* args, const qkvet_exec*,
                      qkvet_text*) {
  Paged p(*args);
  paged_attention_v1(p.out, p.query, p.k, p.v, p.Hkv, p.scale, p.table,
                     p.seq_lens, kPage, p.columns * kPage, p.slopes, "auto", 1,
                     1, 0, 0, 0, 0, 0);
  return QKVET_OK;
}

qkvet_status in_partitions(const qkvet_kernel*, qkvet_context*,
                           const qkvet_forward_args* args, const qkvet_exec*,
                           qkvet_text*) {
  Paged p(*args);
  const int64_t parts =
      std::max<int64_t>((p.columns * kPage + kPartition - 1) / kPartition, 1);
  const auto rows = static_cast<size_t>(p.B * p.H * parts);
  // Scratch that the function fills before it reads it: NaN shows if it does
  // not.
  std::vector<float> sums(rows, NAN), maxima(rows, NAN);
  std::vector<float> o(rows * static_cast<size_t>(p.d), NAN);
  torch::Tensor exp_sums(sums.data(), {p.B, p.H, parts});
  torch::Tensor max_logits(maxima.data(), {p.B, p.H, parts});
  torch::Tensor tmp_out(o.data(), {p.B, p.H, parts, p.d}, p.type);
  paged_attention_v2(p.out, exp_sums, max_logits, tmp_out, p.query, p.k, p.v,
                     p.Hkv, p.scale, p.table, p.seq_lens, kPage,
                     p.columns * kPage, p.slopes, "auto", 1, 1, 0, 0, 0, 0, 0);
  return QKVET_OK;
}

// Head widths 32, 192 and 256 are theirs as well, and no rule for all of them.
void declare(qkvet_capabilities& c) {
  c.options |= QKVET_OPTION_SCALE | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
               QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_GROUPED_HEADS |
               QKVET_OPTION_ALIBI | QKVET_OPTION_LENGTHS | QKVET_OPTION_PAGED |
               QKVET_OPTION_PAGED_CHANNEL_GROUPS;
  c.flags = QKVET_FLAG_PAGES_ONLY | QKVET_FLAG_CHANNEL_GROUPS_ONLY;
  c.tq = {1, 1, 1};
  c.d = {64, 128, 16};
  c.page_size_count = 1;
  c.page_sizes[0] = kPage;
  const qkvet_dtype types[] = {{QKVET_DTYPE_FLOAT, 32, 1},
                               {QKVET_DTYPE_FLOAT, 16, 1},
                               {QKVET_DTYPE_BFLOAT, 16, 1}};
  for (const qkvet_dtype type : types)
    c.dtypes[c.dtype_count++] = {type, type, type};
}

// Slots behind the last token are multiplied by a weight of 0; sums over no
// block are 0.
const qkvet_dialect kDialect = [] {
  qkvet_dialect dialect{};
  dialect.struct_size = sizeof dialect;
  dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  dialect.unowned_nonfinite = QKVET_UNOWNED_NOT_IGNORED;
  return dialect;
}();

// f32 between loads and stores, whatever the storage: weights are divided by
// their sum and not rounded. The second function stores the output of each 512
// keys in between, and declares nothing.
const qkvet_precision kF32 = [] {
  qkvet_precision p{};
  p.struct_size = sizeof p;
  p.preset = QKVET_PRECISION_CPU_F32;
  p.declared = QKVET_KNOB_TILE | QKVET_KNOB_NORM | QKVET_KNOB_P_DTYPE;
  p.norm_roundings = 1;
  p.norm_first = 1;
  return p;
}();

const qkvet_capabilities kCapabilities = foreign::capabilities_of(declare);
const qkvet_kernel kOnePass = [] {
  qkvet_kernel kernel = foreign::kernel_of("vllm/paged_v1", __FILE__, __LINE__,
                                           kCapabilities, one_pass, &kDialect);
  kernel.precision = &kF32;
  return kernel;
}();
const qkvet_kernel kInPartitions =
    foreign::kernel_of("vllm/paged_v2", __FILE__, __LINE__, kCapabilities,
                       in_partitions, &kDialect);

}  // namespace

FOREIGN_ENTRY("vllm", &kOnePass, &kInPartitions);
