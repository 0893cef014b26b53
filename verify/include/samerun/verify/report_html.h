#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "samerun/recorder/reader.h"
#include "samerun/verify/verify.h"

namespace samerun::verify {

/// A value of the candidate and of the reference; nullopt: not recorded.
struct TwoValues {
  std::string name;
  std::optional<std::string> candidate, reference;
};

/// One run's mean step, over all its steps and ranks.
struct MeanStep {
  std::string run;                                    ///< "candidate", "reference".
  std::string over;                                   ///< "14 steps of 4 ranks, after 4 to warm up".
  double wall_ms = 0;                                 ///< The parts sum to it.
  std::vector<std::pair<std::string, double>> parts;  ///< Milliseconds by name, in the order of a step.
};

/// Loss by step; not a part of the verdict.
struct LossCurve {
  std::string run;
  std::vector<std::int64_t> steps;  ///< At most 400.
  std::vector<double> loss;
};

struct ReportRun {
  recorder::RunRow run;
  std::optional<recorder::CodeRow> code;
};

/// A command, and what it does.
struct Recipe {
  std::string what, command;
};

/// What a report says besides the verdict. All texts are as recorded: to_html() escapes them.
struct ReportFacts {
  std::vector<ReportRun> runs;         ///< Of the pair, the candidate and the reference among them where they exist.
  std::vector<std::string> missing;    ///< What the record lacks, one sentence each.
  std::vector<TwoValues> settings;     ///< Whose values differ.
  std::vector<TwoValues> environment;  ///< Of hosts and processes: those that tell the machine, and all that differ.
  std::vector<TwoValues> metrics;      ///< Last value of each.
  std::vector<LossCurve> losses;
  std::vector<MeanStep> phases;
  std::string scaling;  ///< The candidate's speed against the reference's, in lines of words; may be empty.
  std::vector<Recipe> reproduce;
};

/// Gathers all but `phases`, `scaling` and `reproduce`. A run that does not exist is left out and named in `missing`.
/// Throws kStorage, kCorruption.
ReportFacts gather_report_facts(const recorder::Reader& reader, const Report& report);

/// One HTML file that needs no network: text, tables and plots. Texts of the record cannot become markup or script.
/// Needs JavaScript for the plots only. The same input gives the same bytes.
std::string to_html(const Report& report, const ReportFacts& facts);

}  // namespace samerun::verify
