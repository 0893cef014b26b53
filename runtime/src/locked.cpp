#include "locked.h"

#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "optimizer_replay.h"
#include "safetensors.h"
#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

using Json = nlohmann::json;

std::string capture_path(const std::string& folder, std::int64_t step) {
  return folder + "/step-" + std::to_string(step) + ".safetensors";
}

void put(TensorList& list, const std::string& prefix, const Trainable& model, const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) list.emplace_back(prefix + model.parameters()[i].name, tensors[i].detach().contiguous());
  }
}

void put(TensorList& list, const std::string& prefix, const Trainable& model, const std::vector<ParameterState>& states) {
  std::vector<at::Tensor> first, second;
  for (const auto& state : states) {
    first.push_back(state.moment1);
    second.push_back(state.moment2);
  }
  put(list, prefix + "moment1/", model, first);
  put(list, prefix + "moment2/", model, second);
}

Json group_json(const GroupStep& group) {
  return {{"optimizer", group.optimizer},
          {"learning_rate", group.learning_rate},
          {"weight_decay", group.weight_decay},
          {"beta1", group.beta1},
          {"beta2", group.beta2},
          {"epsilon", group.epsilon},
          {"momentum", group.momentum}};
}

GroupStep group_from(const Json& json) {
  GroupStep group;
  group.optimizer = json.at("optimizer");
  group.learning_rate = json.at("learning_rate");
  group.weight_decay = json.at("weight_decay");
  group.beta1 = json.at("beta1");
  group.beta2 = json.at("beta2");
  group.epsilon = json.at("epsilon");
  group.momentum = json.at("momentum");
  return group;
}

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

double number(const Metadata& metadata, const std::string& key) {
  return std::strtod(metadata.at(key).c_str(), nullptr);
}

/// The candidate's capture, widened to float64.
class Candidate {
 public:
  Candidate(const std::string& path, const Trainable& model) : file_(read_safetensors(path)), model_(model) {
    for (const auto& group : Json::parse(file_.metadata.at("groups"))) groups_.push_back(group_from(group));
    parameters_ = Json::parse(file_.metadata.at("parameters"));
  }
  at::Tensor get(const std::string& prefix, std::size_t i) const {
    const auto found = file_.tensors.find(prefix + model_.parameters()[i].name);
    return found == file_.tensors.end() ? at::Tensor() : found->second.to(at::kDouble);
  }
  at::Tensor or_zeros(const std::string& prefix, std::size_t i) const {
    const auto value = get(prefix, i);
    return value.defined() ? value : at::zeros(model_.parameters()[i].tensor.sizes(), at::kDouble);
  }
  double value(const std::string& key) const { return number(file_.metadata, key); }
  const GroupStep* group(std::size_t i) const {
    const auto index = parameters_.at(i).at("group").get<std::int64_t>();
    return index < 0 || index >= static_cast<std::int64_t>(groups_.size()) ? nullptr : &groups_[static_cast<std::size_t>(index)];
  }
  std::int64_t step_before(std::size_t i) const { return parameters_.at(i).at("step").get<std::int64_t>(); }

 private:
  SafetensorsFile file_;
  const Trainable& model_;
  std::vector<GroupStep> groups_;
  Json parameters_;
};

double norm64(const at::Tensor& tensor) {
  return tensor.norm().item<double>();
}

class Measurement {
 public:
  Measurement(const Candidate& candidate, const Trainable& model, const ReferenceStep& reference, std::int64_t of_run, bool float64)
      : candidate_(candidate), model_(model), reference_(reference) {
    blank_.of_run = of_run;
    blank_.step = reference.step.step;
    blank_.precision = float64 ? "float64" : "float32";
    blank_.terms = reference.step.micro_batches;
    unit_ = float64 ? std::ldexp(1.0, -53) : std::ldexp(1.0, -24);
  }

  std::vector<LockedRow> rows(std::string& why) {
    loss();
    for (std::size_t i = 0; i < model_.parameters().size(); ++i) reduced(i);
    clip();
    for (std::size_t i = 0; i < model_.parameters().size(); ++i) update(i, why);
    return std::move(rows_);
  }

