// Thresholding: y = base[c] + step[c] * (number of cuts of channel c that are less than x).
//
// Channels are read in groups of PE; tables have a row for each group and lane, or one row when all are alike.
#pragma once

#include "types.hpp"

namespace headrace {

// The entry of a table [groups][lanes], of which either may be 1 when it does not matter.
template <class T, int GROUPS, int LANES>
T entry(const T (&table)[GROUPS][LANES], int group, int lane) {
    PRAGMA_HLS(HLS INLINE)
    return table[GROUPS == 1 ? 0 : group][LANES == 1 ? 0 : lane];
}

// With a comparator for every cut.
//
// CONFIG: words (in a frame), groups (of channels), acc_bits (of base + step * count), count_bits.
template <class CONFIG, class X, class Y, int PE, class C, int GROUPS, int LANES, int STEPS, class B, int BG, int BL,
          class S, int SG, int SL>
void thresholding(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, PE>>& out,
                  const C (&cuts)[GROUPS][LANES][STEPS], const B (&base)[BG][BL], const S (&step)[SG][SL]) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;
    using counter = ap_uint<CONFIG::count_bits>;

    int group = 0;
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, PE> x = in.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            int count = 0;
            for (int k = 0; k < STEPS; ++k) {
                PRAGMA_HLS(HLS UNROLL)
                count += value(x[pe]) > cuts[GROUPS == 1 ? 0 : group][LANES == 1 ? 0 : pe][k] ? 1 : 0;
            }
            y[pe] = Y(acc(acc(entry(base, group, pe)) + product<acc>(counter(count), entry(step, group, pe))));
        }
        out.write(y);
        group = group < CONFIG::groups - 1 ? group + 1 : 0;
    }
}

// With a binary search: one comparison a level, each level with its own table of 1, 2, 4 ... cuts.
template <class CONFIG, class X, class Y, int PE, class C, int GROUPS, int LANES, int... SIZES, class B, int BG,
          int BL, class S, int SG, int SL>
void thresholding_search(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, PE>>& out, const B (&base)[BG][BL],
                         const S (&step)[SG][SL], const C (&... levels)[GROUPS][LANES][SIZES]) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;
    using counter = ap_uint<CONFIG::count_bits>;

    int group = 0;
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, PE> x = in.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            const int row = GROUPS == 1 ? 0 : group;
            const int lane = LANES == 1 ? 0 : pe;
            int count = 0;  // of the cuts that are less, its leading bits first
            ((count = 2 * count + (value(x[pe]) > levels[row][lane][count] ? 1 : 0)), ...);
            y[pe] = Y(acc(acc(entry(base, group, pe)) + product<acc>(counter(count), entry(step, group, pe))));
        }
        out.write(y);
        group = group < CONFIG::groups - 1 ? group + 1 : 0;
    }
}

}  // namespace headrace
