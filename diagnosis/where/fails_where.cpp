// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/fails_where.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/evidence/tiles.h"
#include "diagnosis/where/asked_cases.h"
#include "diagnosis/where/fresh_cases.h"
#include "diagnosis/where/nearest.h"
#include "properties/conventions/domain.h"

namespace qkvet::diagnosis {
namespace {

constexpr uint64_t kPlanSeed = 0x5748;   // any: the same for every search
constexpr uint64_t kFreshSeed = 0x4652;  // of fresh cases
constexpr uint64_t kConfirmingSeed = 0x434F;
// Likely tiles and lanes of a kernel, of keys and of queries.
constexpr int64_t kTiles[] = {16, 32, 64, 128, 256};
// Cases at tiles against which a sentence is checked.
constexpr int kMostAtTiles = 12;
constexpr int kPlanned = 36;           // cases that are run first
constexpr int kInPool = 200;           // and those to choose from
constexpr size_t kMostWaiting = 1200;  // of variations and those
constexpr int kMostQuestions = 130;
constexpr int kMostTrials = 5;
// Trials in which no sentence was right in four of five cases, after which the
// search ends.
constexpr int kMostHopeless = 2;
// Failing cases that are varied.
constexpr int kMostVaried = 4;
// Cases that fail as the sentence predicts, and cases that lack just one of its
// atoms.
constexpr int kEnoughFailing = 12;
constexpr int kEnoughLacking = 5;
// Rival sentences are no more than this worse than the best.
constexpr double kRivals = 1.6;
constexpr size_t kMostRivals = 40;
// Cases that are run before rivals are computed again; with many cases, of
// which few change anything, one in so many.
constexpr size_t kOfSameRivals = 3;
constexpr size_t kShareOfSamples = 30;
// Planned cases that are run whatever they cost.
constexpr int kFewestPlanned = 10;

class WhereSearch {
 public:
  WhereSearch(const Failure& failure, const EvidencePool& pool)
      : failure_(failure), kernel_(pool.kernel), cases_(pool) {}

  FailsWhere run() {
    FailsWhere out;
    if (!choose_setting(settings_of(failure_, kernel_))) return out;
    search(out);
    // Errors of a few bounds are rare on normal data. On the data of the law
    // that fails every time, they may be predictable.
    if (!out.is_known() && is_nearly_right(out) && has_room_for_another()) {
      begin_anew(kMostWhereCases / 2);
      std::vector<FailingSetting> others = settings_of(failure_, kernel_);
      std::erase_if(others, [this](const FailingSetting& one) {
        return !has_other_data(one.setting);
      });
      if (choose_setting(others)) search_again(out);
    }
    // A case that fails now and then may do so because of its scores.
    if (!out.is_known() && has_room_for_another()) {
      begin_anew(kMostWhereCases);
      if (choose_setting(settings_of_scores(failure_, kernel_)))
        search_again(out);
    }
    return out;
  }

 private:
  struct Waiting {
    Case value;
    TermValues values;
    double work = 0;
  };

  const Setting& setting() const { return cases_.setting(); }
  const std::vector<Sample>& samples() const { return cases_.samples(); }

  void search(FailsWhere& out) {
    ask_first();
    int hopeless = 0;
    for (int trial = 0; trial < kMostTrials; ++trial) {
      while (questions_ < kMostQuestions && cases_.has_room() && ask_next())
        ++questions_;
      const bool is_outdone = hold_against_fresh(trial, out);
      hopeless += 5 * out.fresh.right < 4 * out.fresh.all;
      if (hopeless == kMostHopeless) break;
      if ((out.fresh.are_believable() && !is_outdone &&
           unconfirmed(out.hypothesis).empty()) ||
          !cases_.has_room())
        break;
      questions_ -= kMostQuestions / 4;
      rivals_.clear();
      fill_pool();
    }
    out.setting = setting();
    hold_against_more(out);
    keep_the_confirmed(out);
    finish(out);
  }

