#pragma once

#include <string>
#include <vector>

#include "communicator.h"

namespace samerun::detail {

/// Rows of each rank in rank order. `rows`: [n, ...], contiguous, any n a rank; same dtype and trailing shape on all ranks,
/// which the caller has made sure of. Collective.
std::vector<at::Tensor> gather_ragged(Communicator& communicator, const at::Tensor& rows);

}  // namespace samerun::detail
