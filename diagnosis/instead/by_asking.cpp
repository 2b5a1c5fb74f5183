// SPDX-License-Identifier: Apache-2.0
// Descriptions found by making the same call again in other surroundings. If
// the numbers change with the bytes in memory from malloc() or around the rows
// of inputs, they depend on that memory. If they change after another call in
// the same process, they depend on what that call left, or on unwritten memory.
// If they change with unrelated rows, heads or members of an input, an address
// leads there, or their results were left in scratch.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "core/door/call_plan.h"
#include "diagnosis/instead/claims.h"
#include "diagnosis/instead/collector.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// As many calls as needed for all answers, three of each.
constexpr int kMostOfWitness = 600;
constexpr size_t kFirstAnswers = 5;

Case with_other_data(Case value) {
  constexpr uint64_t kOther = 7'919;
  value.seed += kOther;
  value.set.clear();
  // Other seeds do not change constants.
  if (value.file == 0) value.q = value.k = value.v = {};
  return value;
}

bool is_another(double one, double other) {
  return one != other && !(std::isnan(one) && std::isnan(other));
}

// Memory that is neither input nor output: from malloc() and the stack, and
// around the rows of inputs.
enum class OfMemory : uint8_t { kFresh, kAroundInputs };

// The call of one answer, made again.
class Again {
 public:
  Again(const WrongAnswer& answer, const WrongOutput& output, Witness& witness)
      : answer_(answer),
        value_(answer.evidence->value()),
        output_(output),
        witness_(witness) {}

  // Each returns the numbers of the output; empty if there are none.
  std::vector<double> behind(bool new_process) {
    return numbers_of(prepare(value_), new_process);
  }
  // For all calls of the case. Nullopt: the case was not run.
  std::optional<std::vector<double>> with_bytes(OfMemory of, uint8_t byte) {
    auto evidence = prepare(value_);
    if (evidence == nullptr ||
        evidence->calls.size() != answer_.evidence->calls.size())
      return std::nullopt;
    for (KernelCall& call : evidence->calls)
      (of == OfMemory::kFresh ? call.fresh_memory : call.around_inputs) = byte;
    evidence->calls[0].new_process = true;
    evidence = witness_.ask(std::move(evidence));
    return evidence == nullptr ? std::nullopt
                               : std::optional(numbers_in(*evidence));
  }
  void other_call() {
    numbers_of(prepare(with_other_data(value_)), /*new_process=*/true);
  }
  // In a new process, after `change(call, other)` was applied to the call;
  // `other` is the same case with other data.
  template <class Change>
  std::vector<double> changed(Change change) {
    auto evidence = prepare(value_);
    const auto other = prepare(with_other_data(value_));
    if (evidence == nullptr || other == nullptr) return {};
    const std::vector<std::byte> kept =
        change(evidence->calls[0], other->calls[0]);
    if (kept.empty()) return {};
    return numbers_of(std::move(evidence), /*new_process=*/true);
  }

 private:
  std::unique_ptr<Evidence> prepare(const Case& value) {
    return witness_.prepare(*answer_.evidence->law, value);
  }
  std::vector<double> numbers_of(std::unique_ptr<Evidence> evidence,
                                 bool new_process) {
    if (evidence == nullptr || evidence->calls.size() != 1) return {};
    evidence->calls[0].new_process = new_process;
    evidence = witness_.ask(std::move(evidence));
    return evidence == nullptr ? std::vector<double>() : numbers_in(*evidence);
  }
  std::vector<double> numbers_in(const Evidence& evidence) const {
    auto numbers =
        as_doubles(evidence.outcomes[answer_.call].*output_member(output_.name),
                   output_.dtype);
    if (numbers.size() != output_.actual.size()) numbers.clear();
    return numbers;
  }

  const WrongAnswer& answer_;
  const Case& value_;
  const WrongOutput& output_;
  Witness& witness_;
};

bool are_mostly_others(const WrongOutput& output,
                       const std::vector<double>& one,
                       const std::vector<double>& other) {
  if (one.empty() || other.empty()) return false;
  const auto others =
      std::count_if(output.wrong.begin(), output.wrong.end(),
                    [&](size_t n) { return is_another(one[n], other[n]); });
  return 2 * others >= std::ssize(output.wrong);
}

// In f32 these are 0.75 and 3.0, which lead to finite results, and NaN.
constexpr uint8_t kBytes[] = {0x3f, 0x40, 0xff};

// How other bytes in memory change the call.
enum class WithBytes : uint8_t {
  kUnknown,       // no answer has numbers
  kTheSame,       // of most of what is wrong
  kOtherNumbers,  // of most of it
  kNoNumbers      // with some of them alone
};

