#include <set>

#include "numeric.h"
#include "report_html_parts.h"

// Where the time of a step went.
namespace samerun::verify {
namespace {

double part_of(const MeanStep& run, const std::string& name) {
  for (const auto& [part, ms] : run.parts) {
    if (part == name) return ms;
  }
  return 0;
}

Html cell(double ms, double wall_ms) {
  const std::string share = wall_ms > 0 ? " (" + number(100 * ms / wall_ms) + " %)" : "";
  return html::text(number(ms) + share);
}

Html table(const ReportFacts& facts) {
  std::vector<std::string> heads{"part"}, names;
  std::set<std::string> seen;
  for (const MeanStep& run : facts.phases) {
    heads.push_back("#" + run.run + ", ms");
    for (const auto& [part, ms] : run.parts) {
      if (seen.insert(part).second) names.push_back(part);
    }
  }
  html::Table rows("phases", heads);
  for (const std::string& name : names) {
    std::vector<Html> cells{html::text(name)};
    for (const MeanStep& run : facts.phases) cells.push_back(cell(part_of(run, name), run.wall_ms));
    rows.add(cells);
  }
  std::vector<Html> whole{html::text("whole step")};
  for (const MeanStep& run : facts.phases) whole.push_back(html::text(number(run.wall_ms)));
  rows.add(whole);
  return rows.html();
}

}  // namespace

Html phases_section(const ReportFacts& facts) {
  if (facts.phases.empty() && facts.scaling.empty()) return {};
  Html inside;
  if (!facts.phases.empty()) {
    std::string note = "The mean step";
    for (const MeanStep& run : facts.phases) note += (&run == &facts.phases.front() ? ": " : "; ") + run.run + ", " + run.over;
    inside += html::element("p", "", html::text(note + ".")) +
              html::element("div", "wide", plot("phases", "Parts of the mean step, candidate and reference")) + table(facts);
  }
  if (!facts.scaling.empty()) {
    inside += html::element("h3", "", html::text("Scaling")) + html::preformatted(facts.scaling);
  }
  return html::section("phases", "Where the time went", inside);
}

}  // namespace samerun::verify
