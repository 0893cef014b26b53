// A rank that uses MPI and nothing else, for tests of how the launcher wires ranks up: obeys its arguments in order. "1:exit=3" is for rank 1
// only; a word without a number is for all ranks. The rank is the one that the launcher says. Files that it makes lie in $STUB_DIR.
#include <mpi.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "samerun/core/launch_contract.h"

namespace {

using namespace samerun;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void to_control(const std::string& line) {
  const int fd = std::atoi(variable(env::kControlFd).c_str());
  if (::write(fd, line.data(), line.size()) < 0) std::exit(97);
}

void init() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
}

/// "rank 1 of 3 sums 6": who MPI says it is, and the sum of 1 to 3 over the ranks.
void tell() {
  int rank = -1, size = -1, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  std::printf("rank %d of %d sums %d\n", rank, size, sum);
}

/// Appears whole or not at all.
void mark(const std::string& name) {
  const std::string path = variable("STUB_DIR") + "/" + name + "." + variable(env::kRank);
  std::ofstream(path + ".part") << ::getpid() << "\n";
  std::filesystem::rename(path + ".part", path);
}

void await(const std::string& file) {
  while (!std::filesystem::exists(variable("STUB_DIR") + "/" + file)) ::poll(nullptr, 0, 2);
}

const std::map<std::string, std::function<void(const std::string&)>>& actions() {
  static const std::map<std::string, std::function<void(const std::string&)>> map{
      {"hello", [](const std::string&) { to_control("hello 0.1.0 " + std::to_string(::getpid()) + "\n"); }},
      {"bye", [](const std::string&) { to_control("bye\n"); }},
      {"init", [](const std::string&) { init(); }},
      {"tell", [](const std::string&) { tell(); }},
      {"barrier", [](const std::string&) { MPI_Barrier(MPI_COMM_WORLD); }},
      {"finalize", [](const std::string&) { MPI_Finalize(); }},
      {"abort", [](const std::string& code) { MPI_Abort(MPI_COMM_WORLD, std::atoi(code.c_str())); }},
      {"env", [](const std::string& name) { std::printf("%s=%s\n", name.c_str(), variable(name.c_str()).c_str()); }},
      {"mark", mark},
      {"await", await},
      {"kill", [](const std::string&) { ::raise(SIGKILL); }},
      {"exit", [](const std::string& code) { std::_Exit(std::atoi(code.c_str())); }},
  };
  return map;
}

void obey(std::string word) {
  const std::size_t colon = word.find(':');
  if (colon != std::string::npos && colon < word.find('=')) {
    if (word.substr(0, colon) != variable(env::kRank)) return;
    word.erase(0, colon + 1);
  }
  const std::size_t equals = word.find('=');
  const auto action = actions().find(word.substr(0, equals));
  if (action == actions().end()) {
    std::fprintf(stderr, "mpi_stub: unknown word %s\n", word.c_str());
    std::exit(99);
  }
  action->second(equals == std::string::npos ? "" : word.substr(equals + 1));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) obey(argv[i]);
  return 0;
}
