#include "html.h"

namespace samerun::verify::html {
namespace {

bool is_number(const std::string& head) {
  return head.starts_with('#');
}

}  // namespace

Html text(std::string_view text) {
  Html html;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        html.markup += "&amp;";
        break;
      case '<':
        html.markup += "&lt;";
        break;
      case '>':
        html.markup += "&gt;";
        break;
      case '"':
        html.markup += "&quot;";
        break;
      case '\'':
        html.markup += "&#39;";
        break;
      default:
        if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
          html.markup += "&#xfffd;";
        } else {
          html.markup += c;
        }
    }
  }
  return html;
}

Html element(std::string_view tag, std::string_view name, const Html& inside) {
  const std::string open(tag);
  return {"<" + open + (name.empty() ? "" : " class=\"" + text(name).markup + "\"") + ">" + inside.markup + "</" + open + ">"};
}

Html code(std::string_view line) {
  return element("code", "", text(line));
}

Html preformatted(std::string_view lines) {
  return {"<pre tabindex=\"0\">" + code(lines).markup + "</pre>\n"};
}

Html word(std::string_view word) {
  return element("span", "word " + std::string(word), text(word));
}

Html list(const std::vector<std::string>& lines) {
  Html items;
  for (const auto& line : lines) items += element("li", "", text(line));
  return element("ul", "", items);
}

Html section(std::string_view id, std::string_view heading, const Html& inside) {
  const std::string name = text(id).markup;
  return {"<section id=\"" + name + "\" aria-labelledby=\"" + name + "-head\">\n<h2 id=\"" + name + "-head\">" + text(heading).markup + "</h2>\n" +
          inside.markup + "\n</section>\n"};
}

Html folded(const Html& label, const Html& inside) {
  return {"<details><summary>" + label.markup + "</summary>\n" + inside.markup + "</details>\n"};
}

Table::Table(std::string_view label, const std::vector<std::string>& heads) : label_(label), heads_(heads) {}

void Table::add(const std::vector<Html>& cells) {
  rows_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    // The first cell names its row.
    const std::string tag = i == 0 ? "th" : "td";
    const std::string attributes = i == 0 ? " scope=\"row\"" : i < heads_.size() && is_number(heads_[i]) ? " class=\"number\"" : "";
    rows_ += "<" + tag + attributes + ">" + cells[i].markup + "</" + tag + ">";
  }
  rows_ += "</tr>\n";
}

Html Table::html() const {
  std::string heads;
  for (const std::string& head : heads_) {
    const bool number = is_number(head);
    heads += std::string("<th scope=\"col\"") + (number ? " class=\"number\"" : "") + ">" + text(number ? head.substr(1) : head).markup + "</th>";
  }
  return {"<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" + text(label_).markup + "\"><table><thead><tr>" + heads +
          "</tr></thead>\n<tbody>\n" + rows_ + "</tbody></table></div>\n"};
}

}  // namespace samerun::verify::html
