// What every case reads, compiled once.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "contract/kit.h"
#include "contract/mutant.h"
