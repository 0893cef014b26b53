#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "backend.h"
#include "cli_version.h"
#include "samerun/core/settings.h"

namespace samerun::cli {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kRecordHelp = "Folder of the record (SAMERUN_DIR; .samerun in the working directory)";
constexpr int kMostRanks = 4096;

/// Whole numbers from `least` to `most`, without the check's own words in the help.
CLI::Validator range(int least, int most) {
  return CLI::Validator(CLI::Range(least, most)).description("");
}

/// Whole numbers that fit 63 bits; CLI11 would wrap what does not fit.
CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        const bool good = !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string::npos;
        return good ? std::string() : "Value " + text + " is not a whole number of at most 18 digits";
      },
      "");
}

CLI::Validator not_empty() {
  return CLI::Validator([](const std::string& text) { return text.empty() ? std::string("a folder's name may not be empty") : std::string(); }, "");
}

void add_quiet_flag(CLI::App* app, bool& quiet) {
  app->add_flag("-q,--quiet", quiet, "Say nothing unless something fails");
}

void add_prefix_flag(CLI::App* app, bool& prefix) {
  app->add_flag("--prefix", prefix, "Put [rank] before each line, on one rank too");
}

bool needs_program(const CLI::App* app) {
  return app->get_name() == "launch" || app->get_name() == "pair" || app->get_name() == "resume-check";
}
bool takes_program(const CLI::App* app) {
  return needs_program(app) || app->get_name() == "resume";
}

/// CLI11's usage line knows nothing of the program that follows.
class Format : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = CLI::Formatter::make_usage(app, name);
    const char* program = needs_program(app) ? " -- PROGRAM [ARGS...]" : takes_program(app) ? " [-- PROGRAM [ARGS...]]" : "";
    return text.insert(text.find_last_not_of('\n') + 1, program);
  }
};

/// The parser of all commands, and where each puts what was typed.
class Parser {
 public:
  Parser();
  Command parse(const Words& words);

 private:
  CLI::App* add(const char* name, const char* description);
  void add_run_flags(CLI::App* app, RunFlags& options);
  template <class Options>
  void add_read_flags(CLI::App* app, Options& options);
  void add_launch();
  void add_resume();
  void add_pair();
  void add_resume_check();
  void add_report();
  void add_readers();
  CLI::App* find_command(const std::string& name);
  Words names() const;
  Command parse_command(CLI::App* app, const Words& words);
  Command result(CLI::App* app, Words command);

  CLI::App app_{"Runs libtorch training on one device or many, and proves that the larger run is the same experiment.", "samerun"};
  LaunchOptions launch_;
  ResumeOptions resume_;
  PairOptions pair_;
  ResumeCheckOptions resume_check_;
  VerifyOptions verify_;
  ReportOptions report_;
  RunsOptions runs_;
  ShowOptions show_;
  EnvOptions env_;
};

Words flag_names(const CLI::App* app) {
  Words names;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// "--record_dir=x" and "--record-dir=x" are one flag; the value keeps its spelling.
std::string with_dashes(std::string word) {
  if (!word.starts_with("--")) return word;
  std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size())), '_', '-');
  return word;
}

std::string near_text(const std::string& word, const Words& known) {
  const std::optional<std::string> near = nearest_word(word, known);
  return near ? "; did you mean " + *near + "?" : "";
}

/// The option that `word` names, null when none. "-n4" names -n.
const CLI::Option* find_flag(const CLI::App* app, const std::string& word) {
  if (word.starts_with("--")) return app->get_option_no_throw(word.substr(0, word.find('=')));
  return app->get_option_no_throw(word.substr(0, 2));
}

bool value_follows(const CLI::Option* option, const std::string& word) {
  const bool inside = word.starts_with("--") ? word.find('=') != std::string::npos : word.size() > 2;
  return option->get_items_expected_max() > 0 && !inside;
}

