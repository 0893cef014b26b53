#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace samerun::recorder {

inline constexpr std::string_view kRedacted = "<redacted>";

/// True for an environment variable whose name says that its value is a secret: TOKEN, KEY, PASS, SECRET, ... inside.
bool names_a_secret(std::string_view variable);
/// "https://host/x" for "https://user:password@host/x"; anywhere in the text.
std::string without_credentials(std::string text);
/// The value to record of an environment variable.
std::string redacted_value(std::string_view variable, const std::string& value);
/// The arguments to record: values of options that end in a word for a secret ("--api-key X", "--hf-token=X",
/// "PASSWORD=X") and credentials in URLs are replaced. "--key-size 64" and "--max-tokens 10" stay.
std::vector<std::string> redacted_arguments(const std::vector<std::string>& argv);

}  // namespace samerun::recorder
