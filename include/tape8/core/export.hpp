#pragma once

/// TAPE8_API marks what a shared build of tape8 exports; a static build (the default) needs
/// nothing.
#if defined(TAPE8_SHARED)
#define TAPE8_API __attribute__((visibility("default")))
#else
#define TAPE8_API
#endif