std::string flag_row(const CLI::Option* option) {
  const bool takes_value = option->get_items_expected_max() > 0;
  const std::string initial = option->get_default_str();
  return "| `" + option->get_name(false, true) + "` | " + (takes_value ? option->get_type_name() : "") + " | " + initial + " | " +
         option->get_description() + " |\n";
}

/// COMMANDS.md: every command and flag as the parser knows it.
std::string command_table(const CLI::App& app) {
  std::string text = "# Commands and flags\n\nMade by `samerun help-table`; a test compares. Flags may be spelled with `-` or `_`.\n";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    text += "\n## samerun " + command->get_name() + "\n" + command->get_description() + ".\n\n";
    text += "| flag | value | default | meaning |\n|---|---|---|---|\n";
    for (const CLI::Option* option : command->get_options()) text += flag_row(option);
  }
  return text + "\n" + app.get_footer() + "\n";
}

struct Split {
  Words flags, command;
  std::string unknown;
};

/// Separates our flags from the program's command line, which begins after "--" or, where it has to be there, at the first
/// word that is not a flag.
Split split(const CLI::App* app, const Words& words) {
  Split result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_flag = words[i].size() > 1 && words[i].front() == '-';
    if (words[i] == "--" || (!is_flag && needs_program(app))) {
      result.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i + (words[i] == "--" ? 1 : 0)), words.end());
      break;
    }
    const std::string word = with_dashes(words[i]);
    result.flags.push_back(word);
    if (!is_flag) continue;
    const CLI::Option* option = find_flag(app, word);
    if (option == nullptr) {
      result.unknown = words[i].substr(0, words[i].find('='));
      break;
    }
    if (value_follows(option, word) && i + 1 < words.size()) result.flags.push_back(words[++i]);
  }
  return result;
}

Parser::Parser() {
  app_.formatter(std::make_shared<Format>());
  app_.set_version_flag("--version", kVersion);
  app_.footer(
      "Exit codes: 0 same or done, 1 different, 2 usage, 3 a run failed or a record could not be read or written,\n"
      "4 inconclusive or refused, 128 + signal when told to stop.");
  add_launch();
  add_resume();
  add_pair();
  add_resume_check();
  add_readers();
}

CLI::App* Parser::add(const char* name, const char* description) {
  CLI::App* app = app_.add_subcommand(name, description);
  app->formatter(std::make_shared<Format>());
  return app;
}

void Parser::add_run_flags(CLI::App* app, RunFlags& options) {
  app->add_option("-n,--nproc-per-node,--num-processes", options.ranks, "Ranks to start, 1 to 4096 (SAMERUN_NPROC; launch: 1, otherwise 2)")
      ->type_name("N")
      ->check(range(1, kMostRanks));
  app->add_option("--threads", options.threads, "Threads of each rank (SAMERUN_THREADS; usable cores / ranks)")
      ->type_name("T")
      ->check(range(1, 4096));
  app->add_option("--timeout", options.timeout_s, "Seconds that a collective may take (SAMERUN_TIMEOUT_S)")->type_name("S")->check(range(1, 86400));
  app->add_option("--seed", options.seed, "Seed handed to the program (SAMERUN_SEED)")->type_name("SEED")->check(whole_number());
  app->add_option("--backend", options.backend,
                  "What carries the collectives (SAMERUN_BACKEND; auto: NCCL on GPUs, else MPI where it is installed, else Gloo)")
      ->check(CLI::IsMember(backend_words()));
  app->add_option("--record-dir", options.record_dir, kRecordHelp)->type_name("DIR")->check(not_empty());
  add_quiet_flag(app, options.quiet);
}

template <class Options>
void Parser::add_read_flags(CLI::App* app, Options& options) {
  app->add_option("--record-dir", options.record_dir, kRecordHelp)->type_name("DIR")->check(not_empty());
  app->add_flag("--json", options.json, "Print JSON");
}

