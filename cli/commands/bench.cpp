// SPDX-License-Identifier: Apache-2.0
// qkvet bench call: the time of a call, beside the limits of a core; decode:
// one more token with a KV cache and without one.
#include <fmt/core.h>

#include <map>
#include <memory>
#include <sstream>

#include "cli/base/model_text.h"
#include "cli/bench/bench_call.h"
#include "cli/bench/bench_decode.h"
#include "cli/commands/flags.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "core/base/json.h"
#include "core/base/read_file.h"
#include "core/door/guarded.h"
#include "report/json_lines.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct BenchDecodeOptions {
  KernelSelection selection;  // nothing named: kv_cache/contiguous
  std::string model;          // "H32,Hkv8,d128,Tk2048.4096"
  int repeat = 3;
  std::string json;  // a file; "" for none
};

constexpr double kNoisy = 1.2;  // noise_of() that is mentioned
// The limit of the extents of a case.
constexpr int64_t kMostExtent = int64_t{1} << 24;
constexpr char kDefaultKernel[] = "kv_cache/contiguous";

// "0.0412 (0.0401 .. 0.0533)"
std::string milliseconds(const Spread& seconds) {
  return fmt::format("{:.4g} ({:.3g} .. {:.3g})", 1e3 * seconds.median,
                     1e3 * seconds.least, 1e3 * seconds.most);
}

std::string power(std::optional<double> exponent) {
  return exponent ? fmt::format("N^{:.3f}", *exponent) : "not determined";
}

// A quotient of times; none if a coarse clock returned 0.
std::string quotient(const char* format, double a, double b) {
  return b > 0 ? fmt::format(fmt::runtime(format), a / b) : "-";
}

void print_times(const std::vector<DecodeTimes>& rows) {
  fmt::print("  {:>9}  {:<30} {:<30} {:>8}\n", "context N",
             "ms a token, with the cache", "ms a token, recomputed", "ratio");
  for (const DecodeTimes& row : rows)
    fmt::print("  {:>9}  {:<30} {:<30} {:>8}\n", row.context,
               milliseconds(row.cached), milliseconds(row.recomputed),
               quotient("{:.4g}", row.recomputed.median, row.cached.median));
  const struct {
    const char* name;
    double Spread::*time;
  } lines[] = {{"growth", &Spread::median}, {"of least", &Spread::least}};
  for (const auto& line : lines) {
    const DecodeGrowth growth = growth_of(rows, line.time);
    fmt::print("  {:>9}  {:<30} {}\n", line.name, power(growth.cached),
               power(growth.recomputed));
  }
  fmt::print("  {:>9}  {:<30} {}\n", "in theory", "N^1", "N^2");
  if (const double noise = noise_of(rows); noise > kNoisy)
    fmt::print(
        "  a noisy run: medians lie up to {:.2g} times above the least times\n",
        noise);
}

void print_bandwidth(const std::vector<DecodeTimes>& rows) {
  constexpr double kGiga = 1e9;
  fmt::print("\n  {:>9}  {:>14} {:>12} {:>17} {:>11}\n", "context N",
             "bytes of k, v", "step, GB/s", "plain loop, GB/s", "step/loop");
  for (const DecodeTimes& row : rows) {
    const double giga = static_cast<double>(row.bytes) / kGiga;
    fmt::print("  {:>9}  {:>14} {:>12} {:>17} {:>11}\n", row.context, row.bytes,
               quotient("{:.3g}", giga, row.cached.median),
               quotient("{:.3g}", giga, row.loop.median),
               quotient("{:.3f}", row.loop.median, row.cached.median));
  }
}

void print_result(const std::string& kernel, const DecodeBench& bench,
                  const DecodeResult& result) {
  fmt::print(
      "{}   f32,H{},Hkv{},d{}   1 thread, {} round{}; medians (least .. "
      "most)\n",
      kernel, bench.H, bench.Hkv, bench.d, bench.repeat,
      bench.repeat == 1 ? "" : "s");
  print_times(result.rows);
  print_bandwidth(result.rows);
  fmt::print(
      "\n  One token more than N, causal: as a step with a warm cache, and as "
      "a "
      "prefill of all\n  N + 1 tokens into an empty one. Times are those "
      "inside "
      "the kernel. The plain loop adds\n  up the keys and values of the "
      "context, "
      "in turns with the steps. Not judged here:\n  whether the outputs are "
      "right (qkvet check).\n");
  if (!result.truncates)
    fmt::print(
        "  It offers no truncate: the steps hold up to {} tokens more.\n",
        kStepsPerVisit);
}