  // Drops the predicates without evidence if the shorter sentence is as good;
  // otherwise the sentence is not confirmed.
  void keep_the_confirmed(FailsWhere& out) {
    if (!out.fresh.are_believable()) return;
    const std::vector<size_t> noise = unconfirmed(out.hypothesis);
    out.is_confirmed = noise.empty();
    if (noise.empty() || noise.size() == out.hypothesis.atoms.size()) return;
    Hypothesis less = out.hypothesis;
    for (size_t n = noise.size(); n-- > 0;)
      less.atoms.erase(less.atoms.begin() +
                       static_cast<std::ptrdiff_t>(noise[n]));
    FreshVerdicts& fresh = cases_.verdicts_of(less.formula());
    cases_.allow_more(2 * kFreshCases);
    ask_fresh(less, 4 * kMostTrials, 2 * kFreshCases, fresh);
    if (!fresh.are_believable() || !unconfirmed(less).empty()) return;
    out.hypothesis = less;
    out.fresh = fresh;
    out.is_confirmed = true;
  }

  // The predicates without evidence: cases that lack only them do not pass. `A
  // or B` needs cases in which just one of the two holds.
  std::vector<size_t> unconfirmed(const Hypothesis& one) {
    constexpr int kEnoughOfEach = 6, kFewestOfEach = 3;
    cases_.allow_more(kEnoughOfEach * static_cast<int>(one.atoms.size()));
    std::vector<size_t> out;
    for (size_t i = 0; i < one.atoms.size(); ++i) {
      const auto lacks_it = [&](const TermValues& values) {
        return all_hold(one, values, i) && !one.atoms[i].holds(values);
      };
      Borne borne = borne_out(one, lacks_it);
      if (borne.all < kEnoughOfEach) {
        for (const Case& value :
             cases_lacking(one, i, setting(), cases_.failing(),
                           kConfirmingSeed + i, kEnoughOfEach - borne.all,
                           [this] { return cases_.is_over(); }))
          if (!cases_.is_asked(value)) cases_.ask(value);
        borne = borne_out(one, lacks_it);
      }
      // Some options are present in every call.
      const Atom& atom = one.atoms[i];
      const bool must_be_seen =
          atom.is_compound() ||
          vocabulary()[atom.term].kind == Term::Kind::kNumber;
      bool is_confirmed =
          borne.is_right() && (!must_be_seen || borne.all >= kFewestOfEach);
      if (atom.relation == Atom::Relation::kAnyOf)
        for (const Atom& part : atom.parts) {
          const Borne alone = borne_out(one, [&](const TermValues& values) {
            return all_hold(one, values, i) && part.holds(values) &&
                   std::count_if(atom.parts.begin(), atom.parts.end(),
                                 [&](const Atom& other) {
                                   return other.holds(values);
                                 }) == 1;
          });
          is_confirmed &= alone.all >= kFewestOfEach && alone.is_right();
        }
      if (!is_confirmed) out.push_back(i);
    }
    return out;
  }

  // Counts cases with a given property that came out as the sentence predicts.
  struct Borne {
    int right = 0, all = 0;
    bool is_right() const { return 5 * right >= 4 * all; }
  };
  template <class Which>
  Borne borne_out(const Hypothesis& one, Which which) const {
    Borne borne;
    for (const Sample& sample : samples()) {
      if (!which(sample.values)) continue;
      ++borne.all;
      borne.right += sample.failed == one.predicts_failure(sample.values);
    }
    return borne;
  }

  // A sentence that is nearly believed is checked against as many cases again:
  // of sentences that are wrong in every thirtieth case, half are not believed
  // after the first hundred and fifty.
  void hold_against_more(FailsWhere& out) {
    constexpr int kMoreBatches = 2;
    cases_.allow_more(kMoreBatches * 2 * kFreshCases);
    for (int n = 0; n < kMoreBatches; ++n) {
      if (out.is_known() || !out.fresh.are_right()) return;
      FreshVerdicts& fresh = cases_.verdicts_of(out.hypothesis.formula());
      ask_fresh(out.hypothesis, 3 * kMostTrials + n, 2 * kFreshCases, fresh);
      out.fresh = fresh;
    }
  }

  void search_again(FailsWhere& out) {
    FailsWhere other;
    search(other);
    const int calls = other.calls;
    if (other.is_known() || other.fresh.are_better_than(out.fresh))
      out = std::move(other);
    out.calls = calls;
  }

