// SPDX-License-Identifier: Apache-2.0
// qkvet replay --out: the folder shows the same failure without QKVet, and no
// failure of a right kernel, a right function or right numbers.
#include <gtest/gtest.h>

#include <ostream>

#include "cli/reproduce/emit_run.h"
#include "core/base/at_night.h"

namespace qkvet::cli::emit_test {
namespace {

namespace fs = std::filesystem;

struct Row {
  const char* name;
  const char* law;
  const char* text;     // of the case
  const char* kernel;   // and its declarations
  const char* library;  // "scalar", and
  const char* correct;  // a kernel of it that has not that fault
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// The report of a failure that is in the folder x afterwards.
std::string emit(const std::string& arguments, const fs::path& folder) {
  const Ran made =
      exits(1, run_qkvet(kReplay + arguments + " --out x --force", folder));
  return made.out;
}

Ran run(const std::string& words, const fs::path& folder) {
  return run_shell(python() + " x/run.py " + words, folder);
}

// The text after run.py in README.md: the failing kernel.
std::string kernel_words(const fs::path& folder) {
  return match(read_text(folder / "x" / "README.md"),
               "`python3 run.py ([^`]+)` runs the calls");
}

std::string library_path(const std::string& family) {
  return "'" + replaced(QKVET_SCALAR, "qkvet_scalar", "qkvet_" + family) + "'";
}

// Writes the right answer, or with an argument one with a wrong element of the
// first output that has bounds.
constexpr const char* kRight = R"(
import json, sys
import numpy as np
sys.path.insert(0, "x")
import run
np.seterr(all="ignore")
tensors, metadata = run.read_safetensors("x/call.safetensors")
header, data, at, spoilt = {"__metadata__": {}}, [], 0, len(sys.argv) < 2
for call in json.loads(metadata["calls"]):
    if "lengths" in call:
        header["__metadata__"][call["name"] + "/lengths"] = json.dumps(
            call["lengths"])
    if call["refusal"]:
        header["__metadata__"][call["name"] + "/refused"] = "as it must be"
        continue
    for name in call["outputs"]:
        path = call["name"] + "/" + name
        code = tuple(call["tensors"][name]["dtype"][:2])
        numbers = tensors[path + ".least"].copy()
        judged = np.isfinite(numbers) & (numbers < 1e30)
        if not spoilt and judged.any():
            numbers.ravel()[np.flatnonzero(judged)[-1]] += 1000
            spoilt = True
        if code == (4, 16):
            array = (numbers.astype(np.float32).view(np.uint32) >> 16).astype(
                np.uint16)
        else:
            array = numbers.astype(run.TYPES[code][0])
        header[path] = {"dtype": run.TYPES[code][1], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
        data.append(array.tobytes())
text = json.dumps(header).encode()
open("right.safetensors", "wb").write(
    len(text).to_bytes(8, "little") + text + b"".join(data))
)";

class Emit : public testing::TestWithParam<Row> {};

TEST_P(Emit, ShowsTheSameFailureAndNoneOfARightAnswer) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("emit");
  const std::string report = emit(
      std::string(row.text) + " --law " + row.law + " --kernel " + row.kernel,
      folder);
  const Ran recorded = exits(1, run("", folder));
  expect_shown(recorded.out, report);
  // The kernel gets the same bits and strides, so it computes the same numbers.
  const Ran bad = exits(1, run(kernel_words(folder), folder));
  EXPECT_EQ(bad.out, recorded.out);
  const Ran good =
      exits(0, run(library_path(row.library) + " " + row.correct, folder));
  EXPECT_EQ(good.out, "passed\n");
  write_text(folder / "right.py", kRight);
  ASSERT_EQ(run_shell(python() + " right.py", folder).exit, 0);
  const Ran right = exits(0, run("right.safetensors", folder));
  EXPECT_EQ(right.out, "passed\n");
  ASSERT_EQ(run_shell(python() + " right.py spoilt", folder).exit, 0);
  const Ran spoilt = run("right.safetensors", folder);
  // Calls that must be refused have no numbers.
  const bool has_numbers = std::string(row.name) != "refusal";
  EXPECT_EQ(spoilt.exit, has_numbers ? 1 : 0) << spoilt.out;
}

std::string name_of(const testing::TestParamInfo<Row>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Forward, Emit,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            {"tail_tile", "agrees_with_oracle", "f32,B1,H2,Tq3,Tk5,d4",
             "faulty/tail_tile_unmasked", "scalar", "scalar/plain"},
            {"strides", "agrees_with_oracle",
             "f32,B2,H2,Tq3,Tk5,d4,layout=bthd", "faulty/key_strides_assumed",
             "scalar", "scalar/plain"},
            // A kernel with a wrong declared dialect, and another one with a
            // right one.
            {"options", "agrees_with_oracle",
             "f16,B2,H4,Hkv2,Tq5,Tk7,d8,causal=br,window=3.1,mask=random70,"
             "bias=normal,softcap=3,sink=normal",
             "controls/dialect_softcap_after_bias --dialect ../before.txt",
             "scalar", "scalar/plain"},
            {"grouped", "agrees_with_oracle", "f32,B1,H6,Hkv3,Tq2,Tk3,d4",
             "faulty/key_head_modulo", "scalar", "scalar/plain"},
            {"packed", "agrees_with_oracle",
             "f32,B1,H2,Tq6,Tk7,d4,cuq=0.2.6,cuk=0.4.7",
             "faulty/packed_as_one_member", "scalar", "scalar/plain"},
            {"values_in_keys", "agrees_with_oracle",
             "f32,B2,H2,Tq3,Tk5,d6,dv4,values=keys",
             "faulty/values_at_end_of_keys", "scalar", "scalar/plain"},
            {"known", "weights_sum_to_one",
             "f32,B1,H2,Tq3,Tk4,d4,causal=tl,v=one",
             "faulty/mask_after_softmax", "scalar", "scalar/plain"},
            {"bf16", "agrees_with_oracle", "bf16,B1,H2,Tq3,Tk9,d4,dv3",
             "faulty/bf16_truncates", "scalar", "scalar/plain"},
            {"f16", "agrees_with_oracle", "f16,B1,H2,Tq3,Tk9,d4",
             "faulty/accumulates_in_half", "scalar", "scalar/plain"},
            {"pages", "agrees_with_oracle",
             "f32,B2,H2,Hkv1,Tq2,Tk9,d4,kvlen=9.6,page=4,append=2",
             "faulty/serving_length_before_append", "serving", "serving/paged"},
            {"f64", "agrees_with_oracle", "f64,B1,H2,Tq3,Tk4,d4",
             "faulty/f64_in_f32", "controls", "controls/f64_plain"},
            {"rope", "agrees_with_oracle",
             "f32,B2,H2,Tq3,Tk5,d4,rope=half.random",
             "faulty/rope_ignores_positions", "scalar", "scalar/plain"},
            {"alibi", "agrees_with_oracle",
             "f32,B2,H2,Tq4,Tk5,d4,causal=br,alibi=normal",
             "faulty/alibi_from_top_left", "scalar", "scalar/plain"},
            {"plan_update", "updated_plan_equals_new_plan",
             "f32,B2,H2,Hkv1,Tq3,Tk5,d4,causal=br,kvlen=2.4",
             "faulty/plan_lengths_kept", "serving", "serving/planned"},
            {"lengths", "agrees_with_oracle",
             "f32,B2,H2,Tq4,Tk5,d4,causal=br,qlen=3.4,kvlen=5.4",
             "faulty/diagonal_ignores_q_len", "scalar", "scalar/plain"},
            {"packed_pages", "agrees_with_oracle",
             "f32,B1,H2,Hkv1,Tq5,Tk9,d4,causal=br,cuq=0.2.3.5,cuk=0.4.6.9,"
             "page=2,append=1",
             "faulty/packed_pages_member_by_token", "serving", "serving/paged"},
            {"lists", "agrees_with_oracle",
             "f32,B2,H2,Hkv1,Tq2,Tk9,d4,causal=br,kvlen=9.6,page=4,"
             "table=csr,append=2",
             "faulty/csr_first_member_for_all", "serving", "serving/gathered"},
            {"two_plans", "plans_are_separate",
             "f32,B2,H1,Tq3,Tk5,d4,kvlen=2.4", "faulty/plan_workspace_shared",
             "serving", "serving/planned"},
            {"packed_lists", "agrees_with_oracle",
             "f32,B1,H2,Hkv1,Tq5,Tk9,d4,causal=br,cuq=0.2.3.5,cuk=0.4.6.9,"
             "page=2,table=csr",
             "faulty/csr_starts_of_next", "serving", "serving/paged"},
            {"plan_pages", "updated_plan_equals_new_plan",
             "f32,B2,H1,Tq2,Tk6,d4,kvlen=5.2,page=2",
             "faulty/plan_table_never_filled", "serving", "serving/planned"}},
        2)),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Layers, Emit,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            {"merge", "layer_agrees_with_oracle", "f32,B1,H2,Hkv1,T2,D4,d2",
             "faulty/heads_not_merged", "scalar", "scalar/layer"},
            {"unbatched", "layer_agrees_with_oracle",
             "f32,B1,H2,T3,D4,unbatched,biases=qkvo",
             "faulty/output_projection_transposed", "scalar", "scalar/layer"},
            {"refusal", "mismatched_widths_are_refused",
             "f32,B1,H1,T1,D1,x=zero,w=zero", "faulty/surplus_rows_accepted",
             "scalar", "scalar/layer"},
            // Another arithmetic in the stages: judged from end to end.
            {"rope", "layer_agrees_with_oracle",
             "f32,B1,H2,T3,D8,causal,rope=half",
             "faulty/output_projection_omitted", "eigen", "eigen/layer"},
            {"bf16", "layer_agrees_with_oracle", "bf16,B2,H2,Hkv1,T3,D4,d2",
             "faulty/split_without_transpose", "scalar", "scalar/layer"},
            {"f16", "layer_agrees_with_oracle",
             "f16,B2,H2,Hkv1,T3,D4,d2,biases=qkvo", "faulty/value_bias_ignored",
             "scalar", "scalar/layer"},
            {"exact", "split_and_merge_place_every_element",
             "f32,B1,H2,Hkv1,T2,D1,d1", "faulty/heads_not_merged", "scalar",
             "scalar/layer"}},
        2)),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Gradients, Emit,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            {"plain", "backward_agrees_with_oracle",
             "f32,B1,H2,Hkv1,Tq3,Tk4,d4,dv3,causal=br,backward",
             "faulty/backward_delta_missing", "scalar", "scalar/plain"},
            {"softcap", "backward_agrees_with_oracle",
             "f32,B1,H1,Tq2,Tk3,d2,softcap=2,backward",
             "faulty/backward_softcap_slope_missing", "scalar", "scalar/plain"},
            {"sink", "backward_agrees_with_oracle",
             "f32,B2,H2,Tq2,Tk3,d2,sink=normal,backward",
             "faulty/backward_sink_sign", "scalar", "scalar/plain"},
            {"mask", "backward_agrees_with_oracle",
             "f32,B1,H2,Tq3,Tk4,d3,scale=0.7,mask=random60,backward",
             "faulty/backward_mask_forgotten", "avx2", "avx2/flash"},
            {"strides", "backward_agrees_with_oracle",
             "f32,B1,H2,Tq3,Tk4,d3,dv5,layout=bthd,backward",
             "faulty/backward_lse_taken_for_base_2", "eigen", "eigen/plain"},
            {"lists", "backward_agrees_with_oracle",
             "f32,B1,H2,Hkv1,Tq3,Tk6,d2,keys=2x2.n,backward",
             "faulty/backward_lists_forgotten", "scalar", "scalar/plain"},
            // Two calls, each with its own truth.
            {"two_calls", "gradient_lists_equal_masks",
             "f32,B1,H1,Tq3,Tk5,d2,keys=2,backward",
             "faulty/backward_list_of_first_row", "scalar", "scalar/plain"}},
        2)),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Caches, Emit,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            {"truncate", "cache_agrees_with_history",
             "bf16,B2,H4,Hkv2,d4,dv3,cap9,story=step.a.3+append.b.2+"
             "truncate.a.1+step.a.2+attend.b.1",
             "faulty/cache_truncate_keeps_values", "kv_cache",
             "kv_cache/contiguous"},
            {"rope", "cache_agrees_with_history",
             "f16,B2,H4,Hkv2,d4,cap9,rope=interleaved,story=step.a.3+step.b.2+"
             "step.a.2+fork.a.b+step.b.1",
             "faulty/cache_rope_restarts", "kv_cache", "kv_cache/paged"},
            {"reorder", "cache_agrees_with_history",
             "f32,B3,H1,d1,cap2,q=zero,k=zero,v=one,story=append.a.1+"
             "reorder.cac+step.b.1",
             "faulty/cache_reorder_in_place", "kv_cache",
             "kv_cache/contiguous"},
            {"window", "cache_agrees_with_history",
             "f32,B1,H2,d4,cap9,win3,first1,rollback2,story=step.a.5+"
             "truncate.a.4+step.a.2",
             "faulty/cache_first_tokens_forgotten", "kv_cache",
             "kv_cache/ring"},
            {"read_back", "cache_stores_what_it_is_given",
             "f32,B1,H2,d1,cap1,stored=int8channel,q=zero,k=zero,story=step.a."
             "1",
             "faulty/cache_scale_of_first_head", "kv_cache",
             "kv_cache/quantised"},
            {"codes", "cache_agrees_with_history",
             "f16,B1,H4,Hkv2,d4,cap8,stored=int8token,story=step.a.3+step.a.2+"
             "attend.a.1",
             "faulty/cache_scale_floored_at_one", "kv_cache",
             "kv_cache/quantised"},
            {"evict", "cache_agrees_with_history",
             "f32,B1,H1,d1,cap2,q=zero,k=zero,v=onehot,story=append.a.2+"
             "evict.a.0.1+attend.a.1",
             "faulty/cache_evict_keys_only", "kv_cache", "kv_cache/growing"},
            {"bias", "cache_agrees_with_history",
             "f16,B1,H2,d4,cap9,bias=normal.qk,story=step.a.4+evict.a.1.1+"
             "step.a.1",
             "faulty/cache_bias_in_prefill_only", "kv_cache", "kv_cache/split"},
            // Two operation sequences; NaN is put into the second.
            {"reset", "cache_reset_forgets",
             "f32,B1,H1,d1,cap1,q=zero,k=zero,v=zero,story=step.a.1",
             "faulty/stale_cache", "kv_cache", "kv_cache/contiguous"},
            {"fork", "cache_forks_are_independent",
             "f32,B2,H1,d1,cap2,q=zero,k=zero,v=zero,story=append.a.1+"
             "append.a.1+attend.a.1",
             "faulty/cache_shared_page_not_copied", "kv_cache",
             "kv_cache/paged"},
            {"mask", "cache_agrees_with_history",
             "bf16,B2,H4,Hkv2,d4,cap9,mask=random50.hk,story=step.a.4+"
             "fork.a.b+step.b.2",
             "faulty/cache_mask_of_the_new_keys", "kv_cache", "kv_cache/paged"},
            // Prompts in chunks: the wrong answer is to one of them.
            {"chunks", "cache_decode_equals_prefill",
             "f32,B1,H1,d2,dv1,cap2,rope=half,q=one,k=one,v=zero,story=step."
             "a.2",
             "faulty/cache_rope_restarts", "kv_cache", "kv_cache/contiguous"},
            {"length", "cache_length_grows",
             "f32,B1,H1,d1,cap2,q=zero,k=zero,v=zero,story=step.a.2",
             "faulty/cache_length_not_advanced", "kv_cache",
             "kv_cache/contiguous"}},
        2)),
    name_of);

