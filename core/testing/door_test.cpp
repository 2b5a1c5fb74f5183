// SPDX-License-Identifier: Apache-2.0
#include "core/door/door.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/base/elf_file.h"
#include "core/base/machine.h"
#include "core/door/call_reply.h"
#include "core/door/kernel_reader.h"
#include "core/sandbox/wire.h"
#include "core/testing/bad_plugin_calls.h"

namespace qkvet::door_test {
namespace {

std::string error_of(const std::string& path, const std::string& config = "") {
  std::string error;
  const auto door = Door::open({path, config}, &error);
  EXPECT_EQ(door == nullptr, !error.empty());
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

TEST(Door, ReadsKernels) {
  std::string error;
  const auto door = Door::open({plugin("bad"), ""}, &error);
  ASSERT_NE(door, nullptr) << error;
  const auto& kernels = door->kernels();
  ASSERT_GT(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].name, "bad/copy");
  EXPECT_TRUE(kernels[0].has_option(QKVET_OPTION_SCALE));
  EXPECT_FALSE(kernels[0].fault);
  const auto& abort = kernels[3];
  ASSERT_TRUE(abort.fault);
  EXPECT_EQ(abort.fault->cause, "calls abort()");
  EXPECT_EQ(abort.fault->when, "");
  EXPECT_EQ(abort.fault->source, "textbook");
  EXPECT_EQ(abort.fault->killed_by,
            (std::vector<std::string>{"first-law", "second-law"}));
}

TEST(Door, EveryErrorIsOneLineThatNamesTheFile) {
  const std::string dir = ::testing::TempDir();
  const std::string text = dir + "qkvet_text.so", cut = dir + "qkvet_cut.so";
  std::ofstream(text) << "not a library";
  std::ofstream(cut) << "\x7f"
                     << "ELF and nothing else";
  const std::pair<std::string, std::string> files[] = {
      {dir + "none.so", "no such file"},
      {dir, "is a directory"},
      {text, "not a shared library"},
      {cut, "file too short"},
      {plugin("bad_no_entry"), "does not export qkvet_open"}};
  for (const auto& [path, why] : files)
    EXPECT_EQ(error_of(path), path + ": " + why);
  const std::pair<const char*, const char*> configs[] = {
      {"newer", "is for ABI 2, this program speaks 1"},
      {"silent",
       "kernel bad/null_write declares nothing (capabilities is NULL)"},
      {"name",
       "kernel 0: the name \"Bad Kernel\" is not of the form family/variant "
       "in [a-z0-9_]"},
      {"paths", "kernel bad/copy: paths[0] is at -64; allowed: 2 to 131072"},
      {"widths", "kernel bad/copy: widths[1] is 0 by 0"},
      {"refuse",
       "qkvet_open() returned INVALID_ARGUMENT: this config is not for me"}};
  for (const auto& [config, why] : configs)
    EXPECT_EQ(error_of(plugin("bad"), config), plugin("bad") + ": " + why);
}

// A copy of a good library with some bytes of its header changed.
std::string altered(const std::string& name,
                    const std::vector<std::pair<size_t, char>>& changes) {
  std::ifstream in(plugin("bad"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  for (const auto& [at, byte] : changes) bytes.at(at) = byte;
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Door, LibrariesOfOtherMachinesAreNamed) {
  const std::string own =
      error_of(altered("qkvet_other.so", {{EI_PAD + 9, 0}, {18, 21}, {19, 0}}));
  EXPECT_NE(own.find("qkvet_other.so: is for PowerPC 64, this program for "),
            std::string::npos)
      << own;
  // Bytes in the other order: big-endian s390.
  const std::string swapped = error_of(altered(
      "qkvet_swapped.so", {{EI_DATA, ELFDATA2MSB}, {18, 0}, {19, EM_S390}}));
  EXPECT_NE(swapped.find(": is for s390, "), std::string::npos) << swapped;
}

// Damaged files are left to the loader, wherever the damage leads.
TEST(Door, DamagedHeadersAreReadWithoutHarm) {
  const std::string path = altered("qkvet_damaged.so", {});
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  constexpr int kHeaders = 64 + 8 * 56;  // the file's and some segments'
  for (int at = 0; at < kHeaders; ++at)
    for (const char byte : {'\x7e', '\xff'}) {
      file.seekg(at);
      const int before = file.peek();
      file.seekp(at).put(byte).flush();
      EXPECT_EQ(elf_obstacle(path).starts_with("is for machine "),
                at == 18 || at == 19)
          << at;
      file.seekp(at).put(static_cast<char>(before)).flush();
    }
  EXPECT_EQ(elf_obstacle(path), "");
}

TEST(Door, SanitizedLibrariesNeedASanitizedProgram) {
  const bool sanitized = dlsym(RTLD_DEFAULT, "__asan_init") != nullptr;
  for (const char* name : {"bad_asan", "bad_asan_unlinked"})
    EXPECT_EQ(error_of(plugin(name)),
              sanitized ? ""
                        : plugin(name) +
                              ": was built with AddressSanitizer and this "
                              "program was not: build both with it, or "
                              "neither");
}

// A library without a file: its kernel is never called here.
qkvet_status linked_open(const qkvet_host*, const char* config,
                         qkvet_library* out, qkvet_text*) {
  if (*config != 0) return QKVET_INVALID_ARGUMENT;
  static qkvet_capabilities capabilities{};
  static qkvet_kernel kernel{};
  static const qkvet_kernel* const kernels[] = {&kernel};
  capabilities.struct_size = sizeof capabilities;
  kernel.struct_size = sizeof kernel;
  kernel.name = "linked/one";
  kernel.description = "of this program";
  kernel.capabilities = &capabilities;
  kernel.forward = [](const qkvet_kernel*, qkvet_context*,
                      const qkvet_forward_args*, const qkvet_exec*,
                      qkvet_text*) -> qkvet_status { return QKVET_OK; };
  out->abi_major = QKVET_ABI_MAJOR;
  out->name = "linked";
  out->kernel_count = 1;
  out->kernels = kernels;
  return QKVET_OK;
}

TEST(Door, LinkedLibrariesAreOpenedByTheirEntryInThisProcessOnly) {
  const Opened opened = open_in_process({"linked", "", linked_open});
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  ASSERT_EQ(opened.executor->kernels().size(), 1u);
  EXPECT_EQ(opened.executor->kernels()[0].name, "linked/one");
  EXPECT_EQ(open_in_process({"linked", "no", linked_open}).error,
            "linked: qkvet_open() returned INVALID_ARGUMENT");
  const Opened sandbox = open_sandbox({"linked", "", linked_open}, {});
  EXPECT_EQ(sandbox.executor, nullptr);
  EXPECT_EQ(sandbox.error,
            "linked: is linked into this program: a worker cannot open it");
}

TEST(Door, ShorterStructsHaveAZeroTail) {
  std::string error;
  const auto door = Door::open({plugin("bad"), "short"}, &error);
  ASSERT_NE(door, nullptr) << error;
  ASSERT_EQ(door->kernels().size(), 1u);
  const KernelInfo& info = door->kernels()[0];
  EXPECT_EQ(info.capabilities.dv.max, 0);
  EXPECT_TRUE(info.has_option(QKVET_OPTION_SCALE));
  EXPECT_FALSE(info.fault);
}

TEST(Door, LongerStructsAreCut) {
  struct Longer {
    qkvet_dialect known;
    int64_t news[4];
  } longer{};
  longer.known.struct_size = sizeof longer;
  longer.known.lse_base = QKVET_LSE_BASE2;
  const qkvet_dialect copy = copy_sized(&longer.known);
  EXPECT_EQ(copy.struct_size, sizeof copy);
  EXPECT_EQ(copy.lse_base, QKVET_LSE_BASE2);
}

TEST(Door, TextOfLibrariesIsOneLine) {
  EXPECT_EQ(one_line("a\nb\tc\n", 100), "a b c");
  EXPECT_EQ(one_line("abcdef", 3), "abc");
}

TEST(Door, TablesAreChecked) {
  const std::pair<const char*, const char*> rows[] = {
      {"nothing",
       "cache has no forward(), no cache, no layer, no merge and no plans"},
      {"zero_cache", "cache: struct_size of its cache is 0"},
      {"short_cache", "cache: its cache has no reset()"},
      {"no_step", "cache: its cache has no step()"},
      {"zero_layer", "layer: struct_size of its layer is 0"},
      {"no_layer_forward", "layer: its layer has no forward()"},
      {"int_stage",
       "layer: the stages of its layer have no known floating type"}};
  for (const auto& [config, why] : rows)
    EXPECT_EQ(error_of(plugin("tables"), config),
              plugin("tables") + ": kernel tables/" + why);
}

TEST(Door, AMergeOfOneLayoutDeclaresIt) {
  qkvet_capabilities capabilities{};
  capabilities.struct_size = sizeof capabilities;
  qkvet_merge_table merge{};
  merge.struct_size = sizeof merge;
  merge.merge = [](const qkvet_kernel*, qkvet_context*, const qkvet_merge_args*,
                   const qkvet_exec*,
                   qkvet_text*) -> qkvet_status { return QKVET_OK; };
  qkvet_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "merge/one";
  kernel.capabilities = &capabilities;
  kernel.merge = &merge;
  const auto error = [&](uint64_t options) {
    merge.options = options;
    KernelInfo info;
    return read_kernel(&kernel, 0, &info);
  };
  constexpr uint64_t kOnly = QKVET_MERGE_LSE_HEADS_FIRST_ONLY;
  EXPECT_EQ(error(QKVET_MERGE_LSE_HEADS_FIRST | kOnly), "");
  for (const uint64_t options :
       {kOnly, kOnly | QKVET_MERGE_ANY_STRIDES,
        kOnly | QKVET_MERGE_LSE_HEADS_FIRST | QKVET_MERGE_ANY_STRIDES})
    EXPECT_EQ(error(options),
              "kernel merge/one: its merge takes lse as [n, H, T] alone, and "
              "its other options do not say so");
}

TEST(Door, TablesAreRead) {
  std::string error;
  const auto door = Door::open({plugin("tables"), "f16_stage"}, &error);
  ASSERT_NE(door, nullptr) << error;
  int caches = 0;
  int layers = 0;
  int uncut = 0;
  for (const KernelInfo& info : door->kernels()) {
    EXPECT_FALSE(info.has_forward);
    EXPECT_NE(info.has_cache, info.has_layer);
    caches += info.has_cache;
    uncut += info.has_cache && !info.has_truncate;
    layers += info.has_layer;
    if (!info.has_layer) continue;
    EXPECT_EQ(info.layer_options,
              QKVET_LAYER_BIASES | QKVET_LAYER_STAGES | QKVET_LAYER_UNBATCHED |
                  QKVET_LAYER_FUSED_QKV | QKVET_LAYER_FUSED_VQK |
                  QKVET_LAYER_MASK_BUFFER);
    EXPECT_EQ(info.stage_dtype(Dtype::kF32), Dtype::kF16);
  }
  EXPECT_GT(caches, 0);
  EXPECT_GT(layers, 0);
  EXPECT_EQ(uncut, 1);
  EXPECT_EQ(KernelInfo().stage_dtype(Dtype::kBf16), Dtype::kBf16);
}

// The worker's memory is not trusted: neither a status nor a count.
TEST(Reply, EveryFieldIsChecked) {
  CallReply reply;
  CallPlan plan;
  reply.lengths_known = 7;
  reply.lengths = {5, 6, 7};
  plan.sequences = 2;
  EXPECT_EQ(outcome_of(reply, plan).lengths, (std::vector<int64_t>{5, 6}));
  plan.sequences = int64_t{1} << 40;
  EXPECT_EQ(outcome_of(reply, plan).lengths.size(),
            size_t{kMostCacheSequences});
  plan.sequences = -1;
  EXPECT_TRUE(outcome_of(reply, plan).lengths.empty());
  // The least number has no opposite.
  reply.workspace_damaged = 1;
  reply.workspace_damage = std::numeric_limits<int64_t>::min();
  ASSERT_TRUE(outcome_of(reply, plan).damage);
  EXPECT_TRUE(outcome_of(reply, plan).damage->before_start);
  EXPECT_EQ(outcome_of(reply, plan).damage->bytes,
            std::numeric_limits<int64_t>::max());
  reply.workspace_damage = -3;
  EXPECT_EQ(outcome_of(reply, plan).damage->bytes, 3);
  reply.status = static_cast<uint32_t>(CallStatus::kNotRun);
  EXPECT_EQ(outcome_of(reply, plan).status, CallStatus::kNotRun);
  reply.status += 1;
  EXPECT_EQ(outcome_of(reply, plan).status, CallStatus::kCrash);
}

// Writes of a library beside the text with its reason.
TEST(Reply, ATextOfAReasonHasGuards) {
  const auto damage_at = [](int64_t offset) {
    CallReply reply;
    {
      Reason reason(&reply);
      reason.text()->data[offset] = 'x';
    }
    return outcome_of(reply, CallPlan()).damage;
  };
  constexpr auto kSize = static_cast<int64_t>(CallReply::kTextBytes);
  EXPECT_FALSE(damage_at(0));
  EXPECT_FALSE(damage_at(kSize - 1));
  const auto behind = damage_at(kSize), before = damage_at(-1);
  ASSERT_TRUE(behind && before);
  EXPECT_TRUE(behind->of_reason && !behind->before_start);
  EXPECT_EQ(behind->bytes, 0);
  EXPECT_TRUE(before->of_reason && before->before_start);
  EXPECT_EQ(before->bytes, 1);
}

// Gives a field another value than a fresh KernelInfo has.
void change(bool& flag) { flag = !flag; }
void change(std::string& text) { text += "\nchanged"; }
void change(std::vector<std::string>& texts) { texts = {"x", "", "y"}; }
void change(std::optional<FaultInfo>& fault) { fault.emplace(); }
template <class Plain>
void change(Plain& value) {
  static_assert(std::is_trivially_copyable_v<Plain>);
  for (size_t i = 0; i < sizeof value; ++i)
    reinterpret_cast<unsigned char*>(&value)[i] = static_cast<uint8_t>(i + 1);
}

template <class Field>
bool same(const Field& one, const Field& other) {
  if constexpr (std::is_same_v<Field, std::optional<FaultInfo>>)
    return one.has_value() == other.has_value() &&
           (!one || fault_fields(*one) == fault_fields(*other));
  else if constexpr (std::is_trivially_copyable_v<Field>)
    return std::memcmp(&one, &other, sizeof one) == 0;
  else
    return one == other;
}

// Numbers of the fields in which two kernels differ.
std::vector<size_t> differing(const KernelInfo& one, const KernelInfo& other) {
  std::vector<size_t> found;
  const auto ones = kernel_fields(one), others = kernel_fields(other);
  [&]<size_t... i>(std::index_sequence<i...>) {
    ((same(std::get<i>(ones), std::get<i>(others)) ? void()
                                                   : found.push_back(i)),
     ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(ones)>>());
  return found;
}

// Sends a kernel between two fresh ones; returns what arrives.
KernelInfo sent(const KernelInfo& kernel) {
  const std::string bytes = pack_kernels({KernelInfo(), kernel, KernelInfo()});
  std::vector<KernelInfo> copy;
  EXPECT_TRUE(unpack_kernels(bytes, &copy));
  EXPECT_EQ(copy.size(), 3u);
  if (copy.size() != 3) return {};
  EXPECT_TRUE(differing(copy[0], KernelInfo()).empty());
  EXPECT_TRUE(differing(copy[2], KernelInfo()).empty());
  return copy[1];
}

// Changes one field at a time.
TEST(Wire, EveryFieldSurvivesTheWay) {
  constexpr size_t kFields =
      std::tuple_size_v<decltype(kernel_fields(std::declval<KernelInfo&>()))>;
  const auto each = [](auto&& fields, const auto& visit) {
    std::apply([&](auto&... field) { (visit(field), ...); }, fields);
  };
  for (size_t i = 0; i < kFields; ++i) {
    KernelInfo kernel = KernelInfo();  // its padding is also 0
    size_t at = 0;
    each(kernel_fields(kernel), [&](auto& field) {
      if (at++ == i) change(field);
    });
    EXPECT_EQ(differing(kernel, KernelInfo()), std::vector<size_t>{i});
    EXPECT_TRUE(differing(sent(kernel), kernel).empty()) << "field " << i;
  }
  constexpr size_t kOfFaults =
      std::tuple_size_v<decltype(fault_fields(std::declval<FaultInfo&>()))>;
  for (size_t i = 0; i < kOfFaults; ++i) {
    KernelInfo kernel;
    size_t at = 0;
    each(fault_fields(kernel.fault.emplace()), [&](auto& field) {
      if (at++ == i) change(field);
    });
    EXPECT_TRUE(differing(sent(kernel), kernel).empty()) << "fault " << i;
  }
}

TEST(Wire, BytesThatAreCutOffOrWrongAreRefused) {
  std::vector<KernelInfo> kernels(2);
  kernels[0].name = "a/b";
  kernels[1].fault = FaultInfo{"w", "c", "f", "s", {"x", "y"}};
  const std::string bytes = pack_kernels(kernels);
  for (size_t n = 0; n < bytes.size(); ++n) {
    std::vector<KernelInfo> cut;
    EXPECT_FALSE(unpack_kernels(std::string_view(bytes).substr(0, n), &cut));
  }
  // A count that so few bytes cannot hold takes no room.
  const uint64_t many = 200;
  std::string wrong(reinterpret_cast<const char*>(&many), sizeof many);
  wrong.resize(sizeof many + many);
  std::vector<KernelInfo> none;
  EXPECT_FALSE(unpack_kernels(wrong, &none));
  EXPECT_EQ(none.capacity(), 0u);
}

// A library built with -Ofast changes how this thread computes when it is
// loaded; the oracle, which shares the thread when kernels run in process, must
// not see it.
TEST(Door, AFastMathLibraryDoesNotDisturbItsHost) {
  const std::string path = plugin("bad_fast");
  const FpEnvironment before = fp_environment();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  [[maybe_unused]] const bool disturbs = !(fp_environment() == before);
  restore_fp_environment(before);
  dlclose(handle);
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
  EXPECT_TRUE(disturbs) << "the control: this library is meant to do harm";
#endif
  std::string error;
  const auto door = Door::open({path, ""}, &error);
  ASSERT_NE(door, nullptr) << error;
  EXPECT_EQ(fp_environment(), before);
  volatile double tiny = 1e-310;
  EXPECT_GT(tiny * 0.5, 0);
}

// A separate test, because a library that is mapped already has no effect.
TEST(Door, NorDoesOneThatIsLoadedAhead) {
  const FpEnvironment before = fp_environment();
  EXPECT_TRUE(Door::load_ahead(plugin("bad_fast")));
  EXPECT_EQ(fp_environment(), before);
}

}  // namespace
}  // namespace qkvet::door_test
