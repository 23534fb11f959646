// contract.h -- what every case reads, compiled once.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "kit.h"
#include "mutant.h"
