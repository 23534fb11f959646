// The contract kit as a program, for sanitizers and debuggers. One process runs all: a crash ends it.
//
//   contract_runner --driver NAME|PATH --level N [--only TEXT] [--mutant NAME] [--layers SPEC] [--seed N]
//                   [--image FILE] [--option KEY=VALUE]... [--slow] [--list]
//   and, for cases that start a second process: --library FILE --child NAME
//
// Exit code 0: every case passed or is not offered, and at least one was executed; 1: not so; 2: wrong usage.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "contract/child.h"
#include "contract/mutant.h"
#include "contract/run.h"
#include "drivers/builtin.h"

using namespace tb::contract;

namespace {

struct Request {
  Target target;
  Options options;
  int level = 0;
  std::string only, child;
  bool slow = false, list = false;
};

[[noreturn]] void usage(const std::string &problem) {
  std::fprintf(stderr, "contract_runner: %s. The head of contract/runner.cpp shows the usage\n", problem.c_str());
  std::exit(2);
}

Request read(int count, char **arguments) {
  Request request;
  std::map<std::string, std::string> given;
  for (int i = 1; i < count; ++i) {
    const std::string key = arguments[i];
    if (key == "--slow" || key == "--list") {
      (key == "--slow" ? request.slow : request.list) = true;
      continue;
    }
    if (i + 1 == count) usage(key + " needs a value");
    const std::string value = arguments[++i];
    const size_t equals = value.find('=');
    if (key == "--option" && equals == std::string::npos) usage("--option needs KEY=VALUE");
    if (key == "--option")
      given[value.substr(0, equals)] = value.substr(equals + 1);
    else if (key == "--driver")
      request.target.name = value;
    else if (key == "--level")
      request.level = std::atoi(value.c_str());
    else if (key == "--only")
      request.only = value;
    else if (key == "--mutant")
      request.target.mutant = value;
    else if (key == "--layers")
      request.target.layers = value;
    else if (key == "--image")
      request.target.image = value;
    else if (key == "--library")
      request.target.library = value;
    else if (key == "--child")
      request.child = value;
    else if (key == "--seed")
      request.target.seed = std::strtoull(value.c_str(), nullptr, 10);
    else
      usage("unknown option " + key);
  }
  if (request.list) return request;
  if (request.target.name.empty()) usage("--driver is missing");
  if (!request.target.mutant.empty() && !find_mutant(request.target.mutant))
    usage("there is no mutant " + request.target.mutant);
  request.target.child_command = {"/proc/self/exe"};
  if (request.child.empty()) request.options = default_options(request.target.name);
  for (const auto &[key, value] : given) request.options[key] = value;
  request.target.open = tb::drivers::builtin_entry(request.target.name);
  if (!request.target.open && request.target.library.empty() && request.target.name.find('/') == std::string::npos)
    usage("there is no driver " + request.target.name + ", and a path has a slash");
  if (!request.target.open) {
    if (request.target.library.empty()) request.target.library = request.target.name;
    request.target.open = open_function(request.target.library);
  }
  return request;
}

int list_all() {
  for (const Case &one : all_cases())
    std::printf("%-8s level %d  %-40s %s\n", one.id().c_str(), one.level(), one.rules, one.title);
  for (const Mutant &mutant : all_mutants())
    std::printf("mutant %-28s %s on %s: %s\n", mutant.name, mutant.caught_by, mutant.base, mutant.text);
  return 0;
}

void print(const Case &one, const Result &result) {
  std::printf("%-8s %-11s %7.3f s  %s\n", one.id().c_str(), name_of(result.outcome), result.seconds, one.title);
  if (!result.text.empty()) std::printf("         %s\n", result.text.c_str());
  if (!result.where.empty()) std::printf("         %s (rules %s)\n", result.where.c_str(), one.rules);
  for (const std::string &statement : result.statements) std::printf("         states: %s\n", statement.c_str());
  std::fflush(stdout);
}

int run_all(const Request &request) {
  const double start = seconds_now();
  std::map<Outcome, int> counts;
  std::string failed;
  auto kit = std::make_unique<Kit>(request.target, request.options);
  for (const Case &one : all_cases()) {
    if (one.level() > request.level || one.id().find(request.only) == std::string::npos) continue;
    if (one.traits.slow && !request.slow) continue;
    const Result result = run_case(one, *kit);
    ++counts[result.outcome];
    print(one, result);
    // The next case gets a new driver, so that it does not see what this one left behind; the old driver is never
    // closed.
    if (result.outcome == Outcome::failed) {
      failed += ' ' + one.id();
      static auto &left = *new std::vector<Kit *>; // what is still pointed at is no leak
      left.push_back(kit.release());
      kit = std::make_unique<Kit>(request.target, request.options);
    }
  }
  kit->close();
  const int executed = counts[Outcome::passed] + counts[Outcome::failed] + counts[Outcome::warned];
  std::printf("%s: level %d: %d passed, %d failed, %d warned, %d not offered, %.1f s\n", request.target.name.c_str(),
              request.level, counts[Outcome::passed], counts[Outcome::failed], counts[Outcome::warned],
              counts[Outcome::not_offered], seconds_now() - start);
  if (!failed.empty()) std::printf("failed: %s\n", failed.c_str() + 1);
  if (executed == 0) std::printf("no case was executed: that proves nothing\n");
  return executed > 0 && counts[Outcome::failed] == 0 ? 0 : 1;
}

} // namespace

int main(int count, char **arguments) {
  try {
    const Request request = read(count, arguments);
    if (!request.child.empty()) return child_main(request.target, request.options, request.child);
    return request.list ? list_all() : run_all(request);
  } catch (const std::exception &error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
