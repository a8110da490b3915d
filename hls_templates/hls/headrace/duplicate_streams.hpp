// DuplicateStreams: every word to each of several outputs.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: words (in a frame).
template <class CONFIG, class X, int PE, class... OUT>
void duplicate_streams(hls::stream<pack<X, PE>>& in, OUT&... out) {
    PRAGMA_HLS(HLS INLINE)
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, PE> x = in.read();
        (out.write(x), ...);
    }
}

}  // namespace headrace