void Parser::add_launch() {
  CLI::App* app = add("launch", "Run a program on N ranks of this host and record the run");
  add_run_flags(app, launch_);
  app->add_flag("--no-record", launch_.no_record, "Record nothing (SAMERUN_RECORD=0)");
  app->add_option("--checkpoint-dir", launch_.checkpoint_dir,
                  "Where the program's checkpoints go (SAMERUN_CHECKPOINT_DIR; checkpoints/run-RUN in the record)")
      ->type_name("DIR")
      ->check(not_empty());
  add_prefix_flag(app, launch_.prefix);
}

void Parser::add_resume() {
  CLI::App* app = add("resume", "Go on with a recorded run from its newest checkpoint, as a new run");
  app->add_option("RUN", resume_.run, "Number of the run, see samerun runs; a command line after -- takes the recorded one's place")->required();
  app->add_option("--checkpoint", resume_.checkpoint, "Folder of the checkpoint to start from, in place of the newest")
      ->type_name("FOLDER")
      ->check(not_empty());
  app->add_option("--record-dir", resume_.record_dir, kRecordHelp)->type_name("DIR")->check(not_empty());
  add_quiet_flag(app, resume_.quiet);
  add_prefix_flag(app, resume_.prefix);
}

void Parser::add_pair() {
  CLI::App* app = add("pair", "Run a program on N ranks and on one, and judge whether both are the same experiment");
  add_run_flags(app, pair_);
  app->add_flag("--strict", pair_.strict, "Refuse a verdict when something was not exercised");
  app->add_option("--steps", pair_.steps, "Stop candidate and reference after this many optimizer steps")
      ->type_name("STEPS")
      ->check(range(1, 1 << 30));
  app->add_option("--shadow-steps", pair_.shadow_steps, "Most optimizer steps of a float64 run")
      ->type_name("STEPS")
      ->check(range(1, 1 << 30))
      ->capture_default_str();
  app->add_option("--candidate-env", pair_.candidate_env, "NAME=VALUE for the candidate's runs only; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  app->add_option("--reference-env", pair_.reference_env, "NAME=VALUE for the reference's runs only; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  app->add_option("--reference", pair_.reference, "What one rank executes: replay (the candidate's micro-batches) or whole (whole batches)")
      ->check(CLI::IsMember({"replay", "whole"}))
      ->capture_default_str();
  app->add_flag("--resume", pair_.resume, "Check as well that the program can be killed and resumed, as samerun resume-check does");
  app->add_flag("--keep-captures", pair_.keep_captures, "Keep the captured tensors of the locked steps");
  app->add_flag("--no-report", pair_.no_report, "Write no reports/PAIR.html in the record");
  app->add_flag("--json", pair_.json, "Print the verdict as JSON");
}

void Parser::add_resume_check() {
  CLI::App* app = add("resume-check", "Run a program straight through, and killed and resumed, and judge whether both are the same run");
  add_run_flags(app, resume_check_);
  app->add_option("--steps", resume_check_.steps, "Optimizer steps to run to (an epoch and some more, at most 200)")
      ->type_name("STEPS")
      ->check(range(2, 1 << 30));
  app->add_option("--points", resume_check_.points,
                  "Where to save: S after S steps, S+M after M more micro-batches, with commas between (within an epoch, within a window, at an "
                  "epoch's end)")
      ->type_name("POINTS");
  app->add_flag("--keep-checkpoints", resume_check_.keep_checkpoints, "Keep the checkpoints");
  app->add_flag("--json", resume_check_.json, "Print the verdict as JSON");
}

