#pragma once

#include <string>

namespace samerun::recorder {

/// Name of the file system that holds `path` ("ext4", "nfs", ...; "0x..." when unknown). Empty when it cannot be told.
std::string file_system_type(const std::string& path);
/// SQLite's WAL needs memory shared between processes, which these do not give.
bool is_network_file_system(const std::string& type);

}  // namespace samerun::recorder
