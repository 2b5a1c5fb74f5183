// SPDX-License-Identifier: Apache-2.0
// qkvet demo inspect: one call, tensor by tensor, and the weights of its heads;
// a kernel compared with the definition, and the first stage at which it
// differs.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "cli/base/load_data.h"
#include "cli/commands/groups.h"
#include "cli/inspect/inspection.h"
#include "cli/inspect/screen.h"
#include "cli/kernels/write_new.h"
#include "cli/terminal/select.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/answer.h"
#include "properties/judging/visibility.h"

namespace qkvet::cli {
namespace {

struct InspectOptions {
  std::string value;          // a case
  KernelSelection selection;  // nothing named: the definition alone
  std::string head;           // "1", or "0.1" with the batch element; "": all
  PictureFile picture;
  bool json = false;
  std::vector<std::string> data;  // files that cases take data from
};

// Every stage of scores is in memory in double at once.
constexpr int64_t kMostWeights = int64_t{1} << 24;
// Without --head: as many as fill a screen or two.
constexpr int64_t kMostMaps = 8, kMostLongMaps = 2, kLong = 16;
constexpr size_t kAcross = 4;  // maps in a row of a picture, without a kernel
constexpr int64_t kMostDrawn = 128;  // cells of its maps each way

// "" or one line.
std::string read_case(const InspectOptions& options, Case* value) {
  const ParsedCase parsed = parse_case(options.value);
  if (!parsed.value) return parsed.error;
  *value = *parsed.value;
  if (value->subject() == Subject::kCache)
    return options.value +
           ": a story of a cache; inspect shows cases of attention and of "
           "layers";
  if (value->backward)
    return options.value +
           ": a gradient; inspect shows forward passes, leave `backward` out";
  if (value->subject() == Subject::kLayer) *value = constrain_layer(*value);
  for (const Dtype dtype : {value->q_dtype, value->kv_dtype, value->o_dtype})
    if (!can_store(dtype))
      return std::string(dtype_name(dtype)) +
             ": no tensors of it can be made; f64, f32, f16 and bf16 can";
  const Shape& s = value->shape;
  if (s.weights_elements() > kMostWeights)
    return fmt::format("{} weights; inspect shows calls of {} at most",
                       s.weights_elements(), kMostWeights);
  return "";
}

// "" or one line.
std::string read_focus(const std::string& text, const Shape& s,
                       Inspection* seen) {
  if (text.empty()) return "";
  const size_t point = text.find('.');
  int64_t numbers[] = {0, 0};
  const std::string parts[] = {
      point == text.npos ? "0" : text.substr(0, point),
      point == text.npos ? text : text.substr(point + 1)};
  for (size_t i = 0; i < 2; ++i) {
    const char* const end = parts[i].data() + parts[i].size();
    const auto [at, code] = std::from_chars(parts[i].data(), end, numbers[i]);
    // An empty batch has an element 0 without anything in it.
    const int64_t count = i == 1 ? s.H : std::max<int64_t>(s.B, 1);
    if (code != std::errc() || at != end || numbers[i] < 0 ||
        numbers[i] >= count)
      return fmt::format(
          "--head {}: allowed is H or B.H, with B 0 .. {} and H 0 .. {}", text,
          std::max<int64_t>(s.B, 1) - 1, s.H - 1);
  }
  seen->focus = {numbers[0], numbers[1]};
  return "";
}

// "" or one line.
std::string read_kernel(const InspectOptions& options,
                        SelectedKernels* selected) {
  const KernelSelection& selection = options.selection;
  if (selection.names_nothing())
    return selection.dialect.empty() && selection.precision.empty()
               ? ""
               : "--dialect and --precision are about a kernel; name one";
  *selected = select_kernels(selection);
  if (!selected->error.empty()) return selected->error;
  if (selected->kernels.size() == 1) return "";
  std::string names;
  constexpr size_t kShown = 4;
  for (size_t n = 0; n < std::min(kShown, selected->kernels.size()); ++n)
    names += (n == 0 ? "" : ", ") + selected->kernels[n].judged.info.name;
  return fmt::format(
      "{} kernels are named ({}{}); inspect shows one, --kernel names it",
      selected->kernels.size(), names,
      selected->kernels.size() > kShown ? ", ..." : "");
}

void fill_movie(const Inputs& inputs, const qkvet_dialect& dialect,
                Inspection& seen) {
  const Case& value = seen.value;
  if (value.subject() == Subject::kLayer) {
    seen.movie =
        layer_movie(layer_problem(value, inputs), value.unbatched, seen.focus);
    for (int64_t i = 0; i < value.shape.Tq; ++i) seen.diagonals.push_back(i);
    return;
  }
  const OwnedProblem owned(value, inputs, reading_of(value, dialect));
  seen.movie = attention_movie(owned.problem(), seen.focus);
  const Visibility visibility(value, inputs);
  for (int64_t i = 0; i < value.shape.Tq && value.shape.B > 0; ++i)
    seen.diagonals.push_back(visibility.diagonal(seen.focus.member, i));
}

// "q[b=0,h=1,t=2,c=3]": 1; without a head or of another member: -1.
int64_t head_of(const std::string& where, int64_t member) {
  const size_t at = where.find(",h=");
  if (at == std::string::npos ||
      where.find(fmt::format("[b={},", member)) == std::string::npos)
    return -1;
  return std::stoll(where.substr(at + 3));
}

void choose_heads(const InspectOptions& options, Inspection& seen) {
  const int64_t H = seen.value.shape.H;
  if (!has_weights(seen)) return;
  if (!options.head.empty()) {
    seen.heads = {seen.focus.head};
    return;
  }
  if (!seen.view) {
    const int64_t most =
        seen.value.shape.Tq > kLong ? kMostLongMaps : kMostMaps;
    for (int64_t h = 0; h < std::min(H, most); ++h) seen.heads.push_back(h);
    if (H > most)
      seen.why_these =
          fmt::format("; heads 0 .. {} of {}, --head N shows one", most - 1, H);
    return;
  }
  const KernelStage* parts = seen.view->parts_at();
  const int64_t named =
      parts == nullptr || !parts->judgement.finding
          ? -1
          : head_of(parts->judgement.finding->where, seen.focus.member);
  const bool is_named = named >= 0 && named < H;
  seen.heads = {is_named ? named : 0};
  if (H > 1)
    seen.why_these =
        fmt::format("; head {} of {}{}, --head N shows another", seen.heads[0],
                    H, is_named ? ", where it parts" : "");
}

// "" or one line.
std::string write_maps(const InspectOptions& options, const Inspection& seen) {
  if (options.picture.svg.empty()) return "";
  return write_new(
      options.picture.svg,
      heat_svg(to_string(seen.value) +
                   (seen.kernel.empty() ? "" : "   " + seen.kernel),
               shown_maps(seen, kMostDrawn),
               has_kernel_weights(seen) ? 3 : kAcross),
      options.picture.force);
}

// "" or why the picture cannot be written: before the work is done.
std::string misuse_of_files(const InspectOptions& options, const Case& value) {
  const std::string& file = options.picture.svg;
  if (!file.empty() && value.shape.weights_elements() == 0)
    return file + ": there is nothing to be drawn, an extent is 0";
  return misuse_of(options.picture);
}

ExitCode run(const InspectOptions& options) {
  if (const std::string wrong = load_data(options.data); !wrong.empty())
    return wrong_use(wrong);
  Inspection seen;
  if (std::string error = read_case(options, &seen.value); !error.empty())
    return wrong_use(error);
  if (std::string error = read_focus(options.head, seen.value.shape, &seen);
      !error.empty())
    return wrong_use(error);
  if (std::string error = misuse_of_files(options, seen.value); !error.empty())
    return wrong_use(error);
  SelectedKernels selected;
  if (std::string error = read_kernel(options, &selected); !error.empty())
    return wrong_use(error);
  const Inputs inputs = make_inputs(seen.value);
  seen.digest = input_digest(inputs);
  qkvet_dialect dialect{};
  if (!selected.kernels.empty()) {
    const KernelUnderTest& kernel = selected.kernels[0];
    dialect = kernel.judged.info.dialect;
    seen.kernel = kernel.judged.info.name;
    const Opened opened =
        executor_factory(selected, options.selection.in_process)(0);
    if (opened.executor == nullptr) return wrong_use(opened.error);
    seen.view =
        view_kernel(seen.value, inputs, kernel.judged, *opened.executor,
                    kernel.index, seen.focus.member, AskForWeights::kYes);
  }
  fill_movie(inputs, dialect, seen);
  choose_heads(options, seen);
  if (std::string error = write_maps(options, seen); !error.empty())
    return wrong_use(error);
  const std::string text =
      options.json ? inspection_json(seen)
                   : inspection_text(seen, screen_ink(), screen_width());
  std::fputs(text.c_str(), stdout);
  return seen.view ? seen.view->exit_code() : kConforms;
}

void add_flags(CLI::App& command, InspectOptions& options) {
  command
      .add_option("case", options.value,
                  "Case of attention or of a layer: f32,B1,H4,T12,D32,causal")
      ->required();
  add_specs(command, options.selection, "Kernel");
  add_selection(command, options.selection);
  command
      .add_option("--head", options.head,
                  "Head to draw, with its values: H, or B.H of a batch")
      ->type_name("[B.]H");
  add_picture(command, options.picture, "Write the heat maps as SVG");
  command.add_flag("--json", options.json, "Print JSON Lines instead of text");
  add_data(command, options.data);
  add_footer(
      command,
      "Exit: 0 shown, and the kernel agrees if one is named; 1 it parts; 2 "
      "wrong use; 3 it was not judged; 4 it died.");
}

}  // namespace

void add_inspect(CLI::App& demo, Chosen& chosen) {
  add_command<InspectOptions>(
      demo, chosen, "inspect",
      "Show a call tensor by tensor, against the definition", add_flags, run);
}

}  // namespace qkvet::cli