void Parser::add_readers() {
  CLI::App* verify = add("verify", "Judge two recorded runs; runs no program");
  verify->add_option("RUN_A", verify_.run_a, "Number of a run, see samerun runs")->required();
  verify->add_option("RUN_B", verify_.run_b, "Number of the other run; the one with more ranks or role candidate is judged against the other")
      ->required();
  verify->add_flag("--strict", verify_.strict, "Refuse a verdict when something was not exercised");
  add_read_flags(verify, verify_);
  add_report();
  add_read_flags(add("runs", "List the recorded runs"), runs_);
  CLI::App* show = add("show", "Show what is recorded of one run");
  show->add_option("RUN", show_.run, "Number of the run, see samerun runs")->required();
  add_read_flags(show, show_);
  CLI::App* env = add("env", "Print facts of this machine, ready to paste in an issue");
  env->add_flag("--json", env_.json, "Print JSON");
}

void Parser::add_report() {
  CLI::App* app = add("report", "Judge a recorded pair again and write the verdict as one HTML file; runs no program");
  app->add_option("PAIR", report_.pair, "Id of a pair, or the number of a run, see samerun runs")->required();
  app->add_option("RUN_B", report_.run_b, "Number of the other run, where the first is that of a run");
  app->add_option("-o,--output", report_.output, "File to write (reports/PAIR.html in the record)")->type_name("FILE")->check(not_empty());
  app->add_flag("--strict", report_.strict, "Refuse a verdict when something was not exercised");
  app->add_option("--record-dir", report_.record_dir, kRecordHelp)->type_name("DIR")->check(not_empty());
}

CLI::App* Parser::find_command(const std::string& name) {
  const std::vector<CLI::App*> found = app_.get_subcommands([&](const CLI::App* app) { return app->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

Words Parser::names() const {
  Words names;
  for (const CLI::App* app : app_.get_subcommands([](const CLI::App*) { return true; })) names.push_back(app->get_name());
  return names;
}

Command Parser::parse(const Words& words) {
  if (words.empty()) return UsageError{"no command given\n\n" + app_.help()};
  const std::string& name = words.front();
  if (name == "--version") return PrintText{std::string("samerun ") + kVersion + "\n"};
  if (name == "-h" || name == "--help" || name == "help") return PrintText{app_.help()};
  if (name == "help-table") return PrintText{command_table(app_)};
  if (name.front() == '-') return UsageError{"unknown flag " + name + near_text(name, {"--help", "--version"})};
  CLI::App* app = find_command(name);
  if (app == nullptr)
    return UsageError{"unknown command " + name + near_text(name, names()) + " (commands: " + CLI::detail::join(names(), ", ") + ")"};
  return parse_command(app, Words(words.begin() + 1, words.end()));
}

Command Parser::parse_command(CLI::App* app, const Words& words) {
  const std::string hint = "\nsee samerun " + app->get_name() + " --help";
  Split parts = split(app, words);
  if (!parts.unknown.empty()) return UsageError{"unknown flag " + parts.unknown + near_text(with_dashes(parts.unknown), flag_names(app)) + hint};
  if (!parts.command.empty() && !takes_program(app)) return UsageError{"samerun " + app->get_name() + " starts no program" + hint};
  std::vector<std::string> reversed(parts.flags.rbegin(), parts.flags.rend());
  reversed.push_back(app->get_name());
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return PrintText{app->help("samerun")};
  } catch (const CLI::ParseError& error) {
    return UsageError{error.what() + hint};
  }
  if (parts.command.empty() && needs_program(app)) return UsageError{"no program given: put it and its arguments after --" + hint};
  return result(app, std::move(parts.command));
}

Command Parser::result(CLI::App* app, Words command) {
  const std::string& name = app->get_name();
  launch_.command = resume_.command = pair_.command = resume_check_.command = std::move(command);
  if (name == "launch") return launch_;
  if (name == "resume") return resume_;
  if (name == "pair") return pair_;
  if (name == "resume-check") return resume_check_;
  if (name == "verify") return verify_;
  if (name == "report") return report_;
  if (name == "runs") return runs_;
  if (name == "show") return show_;
  return env_;
}

}  // namespace

Command parse_command_line(const Words& words) {
  return Parser().parse(words);
}

}  // namespace samerun::cli
