#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "optimizer_state.h"
#include "samerun/core/event.h"
#include "trainable.h"

namespace samerun::detail {

/// All that a step took and gave, in full: what the candidate writes at a locked step and the reference measures against.
struct StepCapture {
  bool active = false;
  std::vector<at::Tensor> raw, clipped, before, after;
  std::vector<ParameterState> states_before, states_after;
  std::vector<GroupStep> groups;
  Step step;
};

/// Clones, so that later in-place work does not reach the capture. Undefined stays undefined.
std::vector<at::Tensor> clone_all(const std::vector<at::Tensor>& tensors);
std::vector<ParameterState> clone_all(const std::vector<ParameterState>& states);

/// Writes `folder`/step-<n>.safetensors (rank 0 of the candidate). Throws kStorage.
void write_capture(const std::string& folder, const Trainable& model, const StepCapture& capture);

/// What the reference knows of its own step.
struct ReferenceStep {
  std::vector<at::Tensor> raw;            ///< Reduced gradients, scaled.
  std::vector<at::Tensor> absolute_sums;  ///< sum_s |g_s|, float64, not yet divided; empty when not taken.
  double denominator = 1;
  double absolute_numerator = 0;
  Step step;
};

/// Measures the candidate's capture in `folder` against the reference's own step: the reduced gradient against R's, then
/// norm, clip, update and moments replayed in float64 from the candidate's own input. `native`: dtype of the program.
/// A missing capture gives no rows and `why`.
std::vector<LockedRow> measure_capture(const std::string& folder, const Trainable& model, const ReferenceStep& reference, std::int64_t of_run,
                                       bool float64, std::string& why);

}  // namespace samerun::detail
