#pragma once

#include <functional>

#include "communicator.h"
#include "samerun/core/error.h"

namespace samerun::detail {

/// Runs `act` and compares how it went: where it threw on any rank, every rank throws the first such rank's error (an exception that is
/// no Error becomes `otherwise`). Collective; `act` itself calls no collective. What a collective throws comes through as it is.
void all_or_none(Communicator& communicator, ErrorCode otherwise, const std::function<void()>& act);

}  // namespace samerun::detail
