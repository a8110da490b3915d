// LabelSelect: the indices of the k best values of a vector, best first, the lower index first among equals.
//
// Each of PE lanes keeps its own best values in order while the vector arrives; then the best of the lanes' heads
// leaves, k times.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: vectors (in a frame), words (of a vector), k, slots (values that a lane keeps), largest.
template <class CONFIG, class X, class Y, int PE>
void label_select(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, 1>>& out) {
    PRAGMA_HLS(HLS INLINE)
    using key = decltype(value(X()));
    key keys[PE][CONFIG::slots] = {};
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=keys complete dim=0)
    Y labels[PE][CONFIG::slots] = {};
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=labels complete dim=0)
    int held[PE] = {};
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=held complete)

    int position = 0;  // words of the vector read, then labels written
    for (int cycle = 0; cycle < CONFIG::vectors * (CONFIG::words + CONFIG::k); ++cycle) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        if (position < CONFIG::words) {
            const pack<X, PE> x = in.read();
            for (int pe = 0; pe < PE; ++pe) {
                PRAGMA_HLS(HLS UNROLL)
                const int kept = position == 0 ? 0 : held[pe];
                const key candidate = value(x[pe]);
                bool before[CONFIG::slots];  // whether the candidate comes before what a slot holds
                PRAGMA_HLS(HLS ARRAY_PARTITION variable=before complete)
                for (int s = 0; s < CONFIG::slots; ++s) {
                    PRAGMA_HLS(HLS UNROLL)
                    before[s] = s >= kept || (CONFIG::largest ? candidate > keys[pe][s] : candidate < keys[pe][s]);
                }
                for (int s = CONFIG::slots - 1; s >= 0; --s) {
                    PRAGMA_HLS(HLS UNROLL)
                    if (s > 0 && before[s > 0 ? s - 1 : 0]) {
                        keys[pe][s] = keys[pe][s > 0 ? s - 1 : 0];
                        labels[pe][s] = labels[pe][s > 0 ? s - 1 : 0];
                    } else if (before[s]) {
                        keys[pe][s] = candidate;
                        labels[pe][s] = Y(position * PE + pe);
                    }
                }
                held[pe] = kept < CONFIG::slots ? kept + 1 : kept;
            }
        } else {
            int best = -1;
            for (int pe = 0; pe < PE; ++pe) {
                PRAGMA_HLS(HLS UNROLL)
                if (held[pe] == 0) continue;
                const bool better = best < 0 || (CONFIG::largest ? keys[pe][0] > keys[best < 0 ? 0 : best][0]
                                                                 : keys[pe][0] < keys[best < 0 ? 0 : best][0]);
                const bool equal = best >= 0 && keys[pe][0] == keys[best < 0 ? 0 : best][0];
                if (better || (equal && labels[pe][0] < labels[best < 0 ? 0 : best][0])) best = pe;
            }
            pack<Y, 1> y;
            y[0] = labels[best][0];
            out.write(y);
            for (int pe = 0; pe < PE; ++pe) {
                PRAGMA_HLS(HLS UNROLL)
                if (pe != best) continue;
                for (int s = 0; s + 1 < CONFIG::slots; ++s) {
                    PRAGMA_HLS(HLS UNROLL)
                    keys[pe][s] = keys[pe][s + 1];
                    labels[pe][s] = labels[pe][s + 1];
                }
                --held[pe];
            }
        }
        position = position < CONFIG::words + CONFIG::k - 1 ? position + 1 : 0;
    }
}

}  // namespace headrace
