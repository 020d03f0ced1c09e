#pragma once

#include "backend/backend.hpp"

namespace tape8::cpu {

void update_scales(const UpdateScalesArgs& args);

}  // namespace tape8::cpu
