#pragma once

#include <string>

#include "html.h"
#include "samerun/verify/report_html.h"

/// Parts of the page that have files of their own.
namespace samerun::verify {

/// The place of a plot, which report.js fills by `id`; `label` is read out.
Html plot(const std::string& id, const std::string& label);
/// How near each tensor came to its limit, as tables and plots; empty without curves.
Html evidence_section(const Report& report);
/// Where the time of a step went; empty without phases.
Html phases_section(const ReportFacts& facts);
/// The plots' numbers as JSON that can stand in a script element.
std::string plot_data(const Report& report, const ReportFacts& facts);

}  // namespace samerun::verify
