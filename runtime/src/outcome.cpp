#include "outcome.h"

#include <c10/util/Exception.h>

#include <cstdlib>

namespace samerun::detail {
namespace {

std::string packed(ErrorCode code, const std::string& text) {
  return std::to_string(static_cast<int>(code)) + " " + text.substr(0, text.find('\n'));
}

}  // namespace

void all_or_none(Communicator& communicator, ErrorCode otherwise, const std::function<void()>& act) {
  std::string failure;
  try {
    act();
  } catch (const Error& error) {
    failure = packed(error.code(), error.what());
  } catch (const c10::Error& error) {
    failure = packed(otherwise, error.what_without_backtrace());
  } catch (const std::exception& error) {
    failure = packed(otherwise, error.what());
  }
  for (const auto& each : gather_texts(communicator, failure)) {
    if (each.empty()) continue;
    char* end = nullptr;
    const auto code = static_cast<ErrorCode>(std::strtol(each.c_str(), &end, 10));
    throw Error(code, end + 1);
  }
}

}  // namespace samerun::detail
