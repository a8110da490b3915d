// Pad: constants around a frame and between its pixels.
#pragma once

#include "types.hpp"

namespace headrace {

// Positions along one axis: those at begin, begin + STEP ... come from the input, `real` of them.
template <int COUNT, int BEGIN, int REAL, int STEP>
class pad_axis {
public:
    int position = 0;

    bool real() const { return position == next && left > 0; }

    // Go on to the next position; true after the last one, when the first follows.
    bool advance() {
        if (real()) {
            next += STEP;
            --left;
        }
        if (position < COUNT - 1) {
            ++position;
            return false;
        }
        position = 0;
        next = BEGIN;
        left = REAL;
        return true;
    }

private:
    int next = BEGIN;
    int left = REAL;
};

// CONFIG: for each axis (h, w, c: rows, columns, words of a pixel) count_ (positions), begin_, real_ and step_.
template <class CONFIG, class X, class Y, int SIMD, int WORDS>
void pad(hls::stream<pack<X, SIMD>>& in, hls::stream<pack<Y, SIMD>>& out, const Y (&fill)[WORDS][SIMD]) {
    PRAGMA_HLS(HLS INLINE)
    pad_axis<CONFIG::count_h, CONFIG::begin_h, CONFIG::real_h, CONFIG::step_h> row;
    pad_axis<CONFIG::count_w, CONFIG::begin_w, CONFIG::real_w, CONFIG::step_w> col;
    pad_axis<CONFIG::count_c, CONFIG::begin_c, CONFIG::real_c, CONFIG::step_c> channel;
    for (int word = 0; word < CONFIG::count_h * CONFIG::count_w * CONFIG::count_c; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        pack<Y, SIMD> y;
        if (row.real() && col.real() && channel.real()) {
            const pack<X, SIMD> x = in.read();
            for (int i = 0; i < SIMD; ++i) {
                PRAGMA_HLS(HLS UNROLL)
                y[i] = convert<Y>(x[i]);
            }
        } else {
            for (int i = 0; i < SIMD; ++i) {
                PRAGMA_HLS(HLS UNROLL)
                y[i] = fill[WORDS == 1 ? 0 : channel.position][i];
            }
        }
        out.write(y);
        if (channel.advance() && col.advance()) row.advance();
    }
}

}  // namespace headrace
