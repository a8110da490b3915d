// When a side of a stream stalls. The cocotb bench (stalls.py) stalls in the same cycles.
#pragma once

#include <cstdint>

namespace headrace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

// Word n of the splitmix64 sequence that starts at `key` (Steele, Lea and Flood 2014).
inline uint64_t splitmix(uint64_t key, uint64_t n) {
    uint64_t z = key + (n + 1) * kGolden;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

// Whether a side stalls in a cycle: a pure function of (key, cycle). Spans of 256 cycles stall either cycle
// by cycle or in bursts of 16; the mean is threshold / 2^53 in both.
struct Stall {
    uint64_t key = 0, threshold = 0;
    bool operator()(uint64_t cycle) const {
        if (threshold == 0) return false;
        const bool bursts = splitmix(key + 1, cycle >> 8) & 1;
        const uint64_t draw = bursts ? splitmix(key + 2, cycle >> 4) : splitmix(key, cycle);
        return (draw >> 11) < threshold;
    }
};

}  // namespace headrace
