// The tables of a vendor's kernels (tb/kernels.h): where they come from, and what becomes of their entries' calls. They
// also say how tb-ops' own kernels are compiled.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tb/kernels.h"

namespace tb::ops::vendor {

using Count = std::atomic<uint64_t>;

// Names the function of a library that this thread calls, in the texts of failures that the library sets.
class Calling {
public:
  Calling(const char *function, int32_t device);
  ~Calling();
  Calling(const Calling &) = delete;
  Calling &operator=(const Calling &) = delete;
};

// Takes the text of the last failure of this thread; empty if there is none.
std::string take_error_text();

// An entry of a table. It lives as long as the process.
class Entry {
public:
  Entry(const tb_kernel &kernel, void *self, std::string source)
      : kernel(kernel), self(self), source(std::move(source)) {}

  // The count of the calls that the entry left to others for a reason. The reference stays valid.
  Count &left(const std::string &reason);
  std::map<std::string, uint64_t> reasons() const;

  const tb_kernel kernel;
  void *const self;
  const std::string source; // the driver's name, or the library's path
  std::string problem;      // why it serves nothing; empty if it serves its operator
  bool added = false;       // by add_entry()
  Count calls = 0;

private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Count>> left_;
};

// A table as it was read; fields that its version lacks are 0.
struct Table {
  tb_kernels fields;
  std::string source; // "the driver NAME", or the library's path

  // Returns a file or folder that the table names; one that is not absolute is beside the library in which the name's
  // text is. Throws c10::Error if that is in none.
  std::string path_of(const std::string &name) const;
};

// The tables, that of the driver first. Empty before read_tables().
const std::vector<Table> &tables();

// Names a library to be opened by read_tables().
void add_library(const std::string &path);

// Opens the libraries, and reads the open driver's table and theirs. Throws c10::Error if a library cannot be opened, or
// if a table has an entry without a name, an operator or a function.
void read_tables();

// Adds an entry that is of no table. read_tables() keeps it.
void add_entry(std::unique_ptr<Entry> entry);

// All entries: those that were added before read_tables(), those of the driver, of the libraries, and what was added since.
std::vector<Entry *> entries();

} // namespace tb::ops::vendor
