#pragma once
// What the sources of this folder that hold faults have in common.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "samerun/core/launch_contract.h"
#include "seams.h"

namespace samerun::fault {

using detail::ReductionContext;
using detail::Seams;
using Tensors = std::vector<at::Tensor>;

/// NAME:key=value,... A fault acts in steps [from, until] on `rank` (-1: all) and on gradient `tensor`
/// (-1: all; in the model's order); precision=32 or 64 leaves the runs in the other precision alone.
struct Settings {
  std::map<std::string, double> values;

  double number(const std::string& key, double otherwise) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
  int integer(const std::string& key, int otherwise) const { return static_cast<int>(number(key, otherwise)); }
  bool at_step(std::int64_t step) const {
    const auto now = static_cast<double>(step);
    return now >= number("from", 0) && now <= number("until", 1e9);
  }
  bool at_rank(int rank) const { return integer("rank", -1) < 0 || integer("rank", -1) == rank; }
  bool at_tensor(std::size_t index) const { return integer("tensor", -1) < 0 || integer("tensor", -1) == static_cast<int>(index); }
  bool in_precision(const at::Tensor& tensor) const {
    const int bits = integer("precision", 0);
    return bits == 0 || (bits == 64) == (tensor.scalar_type() == at::kDouble);
  }
  bool acts(const ReductionContext& context) const { return at_step(context.step) && at_rank(context.rank); }
};

using Faults = std::map<std::string, std::function<void(Seams&, const Settings&)>>;

const Faults& collective_faults();  ///< In what collectives carry.
const Faults& state_faults();       ///< In what a resumed run takes over.
const Faults& file_faults();        ///< In the files of a committed checkpoint.
const Faults& metric_faults();      ///< In how a metric comes from its rows.

/// Before main(): what file_faults() need from the environment, which the runtime reads before it calls the hook.
void prepare_file_faults();

/// The run of a resume check that loads all and goes on.
inline bool in_resumed_run() {
  return std::getenv(env::kPoison) != nullptr;
}

}  // namespace samerun::fault
