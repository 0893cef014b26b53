#pragma once

#include <string>
#include <vector>

#include "samerun/core/event.h"

namespace samerun::recorder {

/// probe_environment() for a record that lies in `folder`.
std::vector<EnvironmentFact> probe_environment_for(const std::string& folder);

}  // namespace samerun::recorder
