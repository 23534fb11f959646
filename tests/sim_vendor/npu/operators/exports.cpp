// exports.cpp -- the symbols of the library other than operators.
#include "../src/export.h"
#include "functions.h"

#define SIM_FUNCTION(name, needs) SIM_EXPORT(name, (&sim::Entry<#name, sim::Needs::needs, &sim::name>::call))
#include "functions.inc"
