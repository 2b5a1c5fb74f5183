// SPDX-License-Identifier: Apache-2.0
#include "report/run_merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/case/case.h"
#include "report/run_compare.h"

namespace qkvet::report {
namespace {

// The shards of a record, from 1; empty if it is none.
std::vector<int64_t> shards_in(const RunRecord& record, int64_t* of) {
  const StartLine& start = record.start;
  *of = start.shard ? start.shard->of : start.shards ? start.shards->of : 0;
  if (start.shard) return {start.shard->number};
  return start.shards ? start.shards->merged : std::vector<int64_t>();
}

// "" or why the two are not parts of one plan.
std::string difference(const RunRecord& first, const RunRecord& other) {
  const StartLine& a = first.start;
  const StartLine& b = other.start;
  if (a.environment.qkvet != b.environment.qkvet)
    return fmt::format("made by QKVet {}, and {} by {}", b.environment.qkvet,
                       first.name, a.environment.qkvet);
  if (const Texts fields = other_plan(a, b, /*whole=*/true); !fields.empty())
    return fmt::format("has another plan than {}: \"{}\" differs", first.name,
                       fields[0]);
  std::set<std::string> names, others;
  for (const KernelLine& kernel : first.kernels) names.insert(kernel.kernel);
  for (const KernelLine& kernel : other.kernels) others.insert(kernel.kernel);
  return names == others ? "" : "has other kernels than " + first.name;
}

// "" or why the records cannot be merged; otherwise fills in their shards.
std::string check_parts(const std::vector<RunRecord>& parts,
                        std::set<int64_t>& held, int64_t& of) {
  of = 0;
  for (const RunRecord& part : parts) {
    int64_t mine = 0;
    const auto numbers = shards_in(part, &mine);
    if (numbers.empty() || mine < 1)
      return part.name +
             ": is no shard; allowed: what `qkvet check --shard "
             "K/N --json` has written";
    if (of == 0) of = mine;
    if (mine != of)
      return fmt::format("{}: is one of {} shards, and {} one of {}", part.name,
                         mine, parts[0].name, of);
    if (std::string why = difference(parts[0], part); !why.empty())
      return part.name + ": " + why;
    for (const int64_t number : numbers)
      if (number < 1 || number > of)
        return fmt::format("{}: shard {} of {}", part.name, number, of);
      else if (!held.insert(number).second)
        return fmt::format("{}: shard {} is there already", part.name, number);
  }
  return "";
}

// The size of a case: its numbers, or the length of its text.
int64_t size_of_case(const FailureLine& failure) {
  const auto parsed = parse_case(failure.value);
  if (!parsed.value) return std::ssize(failure.value);
  const Shape& shape = parsed.value->shape;
  return shape.B * shape.H *
         (shape.Tq * shape.d + shape.Tk * (shape.d + shape.dv));
}

using Results = std::vector<const ResultLine*>;

// The smallest failure of each finding, the smallest of all first. Two failures
// of a law are one finding if they have the same cause or, if it is unknown,
// the same case.
std::vector<FailureLine> smallest_findings(const Results& results) {
  std::vector<FailureLine> all;
  for (const ResultLine* result : results)
    for (const FailureLine* failure : result->failures())
      all.push_back(*failure);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(size_of_case(a), a.number) <
           std::pair(size_of_case(b), b.number);
  });
  std::vector<FailureLine> out;
  std::set<std::string> seen;
  for (FailureLine& failure : all) {
    const std::string cause = failure.cause().known_cause();
    if (seen.insert(cause.empty() ? failure.value : cause).second)
      out.push_back(std::move(failure));
  }
  if (out.size() > kMostOthers + 1) out.resize(kMostOthers + 1);
  return out;
}

// A shard without the known failure does not count here.
std::optional<KnownLine> merged_known(const Results& results) {
  std::optional<KnownLine> said;
  for (const ResultLine* result : results) {
    if (!result->known) continue;
    // In this order: in another way, as known, not at all.
    const bool otherwise = !result->known->holds && !result->known->gone;
    if (!said || otherwise || (result->known->holds && said->gone))
      said = result->known;
    if (otherwise) break;
  }
  return said;
}

// Undeclared if it is so in every shard that refused a case; a shard without
// such a case does not count.
bool is_undeclared(const Results& results) {
  bool said = false;
  for (const ResultLine* result : results)
    if (result->is_undeclared())
      said = true;
    else if (result->counts.unsupported > 0)
      return false;
  return said;
}