// Findings that the report words differently than as a place and a number, and
// the answer of a kernel that lacks the operation.
TEST(EmitWords, LengthsRefusalsZerosAndPairsAreShown) {
  const struct {
    const char* arguments;
    const char* shown;
    const char* library;
    const char* correct;
    const char* lacks;  // its exit code is 2
    const char* why;
  } rows[] = {
      {"f32,B1,H1,d1,cap2,q=zero,k=zero,v=zero,story=step.a.1 --law "
       "cache_refuses_illegal_calls --kernel "
       "faulty/cache_refused_append_written",
       "call 5, append.a.2: length of sequence a expected 1 actual 2\n",
       "kv_cache", "kv_cache/paged", "scalar/plain",
       "the kernel has no cache\n"},
      {"f32,B2,H1,d1,cap1,q=zero,k=zero,v=zero,story=step.a.1 --law "
       "cache_forks_are_independent --kernel faulty/cache_fork_shares_length",
       ", step.a.1: expected a result: the call is legal actual refused: ",
       "kv_cache", "kv_cache/paged", "scalar/plain",
       "the kernel has no cache\n"},
      {"f32,B1,H1,Tq3,Tk3,d2,causal=br,backward --law "
       "future_gradients_are_zero --kernel "
       "faulty/backward_future_keys_get_gradient",
       "dv[b=0,h=0,j=1,c=0] expected 0 allowed ", "scalar", "scalar/plain",
       "scalar/layer", "the kernel has no backward()\n"},
      {"f32,B1,H2,Hkv1,Tq6,Tk3,d2,backward --law backward_same_call_same_bits "
       "--kernel faulty/backward_order_not_kept",
       ", and must have the same bits as call", "scalar", "scalar/plain",
       "scalar/layer", "the kernel has no backward()\n"},
      {"f32,B2,H1,Tq3,Tk5,d4,kvlen=2.4 --law plans_are_separate --kernel "
       "faulty/plan_workspace_shared",
       "call ", "serving", "serving/planned", "scalar/plain",
       "the kernel has neither forward() nor plans\n"}};
  const fs::path folder = fresh_folder("words");
  for (const auto& row : rows) {
    emit(row.arguments, folder);
    for (const std::string& words : {std::string(), kernel_words(folder)}) {
      const Ran bad = exits(1, run(words, folder));
      EXPECT_TRUE(has(bad.out, row.shown));
    }
    const Ran good =
        exits(0, run(library_path(row.library) + " " + row.correct, folder));
    const Ran none =
        exits(2, run(library_path("scalar") + " " + row.lacks, folder));
    EXPECT_EQ(none.out, row.why);
  }
}