  // Whether there is time for other data. For stories, data do not matter.
  bool has_room_for_another() const {
    constexpr double kMostShare = 0.5;
    return failure_.law->domain.subject == Subject::kAttention &&
           !cases_.has_stopped() && cases_.share_of_work() < kMostShare &&
           cases_.share_of_time() < kMostShare;
  }
  static bool is_nearly_right(const FailsWhere& out) {
    return 20 * out.fresh.right >= 17 * out.fresh.all;
  }

  void begin_anew(int most_cases) {
    before_ = cases_.setting();
    cases_.begin_anew(most_cases);
    bases_.clear();
    pool_.clear();
    in_pool_.clear();
    rivals_.clear();
    room_ = stale_ = 0;
    questions_ = drawn_ = 0;
  }

  // --- which law and data

  bool fails_in(const Setting& setting, const Case& value) {
    cases_.set_setting(setting);
    for (uint64_t more = 0; more < 2; ++more) {
      Case other = value;
      other.seed += more;
      const Case dressed = setting.dressed(other);
      if (invalid_reason(dressed).empty() &&
          cases_.ask(dressed).value_or(false)) {
        bases_.push_back(dressed);
        return true;
      }
    }
    return false;
  }

  // The first in which the kernel fails.
  bool choose_setting(const std::vector<FailingSetting>& settings) {
    for (const FailingSetting& one : settings) {
      if (fails_in(one.setting, one.like)) return true;
      cases_.forget();
    }
    return false;
  }

  // The data of the failing case, under its law.
  bool has_other_data(const Setting& setting) const {
    return setting.data() == Setting::Data::kOfCase &&
           &setting.law() == failure_.law &&
           setting.text_of_data() != before_->text_of_data();
  }

  // --- cases that are run before there are rivals

  void ask_first() {
    for (int n = 1; n <= kPlanned && (n <= kFewestPlanned || cases_.has_room());
         ++n) {
      const Case planned = setting().planned(kPlanSeed, n);
      if (setting().allows(planned)) cases_.ask(planned);
    }
    for (const Case* other : {&failure_.smallest, &failure_.found}) {
      const Case dressed = setting().dressed(*other);
      if (setting().allows(dressed) && cases_.ask(dressed).value_or(false))
        bases_.push_back(dressed);
    }
    ask_ladder(bases_.front());
    ask_tiles(bases_.front());
    fill_pool();
  }

  // Full tiles: once, and if that passes, twice and three times as many.
  void ask_tiles(const Case& base) {
    if (!base.story.empty() || base.shape.D > 0) return;
    for (int64_t Shape::*extent : {&Shape::Tk, &Shape::Tq}) {
      std::vector<int64_t> tiles(std::begin(kTiles), std::end(kTiles));
      for (const Hint& hint : kernel_.hints)
        if (hint.path.axis ==
            (extent == &Shape::Tk ? QKVET_AXIS_TK : QKVET_AXIS_TQ))
          tiles.push_back(hint.path.at), tiles.push_back(hint.path.at + 1);
      for (const int64_t tile : tiles)
        for (int64_t times = 1; times <= 3; ++times)
          if (asks_with(base, extent, times * tile).value_or(true)) break;
    }
  }

  std::optional<bool> asks_with(const Case& base, int64_t Shape::*extent,
                                int64_t to) {
    Case other = base;
    other.shape.*extent = to;
    if (!invalid_reason(other).empty()) return std::nullopt;
    const Case dressed = setting().dressed(other);
    if (!setting().allows(dressed) || dressed.shape.*extent != to)
      return std::nullopt;
    return cases_.ask(dressed);
  }

  // Each extent far below and above its value, and one option fewer.
  void ask_ladder(const Case& base) {
    const TermValues values = setting().values(base);
    for (size_t n = 0; n < vocabulary().size(); ++n) {
      const Term& term = vocabulary()[n];
      if (term.kind != Term::Kind::kNumber) continue;
      const int64_t now = values[n];
      for (const int64_t to : {int64_t{1}, now / 2, now - 1, now + 1,
                               2 * now + 1, int64_t{65}, int64_t{300}}) {
        if (to < 1 || to == now) continue;
        if ((term.name == "B" || term.name[0] == 'H') && to > 9) continue;
        if (const auto other = with_term(base, term, to))
          ask_if_allowed(*other);
      }
    }
    const uint64_t has = options_of(base);
    for (const uint64_t option : single_options(has))
      ask_if_allowed(keep_allowed(base, has & ~option));
  }

