// The master of a design's control interface.
#pragma once

#include <cstdint>
#include <vector>

#include "driver.h"
#include "stall.h"

namespace headrace {

// One access of the control interface; phase 0 is before the frames, 1 beside them, 2 after them.
struct Access {
    uint64_t phase, writes, address, data, strobe;
};

struct Answer {
    uint64_t data, response, cycle;
};

// Works through a list of accesses of an AXI4-Lite slave, one at a time.
class Master {
public:
    explicit Master(const AxiLite& pins) : pins_(pins) {}

    std::vector<Access> accesses;
    std::vector<Stall> stalls;  // of the channels aw, w, b, ar, r
    std::vector<Answer> answers;
    uint64_t stray = 0;

    bool there() const { return pins_.awaddr.data != nullptr; }
    bool finished() const { return answers.size() == accesses.size(); }
    bool prepared() const { return finished() || accesses[answers.size()].phase > 0; }

    void reset() const {
        for (const Signal* signal :
             {&pins_.awvalid, &pins_.wvalid, &pins_.arvalid, &pins_.bready, &pins_.rready, &pins_.awaddr,
              &pins_.wdata, &pins_.wstrb, &pins_.araddr})
            signal->set(0);
    }

    void drive(uint64_t cycle, bool frames_done) {
        const Access* access = finished() ? nullptr : &accesses[answers.size()];
        if (access && access->phase == 2 && !frames_done) access = nullptr;
        aw_.drive(access && access->writes, stalls[0](cycle), pins_.awvalid);
        w_.drive(access && access->writes, stalls[1](cycle), pins_.wvalid);
        ar_.drive(access && !access->writes, stalls[3](cycle), pins_.arvalid);
        pins_.bready.set(!stalls[2](cycle));
        pins_.rready.set(!stalls[4](cycle));
        if (!access) return;
        pins_.awaddr.set(access->address);
        pins_.araddr.set(access->address);
        pins_.wdata.set(access->data);
        pins_.wstrb.set(access->strobe);
    }

    bool sample(uint64_t cycle) {
        bool moved = aw_.sample(pins_.awready);
        moved |= w_.sample(pins_.wready);
        moved |= ar_.sample(pins_.arready);
        if (pins_.bvalid.get() && pins_.bready.get()) {
            moved = true;
            answer(aw_.done && w_.done, {0, pins_.bresp.get(), cycle});
        }
        if (pins_.rvalid.get() && pins_.rready.get()) {
            moved = true;
            answer(ar_.done, {pins_.rdata.get(), pins_.rresp.get(), cycle});
        }
        return moved;
    }

private:
    // A channel on which the master offers something.
    struct Offer {
        bool valid = false, held = false, done = false;
        void drive(bool wanted, bool stalled, const Signal& pin) {
            valid = wanted && !done && (held || !stalled);
            pin.set(valid);
        }
        bool sample(const Signal& ready) {
            const bool taken = valid && ready.get();
            held = valid && !taken;
            done |= taken;
            return taken;
        }
    };

    void answer(bool expected, const Answer& what) {
        if (!expected) {
            ++stray;
            return;
        }
        answers.push_back(what);
        aw_.done = w_.done = ar_.done = false;
    }

    AxiLite pins_;
    Offer aw_, w_, ar_;
};

}  // namespace headrace
