// SPDX-License-Identifier: Apache-2.0
#include "properties/conventions/conventions.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/base/read_file.h"
#include "core/capability/capability.h"
#include "core/capability/declaration.h"
#include "core/case/case.h"
#include "core/sandbox/undeclared.h"

namespace qkvet::properties {
namespace {

constexpr std::string_view kMarkdown =
#include "conventions.inc"
    ;

constexpr std::string_view kFence = "```";

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return "";
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

bool has_field(const std::string& lines, std::string_view field) {
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);)
    if (trimmed(std::string_view(line).substr(0, line.find('='))) == field)
      return true;
  return false;
}

// "| a | b |" as cells; none if the line is no row, or the rule under a head.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  if (!line.starts_with('|') || line.starts_with("|-")) return cells;
  for (line.remove_prefix(1); line.find('|') != std::string_view::npos;) {
    const size_t bar = line.find('|');
    cells.emplace_back(trimmed(line.substr(0, bar)));
    line.remove_prefix(bar + 1);
  }
  return cells;
}

// The call of a case, without its outputs but lse.
KernelCall call_with(const Case& value, const Inputs& inputs, bool want_lse) {
  const bool layer = value.subject() == Subject::kLayer;
  KernelCall call =
      call_of(value, inputs, layer ? Operation::kLayer : Operation::kForward);
  call.want_lse = want_lse && !layer;
  return call;
}

class Reader {
 public:
  Reader(std::string name, std::string_view text)
      : name_(std::move(name)), text_(text) {}

  ParsedConventions read() {
    for (line_ = 1; !text_.empty() && out_.error.empty(); ++line_) {
      const std::string_view line = text_.substr(0, text_.find('\n'));
      text_.remove_prefix(std::min(line.size() + 1, text_.size()));
      read_line(trimmed(line));
    }
    finish_section();
    for (const auto& [id, title] : listed_)
      if (!has_section(id))
        fail(in_quotes(id) + " is listed and has no section");
    if (listed_.empty()) fail("no convention is listed");
    if (!out_.error.empty()) out_.values.clear();
    return std::move(out_);
  }

 private:
  void fail(const std::string& why) {
    if (out_.error.empty())
      out_.error = name_ + ":" + std::to_string(line_) + ": " + why;
  }

  bool has_section(std::string_view id) const {
    return std::any_of(out_.values.begin(), out_.values.end(),
                       [&](const Convention& c) { return c.id == id; });
  }

  void read_line(std::string_view line) {
    if (in_block_)
      line == kFence ? end_block() : read_field(line);
    else if (line.starts_with("## "))
      begin_section(line.substr(3));
    else if (!in_section_)
      read_list(line);
    else if (line == "```qkvet")
      begin_block();
    else
      read_prose(line);
  }

  // "| `id` | what it is |": only before the first section.
  void read_list(std::string_view line) {
    const auto cells = cells_of(line);
    if (cells.size() != 2 || !cells[0].starts_with('`')) return;
    const std::string id = cells[0].substr(1, cells[0].size() - 2);
    for (const auto& [other, title] : listed_)
      if (other == id) return fail(in_quotes(id) + " is listed twice");
    listed_.emplace_back(id, cells[1]);
  }

  void begin_section(std::string_view id) {
    finish_section();
    const auto found =
        std::find_if(listed_.begin(), listed_.end(),
                     [&](const auto& row) { return row.first == id; });
    if (found == listed_.end())
      return fail(in_quotes(id) + " has a section and is not listed");
    if (has_section(id)) return fail(in_quotes(id) + " has two sections");
    in_section_ = true;
    had_block_ = false;
    fields_.clear();
    now_ = {};
    now_.id = found->first;
    now_.title = found->second;
    now_.declared.name = "conventions/" + now_.id;
    now_.declared.has_forward = false;
    now_.declared.capabilities.struct_size = sizeof(qkvet_capabilities);
    now_.declared.dialect.struct_size = sizeof(qkvet_dialect);
  }