// `mistrust`: of the kernel, as every shard has it.
ResultLine merged_result(const Results& results, const std::string& mistrust) {
  ResultLine out;
  out.kernel = results[0]->kernel;
  out.law = results[0]->law;
  out.row = results[0]->row;
  bool crashed = false;
  for (const ResultLine* result : results) {
    Tally one = result->counts;
    if (result->verdict == RowVerdict::kUnsupported)
      one.unsupported_for = one.reason;
    merge(out.counts, one);
    crashed |= result->verdict == RowVerdict::kCrash;
  }
  Tally& sum = out.counts;
  std::vector<FailureLine> findings = smallest_findings(results);
  // A law that the kernel does not declare has no counts.
  const bool asked = sum.checked + sum.unsupported + sum.not_applicable > 0 ||
                     !findings.empty();
  const Cell cell =
      cell_of(sum, std::vector<Failure>(findings.empty() ? 0 : 1), mistrust);
  out.verdict = asked || crashed ? row_verdict(cell.verdict, crashed)
                                 : results[0]->verdict;
  if (asked) sum.reason = {.text = cell.reason, .about = cell.about};
  if (out.verdict == RowVerdict::kUnsupported)
    sum.reason.about =
        is_undeclared(results) ? About::kDeclaration : About::kOther;
  if (is_judged(out.verdict)) sum.reason = {};
  if (!findings.empty()) {
    out.failure = std::move(findings[0]);
    out.others.assign(std::make_move_iterator(findings.begin() + 1),
                      std::make_move_iterator(findings.end()));
  }
  out.known = merged_known(results);
  return out;
}

// Adds "windows 812" and "windows 40" to "windows 852". Shards list the drawn
// options in one order, each without those that it has not drawn: a new name
// goes after its predecessor in that shard.
void add_drawn(const KernelLine& kernel, std::vector<DrawnCalls>& drawn) {
  auto next = drawn.begin();
  for (const DrawnCalls& one : kernel.drawn) {
    auto at = std::find_if(drawn.begin(), drawn.end(), [&one](const auto& row) {
      return row.what == one.what;
    });
    if (at == drawn.end()) at = drawn.insert(next, {one.what, 0});
    at->calls += one.calls;
    next = at + 1;
  }
}

// The kernel of the first shard, with the drawn options of all of them.
KernelLine merged_kernel(const std::vector<RunRecord>& parts,
                         KernelLine kernel) {
  std::vector<DrawnCalls> drawn;
  MetPairs pairs;
  for (NearHint& hint : kernel.hints) hint.calls = 0;
  for (const RunRecord& part : parts) {
    const KernelLine& other = *part.kernel(kernel.kernel);
    add_drawn(other, drawn);
    pairs.add(other.pairs);
    for (NearHint& hint : kernel.hints)
      for (const NearHint& one : other.hints)
        if (one.path == hint.path) hint.calls += one.calls;
  }
  std::erase_if(kernel.never_drawn, [&drawn](const std::string& what) {
    return std::any_of(drawn.begin(), drawn.end(),
                       [&what](const auto& one) { return one.what == what; });
  });
  kernel.drawn = std::move(drawn);
  kernel.pairs = std::move(pairs);
  return kernel;
}

// The end of all shards together: sums, and fields that one shard has.
EndLine merged_end(const std::vector<RunRecord>& parts) {
  EndLine end = parts[0].end;
  end.replaced_cases = 0;
  for (size_t i = 1; i < parts.size(); ++i) {
    const EndLine& other = parts[i].end;
    end.planned_cases = std::max(end.planned_cases, other.planned_cases);
    end.rounds = std::max(end.rounds, other.rounds);
    end.wall_seconds = std::max(end.wall_seconds, other.wall_seconds);
    end.interrupted |= other.interrupted;
    end.thread_seconds.add(other.thread_seconds);
    if (!end.oracle_suspected) end.oracle_suspected = other.oracle_suspected;
  }
  return end;
}

StartLine merged_start(StartLine start, const std::set<int64_t>& held,
                       int64_t of) {
  start.shard.reset();
  start.shards = {of, {held.begin(), held.end()}, {}};
  for (int64_t number = 1; number <= of; ++number)
    if (!held.contains(number)) start.shards->missing.push_back(number);
  return start;
}

}  // namespace

std::optional<RunRecord> merge_records(std::vector<RunRecord> parts,
                                       std::string* error) {
  std::set<int64_t> held;
  int64_t of = 0;
  *error = check_parts(parts, held, of);
  if (!error->empty()) return std::nullopt;
  // Independent of the names of the records.
  std::sort(parts.begin(), parts.end(),
            [](const RunRecord& a, const RunRecord& b) {
              int64_t of_any = 0;
              return shards_in(a, &of_any) < shards_in(b, &of_any);
            });
  RunRecord out;
  out.start = merged_start(parts[0].start, held, of);
  out.end = merged_end(parts);
  out.laws = parts[0].laws;
  for (const KernelLine& kernel : parts[0].kernels)
    out.kernels.push_back(merged_kernel(parts, kernel));
  for (const ResultLine& result : parts[0].results) {
    Results results;
    for (const RunRecord& part : parts)
      if (const ResultLine* one = part.result(result.kernel, result.law))
        results.push_back(one);
    out.add_result(merged_result(results, out.kernel(result.kernel)->mistrust));
  }
  set_verdict(out);
  return out;
}

}  // namespace qkvet::report
