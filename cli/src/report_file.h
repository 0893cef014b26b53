#pragma once

#include <string>

namespace samerun::recorder {
class Reader;
}
namespace samerun::verify {
struct Report;
}

namespace samerun::cli {

/// reports/<pair>.html in the record, or reports/runs-A-B.html for two runs that are no pair.
std::string report_path(const std::string& record, const verify::Report& report);

/// Writes a verdict as one HTML file, whole or not at all. `record`: folder or file of `reader`. Throws kStorage naming the file.
void write_report(const recorder::Reader& reader, const verify::Report& report, const std::string& record, const std::string& file);

}  // namespace samerun::cli
