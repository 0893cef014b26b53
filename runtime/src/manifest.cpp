#include "manifest.h"

#include <nlohmann/json.hpp>

#include "samerun/core/error.h"
#include "sha256.h"

namespace samerun::detail {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kOwnSum = "\"manifest_sha256\": \"";
constexpr std::size_t kSumDigits = 64;

Json json_of(const LeafDigests& leaves) {
  Json json = Json::object();
  for (const auto& [path, digest] : leaves) json[path] = to_hex(digest);
  return json;
}

LeafDigests leaves_from(const Json& json) {
  LeafDigests leaves;
  for (const auto& [path, digest] : json.items()) leaves[path] = digest_from_hex(digest.get<std::string>());
  return leaves;
}

Json json_of(const RankPart& part) {
  Json json{{"files", Json::array()}, {"tensors", Json::array()}, {"leaves", json_of(part.leaves)}};
  for (const auto& file : part.files) json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  for (const auto& tensor : part.tensors) {
    json["tensors"].push_back({{"file", tensor.file},
                               {"name", tensor.name},
                               {"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"range", {tensor.begin, tensor.end}},
                               {"xxh3", tensor.xxh3}});
  }
  return json;
}

RankPart part_from(const Json& json) {
  RankPart part;
  for (const auto& file : json.at("files"))
    part.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<std::int64_t>(), file.at("sha256").get<std::string>()});
  for (const auto& tensor : json.at("tensors")) {
    part.tensors.push_back({tensor.at("file").get<std::string>(), tensor.at("name").get<std::string>(), tensor.at("dtype").get<std::string>(),
                            tensor.at("shape").get<std::vector<std::int64_t>>(), tensor.at("range").at(0).get<std::uint64_t>(),
                            tensor.at("range").at(1).get<std::uint64_t>(), tensor.at("xxh3").get<std::string>()});
  }
  part.leaves = leaves_from(json.at("leaves"));
  return part;
}

Json json_of(const Position& position) {
  return {{"data_seed", position.data_seed},
          {"epoch", position.epoch},
          {"micro_step", position.micro_step},
          {"optimizer_step", position.optimizer_step},
          {"samples_seen", position.samples_seen}};
}

Position position_from(const Json& json) {
  Position position;
  position.data_seed = json.at("data_seed").get<std::uint64_t>();
  position.epoch = json.at("epoch").get<std::int64_t>();
  position.micro_step = json.at("micro_step").get<std::int64_t>();
  position.optimizer_step = json.at("optimizer_step").get<std::int64_t>();
  position.samples_seen = json.at("samples_seen").get<std::int64_t>();
  return position;
}

/// Checks the text's own sum; true where it fits.
bool sum_fits(std::string text) {
  const auto at = text.find(kOwnSum);
  if (at == std::string::npos || text.size() < at + kOwnSum.size() + kSumDigits) return false;
  const auto said = text.substr(at + kOwnSum.size(), kSumDigits);
  text.replace(at + kOwnSum.size(), kSumDigits, kSumDigits, '0');
  return said == sha256_hex(text);
}

Manifest manifest_from(const Json& json) {
  const auto format = json.at("format").get<std::int64_t>();
  if (format > kCheckpointFormat)
    throw Error(ErrorCode::kCheckpoint, "the checkpoint was written by a newer Samerun: load it with that one",
                {{"its format", std::to_string(format)}, {"known", std::to_string(kCheckpointFormat)}});
  Manifest manifest;
  manifest.name = json.at("name").get<std::string>();
  manifest.saved_utc_ns = json.at("saved_utc_ns").get<std::int64_t>();
  manifest.position = position_from(json.at("position"));
  manifest.world_size = json.at("world_size").get<int>();
  manifest.libtorch = json.at("libtorch").get<std::string>();
  manifest.program = json.at("program").get<std::string>();
  manifest.resume_command = json.at("resume_command").get<std::string>();
  manifest.aliases = json.at("aliases").get<std::vector<std::vector<std::string>>>();
  manifest.shared = leaves_from(json.at("shared_leaves"));
  for (const auto& rank : json.at("ranks")) manifest.ranks.push_back(part_from(rank));
  if (manifest.ranks.size() != static_cast<std::size_t>(manifest.world_size))
    throw Error(ErrorCode::kCorruption, "the manifest does not list as many ranks as it says");
  return manifest;
}

}  // namespace

std::int64_t Manifest::bytes() const {
  std::int64_t sum = 0;
  for (const auto& rank : ranks) {
    for (const auto& file : rank.files) sum += file.bytes;
  }
  return sum;
}

const ManifestFile* Manifest::find(std::string_view file) const {
  for (const auto& rank : ranks) {
    for (const auto& each : rank.files) {
      if (each.name == file) return &each;
    }
  }
  return nullptr;
}

std::string manifest_text(const Manifest& manifest) {
  Json json{{"format", kCheckpointFormat},
            {"manifest_sha256", std::string(kSumDigits, '0')},
            {"name", manifest.name},
            {"saved_utc_ns", manifest.saved_utc_ns},
            {"position", json_of(manifest.position)},
            {"world_size", manifest.world_size},
            {"libtorch", manifest.libtorch},
            {"program", manifest.program},
            {"resume_command", manifest.resume_command},
            {"aliases", manifest.aliases},
            {"shared_leaves", json_of(manifest.shared)},
            {"ranks", Json::array()}};
  for (const auto& rank : manifest.ranks) json["ranks"].push_back(json_of(rank));
  auto text = json.dump(1) + "\n";
  const auto sum = sha256_hex(text);
  text.replace(text.find(kOwnSum) + kOwnSum.size(), kSumDigits, sum);
  return text;
}

Manifest parse_manifest(const std::string& text) {
  if (!sum_fits(text)) throw Error(ErrorCode::kCorruption, "the manifest is not what was written: its SHA-256 does not fit; use another checkpoint");
  try {
    return manifest_from(Json::parse(text));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorruption, std::string("the manifest cannot be understood: ") + error.what());
  }
}

std::string rank_part_text(const RankPart& part) {
  return json_of(part).dump();
}
RankPart parse_rank_part(const std::string& text) {
  return part_from(Json::parse(text));
}

}  // namespace samerun::detail