// Python functions in the convention of `qkvet check file.py:function`; outputs
// of the kernel that they do not return are not judged.
constexpr const char* kFunctions = R"(
import numpy as np

def attention(q, k, v, *, causal=None, scale=None, mask=None):
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
    scores *= 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    rows, keys = np.indices(scores.shape[-2:])
    if causal == "bottom_right":
        scores[..., keys > rows + k.shape[2] - q.shape[2]] = -np.inf
    if mask is not None:
        assert mask.dtype == bool
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v.astype(np.float64)).astype(q.dtype)

def late(q, k, v, **options):
    return attention(q, k, v, **{**options, "causal": None})

def two_numbers(q, k, v, **options):
    return np.zeros(2, q.dtype)

class Differentiated:
    __qkvet__ = {"gradient": "function"}

    @staticmethod
    def backward(q, k, v, o, lse, d_o):
        q, k, v, d_o = (one.astype(np.float64) for one in (q, k, v, d_o))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        dp = d_o @ v.swapaxes(-1, -2)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
        return tuple(one.astype(np.float32) for one in (
            ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_o))

class Unscaled(Differentiated):
    @staticmethod
    def backward(*call):
        return tuple(2 * one for one in Differentiated.backward(*call))

def layer(x, w_q, w_k, w_v, w_o, *, heads, kv_heads):
    def split(w, count):
        return (x @ w).reshape(*x.shape[:2], count, -1).swapaxes(1, 2)
    k, v = (np.repeat(split(w, kv_heads), heads // kv_heads, 1)
            for w in (w_k, w_v))
    o = attention(split(w_q, heads), k, v)
    return o.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

def unmerged(x, w_q, w_k, w_v, w_o, **heads):
    return layer(x, w_q, w_k, w_v, w_o[::-1], **heads)

class Cache:
    __qkvet__ = {"cache": "yes"}

    def __init__(self, sequences, heads, kv_heads, d, dv, capacity, scale):
        self.group = heads // kv_heads
        self.empty = tuple(np.zeros((kv_heads, 0, n), np.float32) for n in (d, dv))
        self.rows = [self.empty] * sequences

    def length(self, sequence):
        return self.rows[sequence][0].shape[1]

    def append(self, sequence, k, v):
        self.rows[sequence] = tuple(np.concatenate([old, new], 1) for old, new
                                    in zip(self.rows[sequence], (k, v)))

    def attend(self, sequence, q):
        k, v = (np.repeat(one, self.group, 0)[None]
                for one in self.rows[sequence])
        return attention(q[None], k, v, causal="bottom_right")[0]

    def reset(self, sequence):
        self.rows[sequence] = self.empty

    def truncate(self, sequence, tokens):
        self.rows[sequence] = tuple(one[:, :tokens]
                                    for one in self.rows[sequence])

class Forgetful(Cache):
    def truncate(self, sequence, tokens):
        self.rows[sequence] = tuple(one[:, -tokens:]
                                    for one in self.rows[sequence])
)";