 private:
  LockedRow& row(const std::string& stage, const std::string& name, double distance, double scale) {
    rows_.push_back(blank_);
    rows_.back().stage = stage;
    rows_.back().name = name;
    rows_.back().distance = distance;
    rows_.back().scale = scale;
    return rows_.back();
  }

  /// The distance of two tensors; where either has non-finite elements, says whether kinds and places agree.
  LockedRow& distance_row(const std::string& stage, std::size_t i, const at::Tensor& got, const at::Tensor& expected, double scale) {
    auto& added = row(stage, model_.parameters()[i].name, norm64(got - expected), scale);
    if (!got.isfinite().all().item<bool>() || !expected.isfinite().all().item<bool>()) {
      const bool same_places =
          got.isnan().equal(expected.isnan()) && got.isposinf().equal(expected.isposinf()) && got.isneginf().equal(expected.isneginf());
      added.text = same_places ? "non-finite, same kinds and places" : "non-finite, kinds or places differ";
    }
    return added;
  }

  void loss() { row("loss", "", std::abs(candidate_.value("loss_numerator") - reference_.step.loss_numerator), reference_.absolute_numerator); }

  void reduced(std::size_t i) {
    const auto got = candidate_.or_zeros("raw/", i);
    const auto expected = reference_.raw[i].defined() ? reference_.raw[i].to(at::kDouble) : at::zeros_like(got);
    const auto& absolute = reference_.absolute_sums;
    const double scale = i < absolute.size() && absolute[i].defined() ? norm64(absolute[i]) / reference_.denominator : 0;
    auto& added = distance_row("reduced", i, got, expected, scale);
    const double square = expected.mul(expected).sum().item<double>();
    if (square > 0) added.common_scale = (got - expected).mul(expected).sum().item<double>() / square;
  }

  static double coefficient(double norm_value, double max_norm) { return std::min(1.0, max_norm / (norm_value + 1e-6)); }

  void clip() {
    const double max_norm = candidate_.value("clip_max");
    double factor = 1;
    std::string branch = "no clip";
    if (max_norm >= 0) {
      double square = 0;
      for (std::size_t i = 0; i < model_.parameters().size(); ++i) square += std::pow(norm64(candidate_.or_zeros("raw/", i)), 2);
      const double exact_norm = std::sqrt(square), reported = candidate_.value("norm_raw");
      row("norm", "", std::abs(reported - exact_norm), exact_norm);
      factor = best_factor(reported, max_norm, branch);
    }
    for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
      const auto raw = candidate_.or_zeros("raw/", i);
      distance_row("clip", i, candidate_.or_zeros("clipped/", i), raw * factor, norm64(raw)).text += branch;
    }
  }

  /// A norm known only to rounding gives up to three legal factors, common to all tensors.
  double best_factor(double reported, double max_norm, std::string& branch) const {
    double best = 0, best_distance = std::numeric_limits<double>::infinity();
    for (const double nudge : {0.0, -16 * unit_, 16 * unit_}) {
      const double factor = coefficient(reported * (1 + nudge), max_norm);
      double worst = 0;
      for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
        const auto raw = candidate_.or_zeros("raw/", i);
        worst =
            std::max(worst, norm64(candidate_.or_zeros("clipped/", i) - factor * raw) / std::max(norm64(raw), std::numeric_limits<double>::min()));
      }
      if (!(worst >= best_distance)) {
        best_distance = worst;
        best = factor;
        branch = nudge == 0 ? "coef(n)" : nudge < 0 ? "coef(n(1-16u))" : "coef(n(1+16u))";
      }
    }
    return best;
  }

  void update(std::size_t i, std::string& why) {
    const auto* group = candidate_.group(i);
    if (group == nullptr) {
      why = "parameter " + model_.parameters()[i].name + " is in no parameter group";
      return;
    }
    const auto before = candidate_.or_zeros("before/", i), clipped = candidate_.get("clipped/", i);
    const auto got = candidate_.or_zeros("after/", i) - before;
    if (!clipped.defined()) {  // no gradient: the optimizer leaves it alone
      distance_row("update", i, got, at::zeros_like(got), norm64(before));
      return;
    }
    const auto old1 = candidate_.get("before/moment1/", i), old2 = candidate_.get("before/moment2/", i);
    const auto replayed = replay_optimizer(*group, {before, clipped, old1, old2, std::max<std::int64_t>(0, candidate_.step_before(i))});
    if (!replayed) {
      why = "optimizer " + group->optimizer + " is not replayed; its update rests on the free-running comparison";
      return;
    }
    distance_row("update", i, got, replayed->update, norm64(before) + norm64(replayed->update));
    moment("moment1", i, old1, replayed->moment1, norm64(clipped));
    moment("moment2", i, old2, replayed->moment2, 0);
  }

  void moment(const std::string& stage, std::size_t i, const at::Tensor& old_value, const at::Tensor& expected, double extra) {
    if (!expected.defined()) return;
    const double scale = (old_value.defined() ? norm64(old_value) : 0) + norm64(expected) + extra;
    distance_row(stage, i, candidate_.or_zeros("after/" + stage + "/", i), expected, scale);
  }

  const Candidate& candidate_;
  const Trainable& model_;
  const ReferenceStep& reference_;
  LockedRow blank_;
  double unit_ = 0;
  std::vector<LockedRow> rows_;
};

}  // namespace