  void ask_if_allowed(const Case& other) {
    if (!invalid_reason(other).empty() || !cases_.has_room()) return;
    const Case dressed = setting().dressed(other);
    if (setting().allows(dressed)) cases_.ask(dressed);
  }

  // --- cases to choose from

  void put_in_pool(const Case& value) {
    if (cases_.is_over() || !invalid_reason(value).empty()) return;
    const Case dressed = setting().dressed(value);
    if (pool_.size() >= room_ || !setting().allows(dressed)) return;
    const std::string text = to_string(dressed);
    if (cases_.is_asked(dressed) || !in_pool_.insert(text).second) return;
    pool_.push_back({dressed, setting().values(dressed),
                     static_cast<double>(work_of(dressed))});
  }

  // Failing cases, those that contradict the sentence first, then the small
  // ones.
  std::vector<Case> varied_cases() const {
    std::vector<Case> out = bases_;
    for (auto n = samples().size(); n-- > 0;)
      if (samples()[n].failed && out.size() < kMostVaried)
        out.push_back(cases_.asked()[n].value);
    for (auto n = samples().size(); n-- > 0;)
      if (!samples()[n].failed && out.size() < kMostVaried + 1)
        out.push_back(cases_.asked()[n].value);
    return out;
  }

  void fill_pool() {
    room_ = pool_.size() + kMostWaiting;
    for (int n = 1; n <= kInPool; ++n)
      put_in_pool(setting().planned(kPlanSeed, kPlanned + ++drawn_));
    for (const Case& base : varied_cases()) {
      for (const Case& other : variations(base, setting())) put_in_pool(other);
      for (int n = 1; n <= kPlanned; ++n) {
        const Case planned = setting().planned(kPlanSeed, drawn_ - n);
        put_in_pool(with_extents_of(base, planned));
        put_in_pool(with_extents_of(planned, base));
      }
    }
  }

  bool ask_waiting(size_t n) {
    const Waiting waiting = std::move(pool_[n]);
    pool_.erase(pool_.begin() + static_cast<ptrdiff_t>(n));
    cases_.ask(waiting.value);
    return true;
  }

  // --- the next case

  bool ask_next() {
    const size_t of_same =
        std::max(kOfSameRivals, samples().size() / kShareOfSamples);
    if (rivals_.empty() || samples().size() >= stale_ + of_same) {
      rivals_ = simplest_hypotheses(samples(), kMostRivals);
      stale_ = samples().size();
    }
    if (ask_between_rivals() || ask_at_edge() || ask_for_support()) return true;
    const bool all = samples().size() == stale_;
    rivals_.clear();
    return !all && ask_next();
  }

  // The case that halves the rivals.
  bool ask_between_rivals() {
    std::vector<double> weights;
    double all = 0;
    for (const Hypothesis& one : rivals_) {
      const double behind = one.score - rivals_[0].score;
      weights.push_back(behind > kRivals ? 0 : std::exp(-2 * behind));
      all += weights.back();
    }
    double best = 0.01;
    size_t choice = pool_.size();
    for (size_t n = 0; n < pool_.size(); ++n) {
      double failing = 0;
      for (size_t i = 0; i < rivals_.size(); ++i)
        if (weights[i] > 0 && rivals_[i].predicts_failure(pool_[n].values))
          failing += weights[i];
      const double split = std::min(failing, all - failing) / all -
                           1e-3 * std::log10(1 + pool_[n].work);
      if (split > best) best = split, choice = n;
    }
    return choice < pool_.size() && ask_waiting(choice);
  }

  // If all other atoms hold: halfway between the last value that passes and the
  // first that fails.
  bool ask_at_edge() {
    const Hypothesis& best = rivals_[0];
    for (size_t i = 0; i < best.atoms.size(); ++i) {
      const Atom& atom = best.atoms[i];
      const bool at_least = atom.relation == Atom::Relation::kAtLeast;
      if (!at_least && atom.relation != Atom::Relation::kAtMost) continue;
      const int64_t inside = at_least ? 1 : -1;
      std::optional<int64_t> in, out;
      for (const Sample& sample : samples()) {
        if (!all_hold(best, sample.values, i)) continue;
        const int64_t value = sample.values[atom.term];
        auto& side = atom.holds(sample.values) ? in : out;
        const bool nearer =
            !side || (&side == &in ? (value - *side) * inside < 0
                                   : (value - *side) * inside > 0);
        if (nearer) side = value;
      }
      if (!in || !out || std::abs(*in - *out) < 2) continue;
      if (ask_with(best, i, (*in + *out) / 2)) return true;
    }
    return false;
  }