TEST(EmitPython, ARightFunctionPassesAndAWrongOneFails) {
  const struct {
    const char* arguments;
    const char* right;
    const char* wrong;
    const char* shown;
  } rows[] = {
      {"f32,B1,H2,Tq3,Tk5,d4,scale=0.7,causal=br,mask=random70 --law "
       "agrees_with_oracle --kernel faulty/mask_inverted",
       "attention", "late", "o[b=0,h="},
      {"f32,B1,H2,Tq3,Tk5,d4 --law agrees_with_oracle --kernel "
       "faulty/no_scale",
       "attention:{\"causal\": \"bottom_right\"}", "two_numbers",
       "ValueError: o is float32 [2]; expected F32 [1, 2, 3, 4]"},
      {"f32,B1,H2,Tq3,Tk4,d4,backward --law backward_agrees_with_oracle "
       "--kernel faulty/backward_delta_missing",
       "Differentiated", "Unscaled", "dq[b=0,h="},
      {"f32,B1,H2,Hkv1,T2,D4,d2 --law layer_agrees_with_oracle --kernel "
       "faulty/heads_not_merged",
       "layer", "unmerged", "y[b=0,t="},
      {"f32,B2,H4,Hkv2,d4,dv3,cap9,story=step.a.3+append.b.2+truncate.a.1+"
       "step.a.2+attend.b.1 --law cache_agrees_with_history --kernel "
       "faulty/cache_truncate_keeps_values",
       "Cache", "Forgetful", "call 4, step.a.2: o[b=0,h="}};
  const fs::path folder = fresh_folder("python");
  write_text(folder / "mine.py", kFunctions);
  for (const auto& row : rows) {
    emit(row.arguments, folder);
    const Ran good =
        exits(0, run(std::string("'mine.py:") + row.right + "'", folder));
    EXPECT_TRUE(good.out.ends_with("passed\n")) << good.out;
    const Ran bad = exits(1, run(std::string("mine.py:") + row.wrong, folder));
    EXPECT_TRUE(has(bad.out, row.shown));
  }
  for (const char* words : {"mine.py:none", "no.py:f", "no.so",
                            "no.safetensors", "--help", "x/call.safetensors"}) {
    const Ran ran = run(words, folder);
    EXPECT_EQ(ran.exit, 2) << words << ran.out;
    EXPECT_FALSE(has(ran.out, "Traceback"));
  }
}