  // The first paragraph, then rows of three cells.
  void read_prose(std::string_view line) {
    if (const auto cells = cells_of(line); !cells.empty()) {
      if (cells.size() != 3 ||
          std::any_of(cells.begin(), cells.end(),
                      [](const auto& cell) { return cell.empty(); }))
        return fail("a row has three cells: what, how, source");
      if (cells[2] != "source")
        now_.facts.push_back({cells[0], cells[1], cells[2]});
    } else if (now_.facts.empty() && !line.starts_with('|') && !line.empty()) {
      if (!now_.mind.empty()) now_.mind += ' ';
      now_.mind += line;
    }
  }

  void begin_block() {
    if (had_block_) return fail("a section has one block");
    in_block_ = had_block_ = true;
  }
  void end_block() { in_block_ = false; }

  void read_field(std::string_view line) {
    if (line.empty()) return;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos)
      return fail(in_quotes(line) + ": write field = value");
    const std::string key(trimmed(line.substr(0, equals)));
    const bool repeats = key == "case" || key == "source";
    if (!repeats && !fields_.insert(key).second)
      return fail(key + " is given twice");
    const std::string why =
        declare(key, trimmed(line.substr(equals + 1)), now_);
    if (!why.empty()) return fail(why);
    if (key == "case") case_lines_.emplace_back(line_, now_.cases.back());
  }

  void finish_section() {
    if (in_block_) fail("the block does not end");
    if (!in_section_ || !out_.error.empty()) return;
    in_section_ = false;
    const KernelInfo& declared = now_.declared;
    const std::string lead = in_quotes(now_.id) + " has no ";
    if (!had_block_) return fail(lead + "block");
    if (now_.mind.empty()) return fail(lead + "paragraph");
    if (now_.facts.empty()) return fail(lead + "table");
    if (!declared.has_forward && !declared.has_layer)
      return fail(lead + "subject");
    if (now_.sources.empty()) return fail(lead + "source");
    if (now_.cases.empty()) return fail(lead + "case");
    check_parts();
    const int end = line_;
    for (const auto& [line, text] : case_lines_) {
      line_ = line;
      if (std::string why = not_taken_reason(now_, text); !why.empty())
        fail(why);
    }
    line_ = end;
    case_lines_.clear();
    out_.values.push_back(std::move(now_));
  }

  // Checks that related declarations are made together.
  void check_parts() {
    const KernelInfo& declared = now_.declared;
    const bool weights = now_.layer.weight != WeightOrder::kUnknown;
    if (declared.has_layer != weights)
      fail("layer.weight is given for a layer, and only for one");
    const bool order = now_.pages.order != PageAxes::kUnknown;
    const bool pool = now_.pages.pool != PagePool::kUnknown;
    const bool paged =
        declared.has_option(QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR);
    if (order != paged || pool != paged)
      fail(
          "pages.order and pages.pool come with option paged or paged_csr, and "
          "only so");
    if (declared.has_option(QKVET_OPTION_PAGED_CHANNEL_GROUPS) !=
        (now_.pages.order == PageAxes::kChannelGroups))
      fail(
          "pages.order = x comes with the option paged_channel_groups, and "
          "only so");
    const bool turns = declared.has_option(QKVET_OPTION_ROPE) ||
                       (declared.layer_options & QKVET_LAYER_ROPE) != 0;
    if (turns == now_.ropes.empty())
      fail("rope = STYLES comes with the option rope, and only so");
  }

  std::string name_;
  std::string_view text_;
  int line_ = 1;
  bool in_section_ = false, in_block_ = false, had_block_ = false;
  std::vector<std::pair<std::string, std::string>> listed_;
  std::set<std::string> fields_;
  std::vector<std::pair<int, std::string>> case_lines_;
  Convention now_;
  ParsedConventions out_;
};

}  // namespace

