#pragma once

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "harness.h"
#include "paths.h"

namespace samerun::ranks_test {

using launch_test::Bench;
using launch_test::Ended;
using launch_test::Words;

/// Runs the training program on `ranks` ranks, with prefixes also where there is one. Its collectives wait longer than a test may
/// take, so a test that ends proves that nobody waited for a time limit.
inline Ended run(int ranks, const Words& words, const std::map<std::string, std::string>& env = {}) {
  Bench bench;
  for (const auto& [name, value] : env) bench.env[name] = value;
  Words arguments{"launch", "-n", std::to_string(ranks), "--no-record", "--prefix", "--", kStubPath};
  arguments.insert(arguments.end(), words.begin(), words.end());
  return bench.run(arguments);
}

/// What `rank` printed as "what: value", in order.
inline Words values(const Ended& ended, int rank, const std::string& what) {
  const std::string head = "[" + std::to_string(rank) + "] " + what + ": ";
  std::istringstream stream(ended.out);
  Words found;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(head)) found.push_back(line.substr(head.size()));
  }
  return found;
}

inline std::vector<double> numbers(const std::string& text) {
  std::istringstream stream(text);
  std::vector<double> result;
  for (std::string word; stream >> word;) result.push_back(std::strtod(word.c_str(), nullptr));
  return result;
}

/// The one value that `rank` printed under this name, as numbers.
inline std::vector<double> vector_of(const Ended& ended, int rank, const std::string& what) {
  const Words found = values(ended, rank, what);
  return found.size() == 1 ? numbers(found[0]) : std::vector<double>{};
}

inline std::vector<double> counting(double first, int count) {
  std::vector<double> result;
  for (int i = 0; i < count; ++i) result.push_back(first + i);
  return result;
}

}  // namespace samerun::ranks_test
