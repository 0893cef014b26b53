#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace samerun {

/// Where a resolved value came from, strongest first.
enum class Origin { kArgument, kEnvironment, kFile, kDefault };
std::string_view to_string(Origin origin);  ///< "argument", "environment", "file", "default".

/// A value that knows where it came from. Assigning a plain value marks it as an argument.
template <class T>
class Setting {
 public:
  Setting() = default;
  Setting(T value, Origin origin) : value_(std::move(value)), origin_(origin) {}
  Setting& operator=(T value) {
    value_ = std::move(value);
    origin_ = Origin::kArgument;
    return *this;
  }
  operator const T&() const { return value_; }
  const T& value() const { return value_; }
  Origin origin() const { return origin_; }

 private:
  T value_{};
  Origin origin_ = Origin::kDefault;
};

/// The known word nearest to `word` by edit distance, for "did you mean"; nullopt when none is near (distance > 3 or
/// more than half the word).
std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known);

/// Reads the environment variable `name`; nullopt when unset or empty.
std::optional<std::string> environment_text(const char* name);
/// As above, parsed. Throws kConfig naming the variable and the text when it is not a whole number or out of range.
std::optional<std::int64_t> environment_integer(const char* name, std::int64_t least, std::int64_t most);
/// y/yes/t/true/on/1 and their opposites; throws kConfig otherwise.
std::optional<bool> environment_bool(const char* name);

}  // namespace samerun