std::string not_taken_reason(const Convention& convention,
                             std::string_view case_text) {
  const ParsedCase parsed = parse_case(case_text);
  if (!parsed.value) return parsed.error;
  const Case& value = *parsed.value;
  if (const std::string canonical = to_string(value); canonical != case_text)
    return in_quotes(case_text) + " is spelled " + in_quotes(canonical);
  if (value.subject() == Subject::kCache)
    return in_quotes(case_text) +
           " is an operation sequence of a cache, not one call";
  for (const Dtype dtype : {value.q_dtype, value.kv_dtype, value.o_dtype})
    if (!can_store(dtype))
      return in_quotes(case_text) + ": no tensors can be made of " +
             std::string(dtype_name(dtype));
  const RopeStyle style = value.rope.style;
  if (style != RopeStyle::kNone &&
      std::find(convention.ropes.begin(), convention.ropes.end(), style) ==
          convention.ropes.end())
    return in_quotes(case_text) + ": this style of rope is not declared";
  const Inputs inputs = make_inputs(value);
  const KernelInfo& declared = convention.declared;
  std::string why;
  if (capability_allows(
          declared,
          call_with(value, inputs, declared.has_option(QKVET_OPTION_LSE)),
          &why))
    return "";
  return in_quotes(case_text) + ": " + why;
}

ParsedConventions parse_conventions(const std::string& name,
                                    std::string_view markdown) {
  return Reader(name, markdown).read();
}

const ParsedConventions& built_in_conventions() {
  static const ParsedConventions parsed =
      parse_conventions("properties/conventions.md", kMarkdown);
  return parsed;
}

const Convention* find_convention(std::string_view id) {
  for (const Convention& convention : built_in_conventions().values)
    if (convention.id == id) return &convention;
  return nullptr;
}

std::string convention_dialect(const std::string& name) {
  std::error_code ignored;
  const Convention* const convention = find_convention(name);
  return convention == nullptr || std::filesystem::exists(name, ignored)
             ? ""
             : dialect_text(convention->declared.dialect);
}

std::string read_dialect_or_convention(const std::string& name,
                                       qkvet_dialect& dialect) {
  if (const std::string lines = convention_dialect(name); !lines.empty())
    return parse_dialect(name, lines, dialect);
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored))
    return read_dialect(name, dialect);
  return name + (find_convention(name) != nullptr
                     ? ": this convention has no dialect"
                     : ": cannot be read, and is no convention (`qkvet explain "
                       "conventions`)");
}

std::string read_declaration(const std::string& name, KernelInfo& info) {
  std::string text;
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored) ||
      !read_file(name, &text).empty() || !has_field(text, "options"))
    return read_dialect_or_convention(name, info.dialect);
  Convention task;
  KernelInfo& wanted = task.declared;
  wanted.capabilities.struct_size = sizeof wanted.capabilities;
  wanted.dialect.struct_size = sizeof wanted.dialect;
  if (const std::string wrong = declare_lines(text, task); !wrong.empty())
    return name + ": " + wrong;
  wanted.capabilities.devices = info.capabilities.devices;
  wanted.capabilities.alignment = info.capabilities.alignment;
  wanted.capabilities.flags |= info.capabilities.flags & kFlagsOfHowToCall;
  info.capabilities = wanted.capabilities;
  info.dialect = wanted.dialect;
  return "";
}

std::string declare_lines(const std::string& lines, Convention& convention) {
  std::istringstream in(lines);
  bool first = true;
  for (std::string line; std::getline(in, line); first = false) {
    if (trimmed(line).empty()) continue;
    const std::string_view text = line;
    const size_t equals = text.find('=');
    const std::string_view key = trimmed(text.substr(0, equals));
    const std::string_view value = equals == std::string::npos
                                       ? std::string_view()
                                       : trimmed(text.substr(equals + 1));
    if (key == "like") {
      const Convention* known = find_convention(value);
      if (known == nullptr || !first)
        return "like: " + in_quotes(value) +
               " is no convention; `qkvet explain conventions` shows all";
      convention = *known;
    } else if (std::string wrong = declare(key, value, convention);
               !wrong.empty()) {
      return std::string(key) + ": " + wrong;
    }
  }
  return "";
}

}  // namespace qkvet::properties
