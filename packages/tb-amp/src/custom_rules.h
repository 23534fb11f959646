// Autocast rules for operators that PyTorch's header does not list: a program's own ones.
#pragma once
#include <map>
#include <string>

namespace tb::amp {

// Registers an autocast rule for PrivateUse1 devices. c10::Error where the operator is unknown, writes to an argument,
// has a rule already, or the policy is not one of custom_policies().
//
// operation: "mylib::attend" or "mylib::attend.overload", as the operator is registered.
void add_rule(const std::string &operation, const std::string &policy);

// Takes back what add_rule() did; c10::Error for any other rule.
void remove_rule(const std::string &operation);

// Policies by operator: what add_rule() did and remove_rule() did not undo.
std::map<std::string, std::string> custom_rules();

} // namespace tb::amp