  // All atoms of a hypothesis hold except one, which may also hold.
  static bool all_hold(const Hypothesis& one, const TermValues& values,
                       size_t but) {
    for (size_t i = 0; i < one.atoms.size(); ++i)
      if (i != but && !one.atoms[i].holds(values)) return false;
    return true;
  }

  bool ask_with(const Hypothesis& best, size_t at, int64_t to) {
    const size_t term = best.atoms[at].term;
    int looks = 0;
    for (size_t n = samples().size(); n-- > 0 && looks < 12;) {
      if (!all_hold(best, samples()[n].values, at)) continue;
      ++looks;
      const auto other =
          with_term_or_product(cases_.asked()[n].value, vocabulary()[term], to);
      if (!other || !invalid_reason(*other).empty()) continue;
      const Case dressed = setting().dressed(*other);
      if (!setting().allows(dressed)) continue;
      const TermValues values = setting().values(dressed);
      if (values[term] != to || !all_hold(best, values, at)) continue;
      if (cases_.is_asked(dressed)) continue;
      if (cases_.ask(dressed).has_value()) return true;
      // They may have been run again, each in its own process.
      n = std::min(n, samples().size());
    }
    return false;
  }

  // More cases that fail as predicted, and more that lack one atom.
  bool ask_for_support() {
    const Hypothesis& best = rivals_[0];
    const auto is_wanted = [&](const TermValues& values, size_t lacking) {
      if (lacking == best.atoms.size())
        return best.predicts_failure(values) != best.unless;
      return all_hold(best, values, lacking) &&
             !best.atoms[lacking].holds(values);
    };
    for (size_t i = 0; i <= best.atoms.size(); ++i) {
      const auto has = std::count_if(
          samples().begin(), samples().end(),
          [&](const Sample& one) { return is_wanted(one.values, i); });
      if (has >= (i == best.atoms.size() ? kEnoughFailing : kEnoughLacking))
        continue;
      for (size_t n = 0; n < pool_.size(); ++n)
        if (is_wanted(pool_[n].values, i)) return ask_waiting(n);
    }
    return false;
  }

  // --- what came out

  void ask_fresh(const Hypothesis& best, int batch, int count,
                 FreshVerdicts& fresh) {
    const std::vector<Case> cases =
        fresh_cases(best, setting(), cases_.failing(),
                    kFreshSeed + static_cast<uint64_t>(batch), count,
                    [this] { return cases_.is_over(); });
    // fresh_cases() puts failing cases first and passing ones last. In a kernel
    // that keeps state from an earlier call, each case would follow a similar
    // one, and come out as predicted. So they are taken from both ends, but not
    // in strict turn, because some kernels fail in every other call.
    size_t first = 0, last = cases.size();
    for (size_t n = 0; n < cases.size(); ++n) {
      const Case& value =
          std::popcount(n) % 2 == 0 ? cases[first++] : cases[--last];
      if (cases_.is_asked(value)) continue;
      const bool predicted = best.predicts_failure(setting().values(value));
      const auto failed = cases_.ask(value);
      if (!failed) continue;
      if (*failed && !predicted &&
          cases_.fails_by_damage(value, bases_.front())) {
        cases_.ask_again_alone(value);
        return;
      }
      fresh.add(predicted, *failed);
    }
  }

  // A sentence may be true of one tile and false of two.
  void ask_fresh_tiles(const Hypothesis& best, FreshVerdicts& fresh) {
    std::vector<int64_t> tiles = tiles_near(kernel_.hints, failure_.smallest);
    for (const int64_t number : numbers_in(best.sentence()))
      tiles.insert(tiles.begin(), number);
    int asked = 0;
    for (const Case& value : at_tiles(setting().law(), bases_.front(), tiles)) {
      const Case dressed = setting().dressed(value);
      if (asked == kMostAtTiles) return;
      if (!setting().allows(dressed) || cases_.is_asked(dressed)) continue;
      const bool predicted = best.predicts_failure(setting().values(dressed));
      const auto failed = cases_.ask(dressed);
      if (!failed) continue;
      ++asked;
      fresh.add(predicted, *failed);
    }
  }