std::vector<at::Tensor> clone_all(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> clones;
  for (const auto& tensor : tensors) clones.push_back(tensor.defined() ? tensor.detach().clone() : at::Tensor());
  return clones;
}

std::vector<ParameterState> clone_all(const std::vector<ParameterState>& states) {
  auto clones = states;
  for (auto& state : clones) {
    if (state.moment1.defined()) state.moment1 = state.moment1.detach().clone();
    if (state.moment2.defined()) state.moment2 = state.moment2.detach().clone();
  }
  return clones;
}

void write_capture(const std::string& folder, const Trainable& model, const StepCapture& capture) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw Error(ErrorCode::kStorage, "cannot create the folder for captures: " + code.message(), {{"folder", folder}});
  TensorList tensors;
  put(tensors, "raw/", model, capture.raw);
  put(tensors, "clipped/", model, capture.clipped);
  put(tensors, "before/", model, capture.before);
  put(tensors, "after/", model, capture.after);
  put(tensors, "before/", model, capture.states_before);
  put(tensors, "after/", model, capture.states_after);
  Json groups = Json::array(), parameters = Json::array();
  for (const auto& group : capture.groups) groups.push_back(group_json(group));
  for (std::size_t i = 0; i < capture.states_before.size(); ++i) {
    parameters.push_back({{"name", model.parameters()[i].name}, {"group", capture.states_before[i].group}, {"step", capture.states_before[i].step}});
  }
  const Step& step = capture.step;
  write_safetensors(capture_path(folder, step.step), tensors,
                    {{"format", "samerun-capture-1"},
                     {"groups", groups.dump()},
                     {"parameters", parameters.dump()},
                     {"norm_raw", exact(step.norm_raw)},
                     {"clip_max", exact(step.clip_max)},
                     {"clip_factor", exact(step.clip_factor)},
                     {"loss_numerator", exact(step.loss_numerator)},
                     {"loss_denominator", exact(step.loss_denominator)}});
}

std::vector<LockedRow> measure_capture(const std::string& folder, const Trainable& model, const ReferenceStep& reference, std::int64_t of_run,
                                       bool float64, std::string& why) {
  const torch::NoGradGuard guard;
  const auto path = capture_path(folder, reference.step.step);
  if (!std::filesystem::exists(path)) {
    why = "the candidate left no capture of step " + std::to_string(reference.step.step);
    return {};
  }
  try {
    const Candidate candidate(path, model);
    return Measurement(candidate, model, reference, of_run, float64).rows(why);
  } catch (const std::exception& error) {
    why = std::string("the candidate's capture could not be measured: ") + error.what();
    return {};
  }
}

}  // namespace samerun::detail
