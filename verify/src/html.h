#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace samerun::verify {

/// A piece of markup. Text becomes one by text() only, so that nothing of a record can be taken for markup.
struct Html {
  std::string markup;

  Html& operator+=(const Html& more) {
    markup += more.markup;
    return *this;
  }
  friend Html operator+(Html a, const Html& b) { return a += b; }
};

namespace html {

/// `text` with the characters of markup escaped, and control characters made visible.
Html text(std::string_view text);
/// <tag class="name">inside</tag>; `name` empty: no class.
Html element(std::string_view tag, std::string_view name, const Html& inside);
Html code(std::string_view text);
/// Lines as they are, with a scroll bar that the keyboard reaches.
Html preformatted(std::string_view lines);
/// A word of a verdict, in its colour.
Html word(std::string_view word);
Html list(const std::vector<std::string>& lines);
/// A section with a heading and an id to link to.
Html section(std::string_view id, std::string_view heading, const Html& inside);
/// `inside` folded away under `label`, until a reader opens it.
Html folded(const Html& label, const Html& inside);

/// Rows under a head. Wide tables scroll by themselves, by keyboard too.
class Table {
 public:
  /// `label`: what the table is, for screen readers. A column whose head begins with '#' holds numbers.
  Table(std::string_view label, const std::vector<std::string>& heads);
  void add(const std::vector<Html>& cells);
  Html html() const;
  bool empty() const { return rows_.empty(); }

 private:
  std::string label_;
  std::vector<std::string> heads_;
  std::string rows_;
};

}  // namespace html
}  // namespace samerun::verify