  // Checks the best sentence against fresh cases, and returns whether its
  // misses lead to another sentence.
  bool hold_against_fresh(int trial, FailsWhere& out) {
    const Hypothesis best = simplest_hypotheses(samples(), 1)[0];
    const bool were_alone = cases_.is_each_alone();
    const auto make_room = [this](const Atom& atom) {
      if (vocabulary()[atom.term].kind == Term::Kind::kNumber &&
          atom.modulus == 0)
        cases_.setting().make_room_for(atom.number);
    };
    for (const Atom& atom : best.atoms)
      if (atom.is_compound())
        for (const Atom& part : atom.parts) make_room(part);
      else
        make_room(atom);
    FreshVerdicts& fresh = cases_.verdicts_of(best.formula());
    ask_fresh(best, 3 * trial, kFreshCases, fresh);
    // With so few cases a sentence may have more misses than it deserves, or
    // fewer: one that is wrong in every twentieth case may be right in all
    // fifty.
    if (fresh.are_right()) {
      ask_fresh(best, 3 * trial + 1, 2 * kFreshCases, fresh);
      ask_fresh_tiles(best, fresh);
    }
    bool is_outdone = is_another_better(best, fresh);
    if (!is_outdone && 25 * fresh.right >= 24 * fresh.all &&
        50 * fresh.right <= 49 * fresh.all) {
      ask_fresh(best, 3 * trial + 2, 2 * kFreshCases, fresh);
      is_outdone = is_another_better(best, fresh);
    }
    // The earlier result used verdicts that no longer count.
    if (were_alone != cases_.is_each_alone()) out = FailsWhere();
    if (best.formula() == out.hypothesis.formula() ||
        fresh.are_better_than(out.fresh)) {
      out.hypothesis = best;
      out.fresh = fresh;
    }
    return is_outdone;
  }

  bool is_another_better(const Hypothesis& best,
                         const FreshVerdicts& fresh) const {
    return fresh.right < fresh.all &&
           simplest_hypotheses(samples(), 1)[0].formula() != best.formula();
  }

  // The last case that passes next to the first that fails, for each number.
  void ask_beside_edges(const Hypothesis& best) {
    for (size_t i = 0; i < best.atoms.size(); ++i) {
      const Atom& atom = best.atoms[i];
      const bool at_least = atom.relation == Atom::Relation::kAtLeast;
      if (!at_least && atom.relation != Atom::Relation::kAtMost) continue;
      ask_with(best, i, atom.number);
      ask_with(best, i, atom.number + (at_least ? -1 : 1));
    }
  }

  void finish(FailsWhere& out) {
    ask_beside_edges(out.hypothesis);
    for (const Sample& sample : samples())
      ++(sample.failed ? out.failing : out.passing);
    out.calls = cases_.calls_made();
    if (cases_.has_stopped()) {
      out.left_out = "a case hung";
    } else if (cases_.is_over() || (!out.is_known() && !cases_.has_room())) {
      out.left_out = "its time or its calls were spent";
    }
    std::vector<std::string> texts;
    for (const AskedCases::Asked& one : cases_.asked())
      texts.push_back(one.text);
    find_nearest(texts, samples(), out);
  }

  const Failure& failure_;
  const KernelUnderTest& kernel_;
  AskedCases cases_;
  std::optional<Setting> before_;  // that of an earlier search
  std::vector<Case> bases_;
  std::vector<Waiting> pool_;
  size_t room_ = 0;  // as many cases as the pool may have
  std::set<std::string> in_pool_;
  std::vector<Hypothesis> rivals_;
  size_t stale_ = 0;  // samples that the rivals were made of
  int questions_ = 0, drawn_ = 0;
};

}  // namespace

FailsWhere look_where_it_fails(const Failure& failure,
                               const EvidencePool& pool) {
  return WhereSearch(failure, pool).run();
}

}  // namespace qkvet::diagnosis