WithBytes with_other_bytes(OfMemory of, const WrongAnswer& answer,
                           const WrongOutput& output, Witness& witness) {
  if (output.wrong.empty()) return WithBytes::kUnknown;
  Again again(answer, output, witness);
  const auto one = again.with_bytes(of, kBytes[0]);
  if (!one) return WithBytes::kUnknown;
  bool has_others = false, has_none = one->empty(), has_numbers = !has_none;
  for (const uint8_t byte : {kBytes[1], kBytes[2]}) {
    const auto other = again.with_bytes(of, byte);
    if (!other) return WithBytes::kUnknown;
    (other->empty() ? has_none : has_numbers) = true;
    has_others |= are_mostly_others(output, *one, *other);
  }
  if (!has_numbers) return WithBytes::kUnknown;
  if (!has_others && !has_none) return WithBytes::kTheSame;
  const auto same = again.with_bytes(of, kBytes[0]);
  if (!same || same->empty() != one->empty() ||
      are_mostly_others(output, *one, *same))
    return WithBytes::kTheSame;  // even the same bytes give other numbers
  return has_others ? WithBytes::kOtherNumbers : WithBytes::kNoNumbers;
}

// Whether most wrong numbers change after another call.
bool hangs_on_memory(const WrongAnswer& answer, const WrongOutput& output,
                     Witness& witness) {
  if (output.wrong.empty()) return true;
  if (answer.evidence->calls.size() != 1) return false;
  Again again(answer, output, witness);
  const auto alone = again.behind(/*new_process=*/true);
  again.other_call();
  return are_mostly_others(output, alone, again.behind(/*new_process=*/false));
}

// An input, and the axes (bits: member, head, row, channel) along which another
// index gives an element that the output does not depend on.
struct Elsewhere {
  TensorName input;
  unsigned axes;
  const char* text;
};
constexpr unsigned kMember = 1, kHead = 2, kRow = 4, kChannel = 8;
// Single axes come before several: a change of the next row may also be one of
// another head, if heads are contiguous.
constexpr Elsewhere kElsewhere[] = {
    {TensorName::kQ, kRow, "queries of other rows"},
    {TensorName::kV, kChannel, "other channels of the values"},
    {TensorName::kQ, kHead, "queries of other heads"},
    {TensorName::kK, kHead, "keys of other heads"},
    {TensorName::kV, kHead, "values of other heads"},
    {TensorName::kQ, kMember, "queries of other members"},
    {TensorName::kK, kMember, "keys of other members"},
    {TensorName::kV, kMember, "values of other members"},
    {TensorName::kQ, kMember | kHead | kRow,
     "queries of other rows, heads or members"},
    {TensorName::kK, kMember | kHead, "keys of other heads or members"},
    {TensorName::kV, kMember | kHead, "values of other heads or members"},
    {TensorName::kV, kMember | kHead | kChannel,
     "values of other channels, heads or members"}};

using Place = std::array<int64_t, 4>;

// The elements of a tensor: their number, and for a packed batch the first row
// of each member and the end of the last one.
struct Elements {
  Place extents;
  const std::vector<int64_t>* starts;

  // The place of element n along these axes, 0 along the others.
  Place place_along(unsigned axes, size_t n) const {
    Place place = {};
    auto rest = static_cast<int64_t>(n);
    for (size_t a = 4; a-- > 0; rest /= extents[a])
      place[a] = rest % extents[a];
    if (!starts->empty())
      place[0] = std::upper_bound(starts->begin(), starts->end(), place[2]) -
                 starts->begin();
    for (size_t a = 0; a < 4; ++a)
      if ((axes >> a & 1) == 0) place[a] = 0;
    return place;
  }
};

Elements elements_of(TensorName input, const Case& value) {
  return {tensor_extents(value.shape, input),
          input == TensorName::kQ ? &value.cu_q : &value.cu_k};
}

// Whether the input has an element for each place, and no other place has it.
bool is_in_places(TensorName input, const KernelCall& call) {
  return call.operation == Operation::kForward &&
         (input == TensorName::kQ ||
          (call.page_size == 0 && call.share == 0 && !call.values_in_keys));
}

// The input with the elements of `other` at all places but one; empty if there
// is no other place.
std::vector<std::byte> replaced(const Case& value, KernelCall& call,
                                const KernelCall& other,
                                const Elsewhere& elsewhere, const Place& own) {
  const auto member = input_member(elsewhere.input);
  if (call.*member == nullptr || other.*member == nullptr) return {};
  const Elements elements = elements_of(elsewhere.input, value);
  const auto width =
      static_cast<size_t>(dtype_bytes(storage_type(value, elsewhere.input)));
  size_t count = 1, others = 0;
  for (const int64_t extent : elements.extents)
    count *= static_cast<size_t>(extent);
  std::vector<std::byte> bytes(call.*member, call.*member + count * width);
  for (size_t n = 0; n < count; ++n)
    if (elements.place_along(elsewhere.axes, n) != own) {
      std::memcpy(&bytes[n * width], other.*member + n * width, width);
      ++others;
    }
  if (others == 0) return {};
  call.*member = bytes.data();
  return bytes;
}

