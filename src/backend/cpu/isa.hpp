#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tape8::cpu {

/// Instruction sets that the CPU kernels are built for, slowest first. All give the same bits.
enum class Isa { portable, avx2, avx512 };

std::string_view to_string(Isa isa);

/// What a set needs and this machine lacks, comma-separated; empty when it has all.
std::string missing_features(Isa isa);

/// The sets that this machine and build have, fastest first; never empty.
std::span<const Isa> available_isas();

/// The fastest available set, or the one that TAPE8_ISA names. An unknown name or a set that this
/// machine lacks is an OptionError.
Isa selected_isa();

}  // namespace tape8::cpu
