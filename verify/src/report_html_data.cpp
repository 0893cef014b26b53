#include <cmath>
#include <nlohmann/json.hpp>

#include "report_html_parts.h"

namespace samerun::verify {
namespace {

using Json = nlohmann::ordered_json;

/// Three digits are more than a plot shows, and keep the file small. JSON has no word for what is not finite.
Json plotted(double value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

Json curve_json(const TensorCurve& curve) {
  Json values = Json::array(), limits = Json::array();
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const double unit = curve.norm[i] > 0 ? curve.norm[i] : 1;
    values.push_back(plotted(curve.value[i] / unit));
    limits.push_back(plotted(curve.limit[i] / unit));
  }
  return {{"group", curve.arm + "/" + curve.stage}, {"steps", curve.steps}, {"value", std::move(values)}, {"limit", std::move(limits)}};
}

Json losses_json(const ReportFacts& facts) {
  Json curves = Json::array();
  for (const LossCurve& curve : facts.losses) {
    Json loss = Json::array();
    for (const double value : curve.loss) loss.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
    curves.push_back({{"run", curve.run}, {"steps", curve.steps}, {"loss", std::move(loss)}});
  }
  return curves;
}

Json phases_json(const ReportFacts& facts) {
  Json runs = Json::array();
  for (const MeanStep& run : facts.phases) {
    Json parts = Json::array();
    for (const auto& [name, ms] : run.parts) parts.push_back({{"name", name}, {"ms", plotted(ms)}});
    runs.push_back({{"run", run.run}, {"parts", std::move(parts)}});
  }
  return runs;
}

/// "<" is what could end the script element or begin a comment; it stands in strings only, where JSON can spell it otherwise.
std::string without_markup(const std::string& json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string plot_data(const Report& report, const ReportFacts& facts) {
  Json data;
  data["curves"] = Json::array();
  for (const TensorCurve& curve : report.curves) data["curves"].push_back(curve_json(curve));
  data["losses"] = losses_json(facts);
  data["phases"] = phases_json(facts);
  return without_markup(data.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace samerun::verify