// Their exit code is 2: nothing shows an error of the kernel.
TEST(EmitPython, CallsThatAFunctionDoesNotTakeAreNoFailures) {
  const struct {
    const char* arguments;
    const char* function;
    const char* why;
  } rows[] = {
      {"f32,B1,H2,d4,cap9,win3,first1,rollback2,story=step.a.5+truncate.a.4+"
       "step.a.2 --law cache_agrees_with_history --kernel "
       "faulty/cache_first_tokens_forgotten",
       "Cache", "the cache declares no window\n"},
      {"f32,B3,H1,d1,cap2,q=zero,k=zero,v=one,story=append.a.1+reorder.cac+"
       "step.b.1 --law cache_agrees_with_history --kernel "
       "faulty/cache_reorder_in_place",
       "Cache", "the cache does not offer reorder\n"},
      {"f32,B2,H1,Tq3,Tk5,d4,kvlen=2.4 --law plans_are_separate --kernel "
       "faulty/plan_workspace_shared",
       "attention", "a plan lives between calls, which a function does not\n"},
      {"f32,B1,H2,Tq3,Tk4,d4,backward --law backward_agrees_with_oracle "
       "--kernel faulty/backward_delta_missing",
       "attention", "the function declares no gradient\n"}};
  const fs::path folder = fresh_folder("refuses");
  write_text(folder / "mine.py", kFunctions);
  for (const auto& row : rows) {
    emit(row.arguments, folder);
    const Ran ran =
        exits(2, run(std::string("mine.py:") + row.function, folder));
    EXPECT_EQ(ran.out, row.why);
  }
}

