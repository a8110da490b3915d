// Upsample: every pixel of an image repeated along rows and columns.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: height, width, folds (words of a pixel), tall and wide (copies along rows and columns).
template <class CONFIG, class X, int SIMD>
void upsample(hls::stream<pack<X, SIMD>>& in, hls::stream<pack<X, SIMD>>& out) {
    PRAGMA_HLS(HLS INLINE)
    pack<X, SIMD> line[CONFIG::width * CONFIG::folds];
    PRAGMA_HLS(HLS AGGREGATE variable=line compact=bit)

    int row_copy = 0;
    int col = 0;
    int col_copy = 0;
    int fold = 0;
    constexpr int words = CONFIG::height * CONFIG::tall * CONFIG::width * CONFIG::wide * CONFIG::folds;
    for (int word = 0; word < words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const int place = col * CONFIG::folds + fold;
        pack<X, SIMD> x;
        if (row_copy == 0 && col_copy == 0) {
            x = in.read();
            line[place] = x;
        } else {
            x = line[place];
        }
        out.write(x);

        if (fold < CONFIG::folds - 1) {
            ++fold;
        } else {
            fold = 0;
            if (col_copy < CONFIG::wide - 1) {
                ++col_copy;
            } else {
                col_copy = 0;
                if (col < CONFIG::width - 1) {
                    ++col;
                } else {
                    col = 0;
                    row_copy = row_copy < CONFIG::tall - 1 ? row_copy + 1 : 0;
                }
            }
        }
    }
}

}  // namespace headrace
