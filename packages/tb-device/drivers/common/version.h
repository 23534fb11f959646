// Which build a driver is part of.
#pragma once

#ifndef TB_PACKAGE_VERSION
#define TB_PACKAGE_VERSION "unversioned"
#endif

#if defined(__SANITIZE_THREAD__)
#define TB_SANITIZER "thread sanitizer"
#elif defined(__SANITIZE_ADDRESS__)
#define TB_SANITIZER "address sanitizer"
#else
#define TB_SANITIZER "no sanitizer"
#endif

namespace tb::drivers {

inline constexpr char package_version[] = TB_PACKAGE_VERSION;
inline constexpr char build_id[] = "tb-device " TB_PACKAGE_VERSION ", " __VERSION__ ", " TB_SANITIZER;

} // namespace tb::drivers