// A user's own cache, with an error and without.
TEST(EmitLibrary, APluginOfOnesOwnIsShownAndPassesWhenMended) {
  const fs::path folder = fresh_folder("own");
  ASSERT_EQ(run_qkvet("new kv.cpp -t cache", folder).exit, 0);
  const std::string right = read_text(folder / "kv.cpp");
  write_text(folder / "kv.cpp",
             replaced(right, "tokens - Tq + i + 1", "tokens - Tq + i"));
  const std::string report = emit(
      "f32,B1,H2,d4,cap8,story=step.a.3+step.a.1 --law "
      "cache_agrees_with_history kv.cpp",
      folder);
  const Ran bad = exits(1, run(kernel_words(folder), folder));
  expect_shown(bad.out, report);
  write_text(folder / "kv.cpp", right);
  const Ran built = run_shell("c++ -std=c++17 -shared -fPIC -I'" QKVET_HEADERS
                              "' kv.cpp -o kv.so",
                              folder);
  ASSERT_EQ(built.exit, 0) << built.out;
  EXPECT_EQ(run("./kv.so", folder).out, "passed\n");
  // It does not reorder.
  emit(
      "f32,B3,H1,d1,cap2,q=zero,k=zero,v=one,story=append.a.1+reorder.cac+"
      "step.b.1 --law cache_agrees_with_history --kernel "
      "faulty/cache_reorder_in_place",
      folder);
  const Ran lacks = exits(2, run("./kv.so", folder));
  EXPECT_EQ(lacks.out, "the kernel does not offer reorder\n");
}