Json json_spread(const Spread& seconds) {
  return {{"least", seconds.least},
          {"median", seconds.median},
          {"most", seconds.most}};
}

std::string json_lines(const std::string& kernel, const DecodeBench& bench,
                       const DecodeResult& result) {
  std::string out;
  for (const DecodeTimes& row : result.rows)
    out += json_text(Json{{"schema", kSchema},
                          {"type", "bench_decode"},
                          {"kernel", kernel},
                          {"H", bench.H},
                          {"Hkv", bench.Hkv},
                          {"d", bench.d},
                          {"context", row.context},
                          {"bytes", row.bytes},
                          {"cached_seconds", json_spread(row.cached)},
                          {"recomputed_seconds", json_spread(row.recomputed)},
                          {"loop_seconds", json_spread(row.loop)}}) +
           "\n";
  const DecodeGrowth median = growth_of(result.rows, &Spread::median);
  const DecodeGrowth least = growth_of(result.rows, &Spread::least);
  const struct {
    const char* name;
    std::optional<double> exponent;
  } exponents[] = {{"cached_median", median.cached},
                   {"recomputed_median", median.recomputed},
                   {"cached_least", least.cached},
                   {"recomputed_least", least.recomputed}};
  Json line{
      {"schema", kSchema}, {"type", "bench_decode_growth"}, {"kernel", kernel}};
  for (const auto& [name, exponent] : exponents)
    if (exponent) line[name] = *exponent;
  return out + json_text(line) + "\n";
}

// "" or the error in the options.
std::string read_options(const BenchDecodeOptions& options,
                         DecodeBench* bench) {
  bench->contexts = {2048, 4096, 8192, 16384, 32768};
  bench->H = 1;
  bench->d = 16;
  bench->repeat = options.repeat;
  std::vector<ModelExtent> extents = {
      {"H", kMostExtent, &bench->H},
      {"Hkv", kMostExtent, &bench->Hkv},
      {"d", kMostExtent, &bench->d},
      {"Tk", kMostContext, nullptr, &bench->contexts}};
  if (!options.model.empty())
    if (std::string error = read_model_text(options.model, extents);
        !error.empty())
      return error;
  if (!extents[1].given) bench->Hkv = bench->H;
  if (bench->H % bench->Hkv != 0)
    return fmt::format("Hkv{} must divide H{}", bench->Hkv, bench->H);
  return too_large(*bench);
}

