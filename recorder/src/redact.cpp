#include "redact.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace samerun::recorder {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

// The last word of an option's name: "KEY" of "--api-key".
bool option_is_secret(std::string_view name) {
  const std::string text = upper(name);
  const auto word_start = text.find_last_of("-_.");
  const std::string word = word_start == std::string::npos ? text : text.substr(word_start + 1);
  static constexpr std::array kWords = {"TOKEN", "KEY", "APIKEY", "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "CREDENTIALS"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

bool names_a_secret(std::string_view variable) {
  const std::string name = upper(variable);
  static constexpr std::array kParts = {"TOKEN", "KEY", "PASS", "SECRET", "CREDENTIAL", "COOKIE"};
  return std::any_of(kParts.begin(), kParts.end(), [&](const char* part) { return name.find(part) != std::string::npos; });
}

std::string without_credentials(std::string text) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 1)) {
    const std::size_t host = at + 3;
    const std::size_t end = std::min(text.find_first_of("/?# \t\n\"'", host), text.size());
    const std::size_t sign = text.rfind('@', end);
    if (sign != std::string::npos && sign >= host && sign < end) text.erase(host, sign + 1 - host);
  }
  return text;
}

std::string redacted_value(std::string_view variable, const std::string& value) {
  return names_a_secret(variable) ? std::string(kRedacted) : without_credentials(value);
}

std::vector<std::string> redacted_arguments(const std::vector<std::string>& argv) {
  std::vector<std::string> result;
  bool next_is_secret = false;
  for (const std::string& argument : argv) {
    if (next_is_secret && !argument.starts_with("--")) {
      result.emplace_back(kRedacted);
      next_is_secret = false;
      continue;
    }
    const auto equals = argument.find('=');
    const bool secret = option_is_secret(std::string_view(argument).substr(0, equals));
    next_is_secret = secret && equals == std::string::npos && argument.starts_with("-");
    result.push_back(secret && equals != std::string::npos ? argument.substr(0, equals + 1) + std::string(kRedacted) : without_credentials(argument));
  }
  return result;
}

}  // namespace samerun::recorder
