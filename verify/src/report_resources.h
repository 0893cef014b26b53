#pragma once

#include <string_view>

/// Files that each report carries, put into the program when it is built.
namespace samerun::verify::resource {

std::string_view css();
std::string_view script();
std::string_view chart_js();       ///< Chart.js, minified, with the notices of its authors.
std::string_view chart_licence();  ///< The licence's text.

}  // namespace samerun::verify::resource
