#include "samerun/core/error.h"

#include <utility>

#include "text.h"

namespace samerun {
namespace {

std::string compose(const std::string& message, const Error::Context& context, int rank) {
  std::string text = message;
  const char* separator = text.empty() ? "(" : " (";
  for (const auto& [key, value] : context) {
    text += separator + key + "=" + value;
    separator = ", ";
  }
  if (!context.empty()) text += ")";
  if (rank >= 0) text += (text.empty() ? "[rank " : " [rank ") + std::to_string(rank) + "]";
  return detail::one_line(text);
}

}  // namespace

std::string detail::one_line(std::string_view text) {
  std::string line;
  bool gap = false;
  for (const char letter : text) {
    const bool control = static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
    // A space beside a line break would become two.
    if (gap && !control && letter != ' ') {
      if (!line.empty() && line.back() != ' ') line.push_back(' ');
      gap = false;
    }
    if (control) {
      gap = true;
    } else if (!gap) {
      line.push_back(letter);
    }
  }
  return line;
}

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kConfig:
      return "config";
    case ErrorCode::kLaunch:
      return "launch";
    case ErrorCode::kRendezvous:
      return "rendezvous";
    case ErrorCode::kCommunication:
      return "communication";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kCheckpoint:
      return "checkpoint";
    case ErrorCode::kStorage:
      return "storage";
    case ErrorCode::kCorruption:
      return "corruption";
    case ErrorCode::kTorch:
      return "torch";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

Error::Error(ErrorCode code, const std::string& message, Context context, int rank)
    : std::runtime_error(compose(message, context, rank)), code_(code), rank_(rank), context_(std::move(context)) {}

}  // namespace samerun