ExitCode run(const BenchDecodeOptions& options) {
  DecodeBench bench;
  if (std::string error = read_options(options, &bench); !error.empty())
    return wrong_use(error);
  KernelSelection selection = options.selection;
  if (selection.names_nothing()) selection.kernels = {kDefaultKernel};
  const SelectedKernels selected = select_kernels(selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  for (const KernelUnderTest& kernel : selected.kernels)
    if (!kernel.judged.info.has_cache)
      return wrong_use(kernel.judged.info.name +
                       ": keeps no cache; --kernel names one that does, such "
                       "as " +
                       kDefaultKernel);
  const ExecutorFactory open = executor_factory(selected, selection.in_process);
  std::string json;
  for (const KernelUnderTest& kernel : selected.kernels) {
    const std::string& name = kernel.judged.info.name;
    const Opened opened = open(kernel.library);
    if (opened.executor == nullptr) return wrong_use(opened.error);
    const DecodeResult result =
        bench_decode(bench, *opened.executor, kernel.index);
    if (!result.error.empty()) {
      wrong_use(name + ": " + result.error);
      return result.died ? kKernelDied : kWrongUse;
    }
    print_result(name, bench, result);
    std::fflush(stdout);
    json += json_lines(name, bench, result);
  }
  if (options.json.empty()) return kConforms;
  const std::string error = write_file(options.json, json);
  return error.empty() ? kConforms : wrong_use(error);
}

void add_flags(CLI::App& command, BenchDecodeOptions& options) {
  add_model(command, options.model, options.selection,
            "Cache [H1,Hkv1,d16,Tk2048.4096.8192.16384.32768], and kernels");
  add_kernels(command, options.selection);
  command
      .add_option("--repeat", options.repeat,
                  "Number of rounds over all contexts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_json(command, options.json);
}

struct BenchCallOptions {
  std::vector<std::string> cases;
  KernelSelection selection;  // nothing named: those of the family avx2
  int repeat = 9;
  std::string json;      // a file; "" for none
  std::string baseline;  // a file of --json; "" for none
};

// Words for cases.
constexpr struct {
  const char *word, *value;
} kCalls[] = {{"prefill", "f32,B1,H8,Tq1024,Tk1024,d64,causal"},
              {"decode", "f32,B1,H32,Hkv8,Tq1,Tk8192,d128"},
              {"backward", "f32,B1,H8,Tq512,Tk512,d64,causal,backward"},
              {"layer", "f32,B1,H8,T512,D512,causal"}};

// The case that a word is, right or wrong; "" for a kernel.
std::string case_of(const std::string& word) {
  for (const auto& call : kCalls)
    if (word == call.word) return call.value;
  const bool is_kernel =
      word.find(',') == word.npos || word.find_first_of("/:") != word.npos;
  return is_kernel && !parse_case(word).value ? "" : word;
}

Json call_line(const std::string& value, const TimedKernel& kernel,
               const TimedCall& call, double operations, double bytes) {
  return {{"schema", kSchema},
          {"type", "bench_call"},
          {"case", value},
          {"kernel", kernel.name},
          {"operations", operations},
          {"bytes", bytes},
          {"instructions", peak_instructions()},
          {"seconds", json_spread(kernel.seconds)},
          {"peak_operations_per_second", json_spread(call.peak)},
          {"loop_seconds", json_spread(call.loop)}};
}

// Times of an earlier file, by case and kernel.
using Earlier = std::map<std::pair<std::string, std::string>, Spread>;

void print_call(const std::string& value, const TimedCall& call,
                const std::vector<TimedKernel>& kernels, double operations,
                double bytes, const Earlier& earlier) {
  constexpr double kGiga = 1e9;
  fmt::print(
      "{}   one core; its peak {:.3g} GFLOP/s with {}; plain loop {:.3g} "
      "GB/s\n",
      value, call.peak.median / kGiga, peak_instructions(),
      bytes / kGiga / call.loop.median);
  fmt::print("  {:<24} {:<28} {:>8} {:>8} {:>7} {:>8}  {}\n", "kernel",
             "ms (least .. most)", "GFLOP/s", "of peak", "GB/s", "of loop",
             earlier.empty() ? "" : "baseline");
  for (const TimedKernel& kernel : kernels) {
    const double seconds = kernel.seconds.median;
    const auto before = earlier.find({value, kernel.name});
    if (!kernel.error.empty())
      fmt::print("  {:<24} {}\n", kernel.name, kernel.error);
    else
      fmt::print("  {:<24} {:<28} {:>8} {:>8} {:>7} {:>8}  {}\n", kernel.name,
                 milliseconds(kernel.seconds),
                 quotient("{:.3g}", operations / kGiga, seconds),
                 quotient("{:.2f}", operations / call.peak.median, seconds),
                 quotient("{:.3g}", bytes / kGiga, seconds),
                 quotient("{:.2f}", call.loop.median, seconds),
                 before == earlier.end()
                     ? ""
                     : compared(before->second, kernel.seconds));
  }
  fmt::print("\n");
}

// "" or one line.
std::string read_earlier(const std::string& path, Earlier* earlier) {
  std::string text;
  if (path.empty()) return "";
  if (std::string error = read_file(path, &text); !error.empty()) return error;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) try {
      const ReadJson one = read_json(line);
      const ReadJson& seconds = one.at("seconds");
      (*earlier)[{one.at("case"), one.at("kernel")}] = {
          seconds.at("least"), seconds.at("median"), 0};
    } catch (const ReadJson::exception&) {
      return path + ": a line that `qkvet bench call --json` did not write";
    }
  return "";
}

// "" or one line.
std::string read_cases(const std::vector<std::string>& texts,
                       std::vector<Case>* cases) {
  for (const std::string& text : texts) {
    const ParsedCase parsed = parse_case(text);
    if (!parsed.value) return parsed.error;
    const Case& value = *parsed.value;
    if (value.merge || value.subject() == Subject::kCache)
      return text + ": bench call times no cache and no merge";
    for (const Dtype dtype : {value.q_dtype, value.kv_dtype, value.o_dtype})
      if (!can_store(dtype))
        return fmt::format("{}: no tensors of {} can be made", text,
                           dtype_name(dtype));
    // As doubles, in the storage type, and in the kernel's process.
    constexpr double kCopies = 8;
    if (kCopies * bytes_of(value) > static_cast<double>(available_memory()))
      return text + ": takes more memory than is free";
    cases->push_back(value);
  }
  return "";
}

ExitCode run_calls(const BenchCallOptions& options) {
  std::vector<std::string> texts = options.cases;
  if (texts.empty())
    for (const auto& call : kCalls) texts.push_back(call.value);
  std::vector<Case> cases;
  Earlier earlier;
  std::string error = read_cases(texts, &cases);
  if (error.empty()) error = read_earlier(options.baseline, &earlier);
  if (!error.empty()) return wrong_use(error);
  KernelSelection selection = options.selection;
  if (selection.names_nothing())
    selection.kernels = {"avx2/flash", "avx2/layer"};
  const SelectedKernels selected = select_kernels(selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  stay_on_this_core();
  const ExecutorFactory open = executor_factory(selected, selection.in_process);
  std::vector<std::unique_ptr<Executor>> executors;
  std::vector<TimedKernel> kernels;
  for (const KernelUnderTest& kernel : selected.kernels) {
    Opened opened = open(kernel.library);
    if (opened.executor == nullptr) return wrong_use(opened.error);
    kernels.push_back(
        {kernel.judged.info.name, opened.executor.get(), kernel.index});
    executors.push_back(std::move(opened.executor));
  }
  std::string json;
  for (size_t n = 0; n < cases.size(); ++n) {
    const Case& value = cases[n];
    const std::string& text = texts[n];
    const double operations = operations_of(value), bytes = bytes_of(value);
    const TimedCall call = time_call(value, options.repeat, kernels);
    print_call(text, call, kernels, operations, bytes, earlier);
    std::fflush(stdout);
    for (const TimedKernel& kernel : kernels) {
      if (kernel.died) return kKernelDied;
      if (kernel.error.empty())
        json +=
            json_text(call_line(text, kernel, call, operations, bytes)) + "\n";
    }
  }
  if (!options.json.empty()) error = write_file(options.json, json);
  return error.empty() ? kConforms : wrong_use(error);
}

void add_call_flags(CLI::App& command, BenchCallOptions& options) {
  command
      .add_option_function<std::vector<std::string>>(
          "spec",
          [&](const std::vector<std::string>& words) {
            for (const std::string& word : words)
              if (std::string value = case_of(word); !value.empty())
                options.cases.push_back(value);
              else
                options.selection.add(word);
          },
          "Cases, or prefill, decode, backward, layer; and kernels")
      ->type_name("CASE|SPEC");
  add_kernels(command, options.selection);
  command
      .add_option("--repeat", options.repeat,
                  "Number of rounds over all kernels")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--baseline", options.baseline,
                  "Lines of an earlier --json, to compare with")
      ->type_name("FILE");
  add_json(command, options.json);
}

}  // namespace

void add_bench(CLI::App& app, Chosen& chosen) {
  CLI::App& bench =
      *app.add_subcommand("bench", "Measure the speed of a kernel");
  bench.require_subcommand(1);
  add_command<BenchCallOptions>(
      bench, chosen, "call",
      "Time of calls beside the peak and the bandwidth of a core",
      add_call_flags, run_calls);
  add_command<BenchDecodeOptions>(
      bench, chosen, "decode",
      "Time per decoded token, with and without a KV cache", add_flags, run);
}

}  // namespace qkvet::cli
