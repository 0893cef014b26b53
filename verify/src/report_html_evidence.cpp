#include <algorithm>
#include <cmath>

#include "curves.h"
#include "numeric.h"
#include "report_html_parts.h"

// How near each tensor came to its limit: a table that needs no script, and plots over the steps.
namespace samerun::verify {
namespace {

using Group = std::vector<const TensorCurve*>;

constexpr std::size_t kRowsInView = 6;
constexpr std::size_t kPlotsInView = 12;

struct ArmText {
  const char* arm;
  const char* heading;
  const char* note;
};
constexpr ArmText kArms[] = {
    {"float64", "Reduced gradients in float64, step by step",
     "Both programs ran freely in float64. The band is 64 times the noise: the largest distance among re-executions of the reference that sum in "
     "another order. A distance inside the band is rounding, above it a difference."},
    {"locked", "The locked step, in the program's own precision",
     "The reference replayed one step from the candidate's own state. Limits are bounds on rounding, computed from the sums themselves."},
    {"native", "Clipped gradients in the program's own precision, step by step",
     "Each clipped gradient against the candidate's own raw gradient times the clip factor. The band is 64 roundings."},
    {"locked64", "The locked step, in float64", "The same replay of the float64 candidate."}};

/// Full at the limit; what is not 0 can be seen.
Html bar(double share) {
  const double filled = share <= 0 ? 0 : std::clamp(share, 0.02, 1.0);
  return {"<span class=\"bar" + std::string(share > 1 ? " over" : "") +
          "\" aria-hidden=\"true\"><i style=\"width:" + std::to_string(static_cast<int>(100 * filled)) + "%\"></i></span>"};
}

std::int64_t equal_steps(const TensorCurve& curve) {
  return std::count(curve.value.begin(), curve.value.end(), 0.0);
}

std::string relative(double value, double norm) {
  return norm > 0 ? number(value / norm) : number(value);
}

/// `single`: each curve has one step, and which one stands in the text above.
std::vector<Html> row(const TensorCurve& curve, bool single) {
  const std::size_t worst = worst_index(curve);
  const double share = worst_share(curve);
  std::vector<Html> cells{html::code(curve.tensor), html::text(curve.stage)};
  if (!single) {
    cells.push_back(html::text(std::to_string(equal_steps(curve)) + " of " + std::to_string(curve.steps.size())));
    cells.push_back(html::text(std::to_string(curve.steps[worst])));
  }
  cells.push_back(html::text(relative(curve.value[worst], curve.norm[worst])));
  cells.push_back(html::text(relative(curve.limit[worst], curve.norm[worst])));
  cells.push_back(Html{bar(share).markup + " " + html::text(share > 0 ? number(share) : "bit for bit").markup});
  return cells;
}

bool single_step(const Group& group) {
  return std::all_of(group.begin(), group.end(), [&](const TensorCurve* c) { return c->steps.size() == 1 && c->steps[0] == group[0]->steps[0]; });
}

Html table_of(const Group& group, std::size_t first, std::size_t end) {
  const bool single = single_step(group);
  std::vector<std::string> heads{"tensor", "stage"};
  if (!single) heads.insert(heads.end(), {"#bit for bit", "#nearest at step"});
  heads.insert(heads.end(), {"#distance / norm", "#limit / norm", "share of limit"});
  html::Table table("tensors and their limits", heads);
  for (std::size_t i = first; i < end; ++i) table.add(row(*group[i], single));
  return table.html();
}

Html tables(const Group& group) {
  const std::size_t shown = std::min(group.size(), kRowsInView);
  Html inside = table_of(group, 0, shown);
  if (group.size() > shown) {
    inside += html::folded(html::text(count_of(static_cast<std::int64_t>(group.size() - shown), "row") + " farther from the limit"),
                           table_of(group, shown, group.size()));
  }
  return inside;
}

std::string describe(const TensorCurve& curve) {
  const double share = worst_share(curve);
  const std::string where = "step " + std::to_string(curve.steps[worst_index(curve)]);
  if (share > 1) return number(share) + " times its limit at " + where;
  return share > 0 ? "nearest: " + number(share) + " of its limit, at " + where : "bit for bit at all steps";
}

/// Plots are numbered as their curves are in the data.
Html plots(const Report& report, const Group& group) {
  Html first, rest;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const TensorCurve& curve = *group[i];
    const auto index = std::to_string(group[i] - report.curves.data());
    Html caption = html::element("figcaption", "", html::code(curve.tensor) + html::element("span", "", html::text(describe(curve))));
    (i < kPlotsInView ? first : rest) += html::element("figure", worst_share(curve) > 1 ? "over" : "",
                                                       caption + plot("curve-" + index, curve.tensor + ", " + curve.stage + ": " + describe(curve)));
  }
  Html inside = html::element("div", "plots", first);
  if (group.size() > kPlotsInView) {
    inside +=
        html::folded(html::text(count_of(static_cast<std::int64_t>(group.size() - kPlotsInView), "more plot")), html::element("div", "plots", rest));
  }
  return inside;
}

Html legend() {
  return {
      "<p class=\"legend\" aria-hidden=\"true\"><span class=\"key line\"></span>distance / norm <span class=\"key band\"></span>within the limit "
      "<span class=\"key equal\"></span>bit for bit <span class=\"key beyond\"></span>above the limit</p>\n"};
}

Html arm_section(const Report& report, const ArmText& arm) {
  Group group;
  std::size_t most_steps = 0;
  for (const TensorCurve& curve : report.curves) {
    if (curve.arm != arm.arm || curve.steps.empty()) continue;
    group.push_back(&curve);
    most_steps = std::max(most_steps, curve.steps.size());
  }
  if (group.empty()) return {};
  std::stable_sort(group.begin(), group.end(), [](const TensorCurve* a, const TensorCurve* b) { return worst_share(*a) > worst_share(*b); });
  std::string heading = arm.heading;
  if (single_step(group)) heading += ": step " + std::to_string(group.front()->steps.front());
  Html inside = html::element("h3", "", html::text(heading)) + html::element("p", "", html::text(arm.note));
  if (most_steps <= 1) return inside + tables(group);
  const Html drawn = legend() + plots(report, group);
  // One set of plots is in view; the others are a click away.
  if (std::string(arm.arm) == "float64") return inside + drawn + html::folded(html::text("The same as a table"), tables(group));
  return inside + tables(group) + html::folded(html::text("Plots over the steps"), drawn);
}

}  // namespace

Html plot(const std::string& id, const std::string& label) {
  return {"<div class=\"plot\"><canvas data-plot=\"" + html::text(id).markup + "\" role=\"img\" aria-label=\"" + html::text(label).markup +
          "\"></canvas></div>\n"};
}

Html evidence_section(const Report& report) {
  Html inside;
  for (const ArmText& arm : kArms) inside += arm_section(report, arm);
  if (inside.markup.empty()) return {};
  if (report.curves_left_out > 0) {
    inside +=
        html::element("p", "", html::text(count_of(report.curves_left_out, "tensor") + " farther from the limits are not shown; all were judged."));
  }
  return html::section("evidence", "How near each tensor came to its limit", inside);
}

}  // namespace samerun::verify
