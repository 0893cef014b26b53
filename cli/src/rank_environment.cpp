#include "rank_environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mpi_wireup.h"
#include "samerun/core/launch_contract.h"

namespace samerun::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Variables inherited() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

void drop_stale(Variables& variables) {
  for (const char* name : {env::kRank, env::kWorldSize, env::kLocalRank, env::kStoreHost, env::kStorePort, env::kStoreFd, env::kControlFd,
                           env::kThreads, env::kRunId, env::kStaging, env::kResumeCommand}) {
    variables.erase(name);
  }
  std::erase_if(variables, [](const auto& variable) { return of_another_mpi_launcher(variable.first); });
}

}  // namespace

Listener listen_local() {
  Listener listener;
  listener.fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.fd.open()) throw_errno("cannot make the rendezvous socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.fd.get(), generic, sizeof address) != 0) throw_errno("cannot bind 127.0.0.1");
  if (::listen(listener.fd.get(), SOMAXCONN) != 0) throw_errno("cannot listen on 127.0.0.1");
  socklen_t size = sizeof address;
  if (::getsockname(listener.fd.get(), generic, &size) != 0) throw_errno("cannot read the rendezvous port");
  listener.port = ntohs(address.sin_port);
  return listener;
}

std::vector<std::string> rank_environment(const RankContract& contract, int rank, int store_fd, int control_fd) {
  Variables variables = inherited();
  drop_stale(variables);
  for (const std::string& name : contract.unset) variables.erase(name);
  const std::string threads = std::to_string(contract.threads);
  variables[env::kRank] = variables[env::kLocalRank] = std::to_string(rank);
  variables[env::kWorldSize] = std::to_string(contract.world_size);
  variables[env::kStoreHost] = "127.0.0.1";
  variables[env::kStorePort] = std::to_string(contract.store_port);
  if (store_fd >= 0) variables[env::kStoreFd] = std::to_string(store_fd);
  variables[env::kControlFd] = std::to_string(control_fd);
  for (const char* name : {env::kThreads, "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) variables[name] = threads;
  if (!contract.run_id.empty()) {
    variables[env::kRunId] = contract.run_id;
    variables[env::kStaging] = contract.staging;
  }
  if (!contract.of_rank.empty()) {
    for (const auto& [name, value] : contract.of_rank.at(static_cast<std::size_t>(rank))) variables[name] = value;
  }
  for (const auto& [name, value] : contract.set) variables[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

}  // namespace samerun::cli
