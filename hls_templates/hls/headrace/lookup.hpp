// Lookup: any function of one value, per channel: a table addressed by the bits of the value.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: words (in a frame), groups (of channels). One lane of tables serves all channels when they are alike.
template <class CONFIG, class X, class Y, int PE, int GROUPS, int LANES, int CODES>
void lookup(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, PE>>& out, const Y (&table)[GROUPS][LANES][CODES]) {
    PRAGMA_HLS(HLS INLINE)
    int group = 0;
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, PE> x = in.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            const int code = static_cast<int>(bits_of(x[pe]));
            y[pe] = table[GROUPS == 1 ? 0 : group][LANES == 1 ? 0 : pe][code];
        }
        out.write(y);
        group = group < CONFIG::groups - 1 ? group + 1 : 0;
    }
}

}  // namespace headrace
