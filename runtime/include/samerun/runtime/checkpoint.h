#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace samerun {

/// State of an object of the program's own: tensors (CPU, any dtype, kept bit for bit) and texts.
struct ObjectState {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> values;
};

/// What register_for_checkpointing() takes: an object whose state goes into each checkpoint, on every rank.
class Stateful {
 public:
  virtual ~Stateful() = default;
  virtual ObjectState state() const = 0;
  /// Called on every rank once all of the checkpoint has been read and checked. Throws where the state does not fit.
  virtual void load_state(const ObjectState& state) = 0;
};

}  // namespace samerun
