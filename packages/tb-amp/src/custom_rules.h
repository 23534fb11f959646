// Autocast rules for operators that PyTorch's header does not list, such as those of a program. All functions need the
// GIL.
#pragma once
#include <map>
#include <string>

namespace tb::amp {

// Registers an autocast rule for PrivateUse1 devices. Throws c10::ValueError if the operator is unknown, writes to an
// argument or has a rule already, or if the policy is not lower_precision_fp, fp32 or promote.
//
// operation: the name under which the operator is registered, "mylib::attend" or "mylib::attend.overload".
void add_rule(const std::string &operation, const std::string &policy);

// Removes a rule of add_rule(). Throws c10::ValueError for any other rule.
void remove_rule(const std::string &operation);

// The policies of the rules that add_rule() added and remove_rule() did not remove, by operator.
std::map<std::string, std::string> custom_rules();

} // namespace tb::amp