const std::string kFailing =
    kReplay +
    "f32,B1,H1,Tq2,Tk3,d4 --law agrees_with_oracle --kernel faulty/no_scale ";

TEST(EmitFiles, NothingIsOverwrittenUnlessForced) {
  const fs::path folder = fresh_folder("files");
  const char* there = "is there already and is not overwritten";
  EXPECT_EQ(run_qkvet(kFailing + "--out t", folder).exit, 1);
  std::string files;
  for (const char* file :
       {"README.md", "answer.safetensors", "call.safetensors", "run.py"})
    EXPECT_TRUE(fs::exists(folder / "t" / file)) << file;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "t"), {}), 4);
  expect_wrong_use(run_qkvet(kFailing + "--out t/", folder), there);
  write_text(folder / "t" / "o.txt", "old");
  EXPECT_EQ(run_qkvet(kFailing + "--out t --force", folder).exit, 1);
  EXPECT_FALSE(fs::exists(folder / "t" / "o.txt"));
  // A user's own folder is not replaced.
  fs::create_directories(folder / "own");
  write_text(folder / "own" / "thesis.tex", "mine");
  expect_wrong_use(
      run_qkvet(kFailing + "--out own --force", folder),
      "own: is not replaced: it is no folder with a call.safetensors");
  EXPECT_EQ(read_text(folder / "own" / "thesis.tex"), "mine");
  expect_wrong_use(run_qkvet(kFailing + "--out no/such", folder),
                   "no/such: cannot be written");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
}

