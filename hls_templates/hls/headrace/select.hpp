// Select: elements of a word in another order, each the largest of some.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: words (in a frame), fill (the constant that index -1 stands for). In every row of the index, -1 or not.
template <class CONFIG, class X, class Y, int N, int M, class I, int K>
void select_largest(hls::stream<pack<X, N>>& in, hls::stream<pack<Y, M>>& out, const I (&index)[M][K]) {
    PRAGMA_HLS(HLS INLINE)
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, N> x = in.read();
        pack<Y, M> y;
        for (int o = 0; o < M; ++o) {
            PRAGMA_HLS(HLS UNROLL)
            for (int k = 0; k < K; ++k) {
                PRAGMA_HLS(HLS UNROLL)
                const int at = static_cast<int>(index[o][k]);
                const Y term = at < 0 ? Y(CONFIG::fill) : convert<Y>(x[at < 0 ? 0 : at]);
                y[o] = k == 0 || value(term) > value(y[o]) ? term : y[o];
            }
        }
        out.write(y);
    }
}

}  // namespace headrace
