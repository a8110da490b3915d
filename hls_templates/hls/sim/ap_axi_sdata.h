// ap_axiu<W, 0, 0, 0> for C simulation: one word of an AXI4-Stream without user, id and dest signals.
#ifndef HEADRACE_SIM_AP_AXI_SDATA_H
#define HEADRACE_SIM_AP_AXI_SDATA_H

#include "ap_int.h"

template <int W, int WUser, int WId, int WDest>
struct ap_axiu {
    static_assert(W % 8 == 0, "tdata is whole bytes");
    static_assert(WUser == 0 && WId == 0 && WDest == 0, "only streams without user, id and dest");

    ap_uint<W> data;
    ap_uint<W / 8> keep;
    ap_uint<W / 8> strb;
    ap_uint<1> last;
};

#endif
