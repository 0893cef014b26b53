#include "samerun/verify/report_html.h"

#include <algorithm>

#include "findings.h"
#include "html.h"
#include "numeric.h"
#include "report_html_parts.h"
#include "report_resources.h"

// The page: what each section says. Plots are drawn by resources/report.js from a block of JSON (report_html_data.cpp).
namespace samerun::verify {
namespace {

using html::Table;

constexpr std::size_t kFindingsInView = 12;

const recorder::RunRow* find_run(const ReportFacts& facts, std::int64_t id) {
  const auto found = std::find_if(facts.runs.begin(), facts.runs.end(), [id](const ReportRun& run) { return run.run.id == id; });
  return found == facts.runs.end() ? nullptr : &found->run;
}

std::string run_words(const ReportFacts& facts, std::int64_t id) {
  const recorder::RunRow* run = find_run(facts, id);
  if (run == nullptr) return "not recorded";
  return "run " + std::to_string(id) + ", " + count_of(run->world_size, "rank");
}

/// The sentence without the word, which stands before it in colour.
std::string sentence(const Report& report) {
  const std::string word = std::string(to_string(report.verdict)) + ": ";
  return report.summary.starts_with(word) ? report.summary.substr(word.size()) : report.summary;
}

Html fact(const std::string& name, const Html& value) {
  return html::element("div", "", html::element("dt", "", html::text(name)) + html::element("dd", "", value));
}

Html header(const Report& report, const ReportFacts& facts) {
  Html lines = fact("candidate", html::text(run_words(facts, report.candidate))) + fact("reference", html::text(run_words(facts, report.reference)));
  if (!report.group_id.empty()) lines += fact("pair", html::code(report.group_id));
  const double share = 100 * report.coverage_tensors;
  lines += fact("decided", html::text(std::to_string(report.coverage.decided) + " of " + count_of(report.coverage.tensors, "tensor") + " (" +
                                      number(share) + " %), " + count_of(report.coverage.steps, "step")));
  const std::string word(to_string(report.verdict));
  return {"<header class=\"verdict " + word + "\">\n<p class=\"product\">Samerun: is the larger run the same experiment?</p>\n<h1>" +
          html::text(word).markup + "</h1>\n" + html::element("p", "sentence", html::text(sentence(report))).markup + "\n" +
          html::element("dl", "facts", lines).markup + "\n</header>\n"};
}

Html missing(const ReportFacts& facts) {
  if (facts.missing.empty()) return {};
  return html::section("missing", "What the record lacks", html::element("div", "note", html::list(facts.missing)));
}

std::string place(const Evidence& evidence) {
  std::string text = evidence.check;
  if (evidence.step >= 0) text += ", step " + std::to_string(evidence.step);
  if (!evidence.stage.empty()) text += ", " + evidence.stage;
  if (evidence.rank >= 0) text += ", rank " + std::to_string(evidence.rank);
  return text;
}

Html checks(const Report& report) {
  Table table("checks", {"check", "word", "what was compared", "#findings"});
  for (const CheckResult& check : report.checks) {
    table.add({html::text(check.name), html::word(to_string(check.word)), html::text(check.summary),
               html::text(check.evidence.empty() ? "none" : std::to_string(check.evidence.size()))});
  }
  return html::section("checks", "Checks", table.html());
}

Html finding(const Evidence& evidence) {
  Html text = html::word(to_string(evidence.word)) + html::element("span", "place", html::text(place(evidence))) +
              html::element("p", "", html::text(evidence.text));
  return html::element("li", "", text);
}

Html findings(const Report& report) {
  std::vector<Evidence> all;
  for (const auto& check : report.checks) all.insert(all.end(), check.evidence.begin(), check.evidence.end());
  if (all.empty()) return {};
  std::sort(all.begin(), all.end(), earlier);
  Html first, rest;
  for (std::size_t i = 0; i < all.size(); ++i) (i < kFindingsInView ? first : rest) += finding(all[i]);
  Html inside = html::element("p", "", html::text("The earliest first: later findings may follow from it."));
  inside += html::element("ol", "findings", first);
  if (all.size() > kFindingsInView) {
    inside += html::folded(html::text(count_of(static_cast<std::int64_t>(all.size() - kFindingsInView), "more finding")),
                           html::element("ol", "findings", rest));
  }
  return html::section("findings", "Findings", inside);
}

Html two_values(const char* label, const char* first, const std::vector<TwoValues>& rows) {
  Table table(label, {first, "candidate", "reference"});
  for (const TwoValues& row : rows) {
    const auto cell = [&row](const std::optional<std::string>& value) {
      const Html text = value ? html::text(*value) : html::element("span", "none", html::text("not recorded"));
      return row.candidate == row.reference ? text : html::element("span", "differs", text);
    };
    table.add({html::code(row.name), cell(row.candidate), cell(row.reference)});
  }
  return table.html();
}

Html settings(const ReportFacts& facts) {
  const Html note = html::element("p", "",
                                  html::text("Where a value came from stands in brackets. A pair differs in its ranks and in what they take part in; "
                                             "whether anything else differs, the checks say."));
  return html::section(
      "settings", "Settings that differ",
      facts.settings.empty() ? html::element("p", "", html::text("None.")) : note + two_values("settings that differ", "setting", facts.settings));
}

std::string code_words(const ReportRun& run) {
  if (!run.code || run.code->head.empty()) return "unknown" + (run.code && !run.code->why_null.empty() ? " (" + run.code->why_null + ")" : "");
  return run.code->head + (run.code->branch.empty() ? "" : " on " + run.code->branch) +
         (run.code->dirty.value_or(false) ? ", with uncommitted changes" : "");
}

Html runs(const ReportFacts& facts) {
  Table table("runs of the pair", {"role", "#run", "#ranks", "status", "record", "host", "code"});
  for (const ReportRun& run : facts.runs) {
    table.add({html::text(run.run.role), html::text(std::to_string(run.run.id)), html::text(std::to_string(run.run.world_size)),
               html::text(run.run.status), html::text(run.run.complete ? "complete" : "not complete"), html::text(run.run.host),
               html::element("span", "code", html::text(code_words(run)))});
  }
  return table.html();
}

Html environment(const ReportFacts& facts) {
  if (facts.runs.empty() && facts.environment.empty()) return {};
  Html inside = runs(facts);
  if (!facts.environment.empty()) inside += two_values("environment", "fact", facts.environment);
  return html::section("environment", "Runs and environment", inside);
}

Html metrics(const ReportFacts& facts) {
  if (facts.metrics.empty()) return {};
  return html::section(
      "metrics", "Metrics",
      html::element("p", "", html::text("The last value of each, as rank 0 recorded it.")) + two_values("metrics", "metric", facts.metrics));
}

Html losses(const ReportFacts& facts) {
  if (facts.losses.empty()) return {};
  return html::section("loss", "Loss",
                       html::element("p", "", html::text("For orientation. A loss that looks alike decides nothing.")) +
                           plot("loss", "Loss of candidate and reference by step"));
}

Html not_exercised(const Report& report) {
  Html inside;
  if (report.not_exercised.empty() && report.coverage.undecided.empty()) {
    inside = html::element("p", "",
                           html::text("Nothing: all that Samerun looks for was put to the test. "
                                      "What both runs share, a wrong loss above all, no comparison sees."));
  }
  if (!report.not_exercised.empty()) inside += html::list(report.not_exercised);
  if (!report.coverage.undecided.empty()) {
    inside += html::element("h3", "", html::text("Tensors that were not decided")) + html::list(report.coverage.undecided);
  }
  return html::section("not-exercised", "What was not exercised", inside);
}

Html reproduce(const ReportFacts& facts) {
  if (facts.reproduce.empty()) return {};
  Html inside;
  for (const Recipe& recipe : facts.reproduce) {
    inside += html::element("p", "", html::text(recipe.what)) + html::preformatted(recipe.command);
  }
  return html::section("reproduce", "How to reproduce", inside);
}

Html script(const char* attributes, const std::string& text) {
  return {std::string("<script") + attributes + ">" + text + "</script>\n"};
}

/// A policy that lets the file load nothing: neither a name in it nor a later edit can make it call out.
constexpr const char* kHead =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n";

}  // namespace

std::string to_html(const Report& report, const ReportFacts& facts) {
  const std::string title = std::string(to_string(report.verdict)) + (report.group_id.empty() ? "" : ", pair " + report.group_id) + " - Samerun";
  Html main = header(report, facts) + missing(facts) + checks(report) + findings(report) + evidence_section(report) + losses(facts) +
              phases_section(facts) + metrics(facts) + settings(facts) + environment(facts) + not_exercised(report) + reproduce(facts);
  Html page{kHead};
  page += html::element("title", "", html::text(title)) + Html{"\n<style>" + std::string(resource::css()) + "</style>\n</head>\n<body>\n"};
  page += Html{"<main>\n"} + main +
          Html{"</main>\n<noscript><p class=\"note\">The plots need JavaScript; the tables hold their figures.</p></noscript>\n"};
  page += Html{"<footer>One file, made by Samerun from the record alone. Plots by Chart.js, whose licence stands in this file's source.</footer>\n"};
  page += script(" type=\"application/json\" id=\"samerun-data\"", plot_data(report, facts));
  page += Html{"<!--\n" + std::string(resource::chart_licence()) + "-->\n"} + script("", std::string(resource::chart_js()));
  page += script("", std::string(resource::script())) + Html{"</body>\n</html>\n"};
  return page.markup;
}

}  // namespace samerun::verify