// Whether most wrong numbers at one place change if the input changes at all
// other places, and none of them changes if nothing does.
bool hangs_on(const Elsewhere& elsewhere, const WrongAnswer& answer,
              const WrongOutput& output, Witness& witness) {
  const Case& value = answer.value();
  if (output.wrong.empty()) return true;  // no description
  if (answer.evidence->calls.size() != 1 ||
      !is_in_places(elsewhere.input, answer.evidence->calls[0]))
    return false;
  const Elements elements{output.extents, &value.cu_q};
  const auto own_place = [&](size_t n) {
    Place place = elements.place_along(elsewhere.axes, n);
    if (elsewhere.input != TensorName::kQ)
      place[1] /= value.shape.H / value.shape.Hkv;
    return place;
  };
  std::map<Place, size_t> wrong_at;
  for (const size_t n : output.wrong) ++wrong_at[own_place(n)];
  const auto& [own, count] = *std::max_element(
      wrong_at.begin(), wrong_at.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });

  Again again(answer, output, witness);
  const auto changed =
      again.changed([&, own = own](KernelCall& call, const KernelCall& other) {
        return replaced(value, call, other, elsewhere, own);
      });
  if (changed.empty()) return false;
  const auto first = again.behind(/*new_process=*/true);
  if (first.empty()) return false;
  size_t others = 0;
  for (const size_t n : output.wrong)
    if (own_place(n) == own) others += is_another(first[n], changed[n]);
  if (2 * others < count) return false;
  const auto second = again.behind(/*new_process=*/true);
  return !second.empty() &&
         std::none_of(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
           return is_another(first[n], second[n]);
         });
}

}  // namespace

std::optional<Claim> claim_of_asking_again(const Wrongs& wrongs,
                                           const EvidencePool& pool,
                                           int* calls) {
  const auto witness = std::make_shared<Witness>(pool, kMostOfWitness);
  std::vector<Claim> claims = {
      {"other numbers after another call than in a new process: what that one "
       "left, or unwritten memory",
       [witness](const WrongAnswer& answer, const WrongOutput& output) {
         return hangs_on_memory(answer, output, *witness);
       },
       Stage::kUnknown,
       /*is_cheap=*/true}};
  for (const Elsewhere& one : kElsewhere) {
    const bool is_of_channels = (one.axes & kChannel) != 0;
    if (is_of_channels && wrongs[0].second->name != TensorName::kO) continue;
    claims.push_back(
        {std::string("changed by ") + one.text,
         [witness, one](const WrongAnswer& answer, const WrongOutput& output) {
           return hangs_on(one, answer, output, *witness);
         }});
  }
  const Wrongs first(wrongs.begin(),
                     wrongs.begin() + static_cast<std::ptrdiff_t>(std::min(
                                          wrongs.size(), kFirstAnswers)));
  const auto found = std::find_if(
      claims.begin(), claims.end(),
      [&](const Claim& one) { return is_true_of_all(one, first); });
  *calls += witness->calls_made();
  if (found == claims.end()) return std::nullopt;
  found->of_most = true;
  return std::move(*found);
}

ClaimOfMemory claim_of_memory(const Wrongs& wrongs, const EvidencePool& pool,
                              int* calls) {
  constexpr std::pair<OfMemory, const char*> kMemory[] = {
      {OfMemory::kFresh,
       "made of unwritten memory: with other bytes in it, other numbers"},
      {OfMemory::kAroundInputs,
       "made of what lies around the rows of inputs: with other bytes there, "
       "other numbers"}};
  const auto witness = std::make_shared<Witness>(pool, kMostOfWitness);
  ClaimOfMemory out;
  for (const auto& [of, text] : kMemory) {
    size_t known = 0, others = 0;
    for (size_t n = 0; n < wrongs.size() && known < kFirstAnswers; ++n) {
      const WithBytes made =
          with_other_bytes(of, *wrongs[n].first, *wrongs[n].second, *witness);
      known += made != WithBytes::kUnknown;
      others += made == WithBytes::kOtherNumbers;
      out.is_of_any |=
          made == WithBytes::kOtherNumbers || made == WithBytes::kNoNumbers;
    }
    if (out.claim || others < kFewestCases || others < known) continue;
    out.claim = {text, [witness, of = of](const WrongAnswer& answer,
                                          const WrongOutput& output) {
                   // Calls without numbers are not described.
                   return with_other_bytes(of, answer, output, *witness) !=
                          WithBytes::kTheSame;
                 }};
    out.claim->of_most = true;
  }
  *calls += witness->calls_made();
  return out;
}

}  // namespace qkvet::diagnosis