TEST(EmitFiles, WhatCannotBeWrittenDownIsOneLine) {
  const fs::path folder = fresh_folder("refusals");
  write_text(folder / "log.story", "");
  write_text(folder / "list.txt",
             "f32,B1,H1,Tq1,Tk2,d4\nf32,B1,H1,Tq2,Tk2,d4\n");
  const std::pair<std::string, const char*> rows[] = {
      {kFailing + "--force", "--force is about --out"},
      {kFailing + "--kernel scalar/plain --out x", "2 kernels are named"},
      {kFailing + "--law weights_sum_to_one --out x", "2 laws"},
      {"replay log.story --kernel faulty/stale_cache --out x",
       "--out: a recorded story; allowed: a case"},
      {"replay @list.txt --law agrees_with_oracle --kernel faulty/no_scale "
       "--out x",
       "one case, not a list"},
      {kReplay + "f32,B1,H1,Tq3,Tk2,d4 --law agrees_with_oracle --kernel "
                 "faulty/tail_row_not_written --out x",
       "no number but what the kernel did to memory"},
      {kReplay +
           "f32,B1,H1,T2,D2,backward --law layer_backward_agrees_with_oracle "
           "--kernel scalar/layer --out x",
       "gradients of layers are not written down"},
      {kReplay +
           "f32,B1,H2,Hkv1,T2,D4,d2,fused=qkv --law layer_agrees_with_oracle "
           "--kernel faulty/fused_equal_thirds --out x",
       "allowed: cases without them"}};
  for (const auto& [arguments, part] : rows)
    expect_wrong_use(run_qkvet(arguments, folder), part);
  EXPECT_FALSE(fs::exists(folder / "x"));
  // A passing kernel has nothing to write, which is no error.
  const Ran passes =
      run_qkvet(kReplay +
                    "f32,B1,H1,Tq2,Tk3,d4 --law agrees_with_oracle --kernel "
                    "scalar/plain --out x",
                folder);
  EXPECT_EQ(passes.exit, 0);
  EXPECT_TRUE(has(passes.out, "nothing: no law failed"));
  EXPECT_FALSE(fs::exists(folder / "x"));
}

// Adds a number below any bound, where a law requires an exact 0.
constexpr const char* kNearlyZero = R"(
#include <math.h>
#include "qkvet/plain.h"
static void nearly(const float* q, const float* k, const float* v, float* o,
                   int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                   int causal) {
  for (int64_t n = 0; n < B * H * Tq * d; ++n) {
    const int64_t row = n / d, head = row / Tq, i = row % Tq, c = n % d;
    const int64_t seen = causal ? i + Tk - Tq + 1 : Tk;
    double sum = 0, all = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double s = 0;
      for (int64_t x = 0; x < d; ++x)
        s += (double)q[row * d + x] * k[(head * Tk + j) * d + x];
      all += exp(s / sqrt((double)d));
      sum += exp(s / sqrt((double)d)) * v[(head * Tk + j) * d + c];
    }
    o[n] = (float)(sum / all) + 1e-44f;
  }
}
QKVET_PLAIN_KERNEL(nearly, "mine/nearly");
)";

TEST(EmitFiles, WhereNoNumberLeavesItsBoundTheReadmeSaysSo) {
  const fs::path folder = fresh_folder("nearly");
  write_text(folder / "nearly.c", kNearlyZero);
  emit(
      "f32,B1,H1,Tq2,Tk2,d1,causal=tl,q=zero,k=zero,v=zero --law "
      "future_weights_are_zero nearly.c",
      folder);
  EXPECT_TRUE(has(read_text(folder / "x" / "README.md"),
                  "No element leaves its bound"));
  EXPECT_EQ(run("", folder).out, "passed\n");
}

}  // namespace
}  // namespace qkvet::cli::emit_test
