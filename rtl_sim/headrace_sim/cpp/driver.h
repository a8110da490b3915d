// The border between the generic driver (compiled once) and one verilated model (the generated glue).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "verilated.h"

namespace headrace {

// The signals of one stream. Verilator stores a signal of any width as a little-endian integer, so the
// first `bytes` bytes at `tdata` are the word. `tlast` is null on an internal stream.
struct Pins {
    uint8_t* tdata;
    uint8_t* tvalid;
    uint8_t* tready;
    uint8_t* tlast;
    uint32_t bytes;
};

// A signal of up to 64 bits, stored as above.
struct Signal {
    uint8_t* data = nullptr;
    uint32_t bytes = 0;

    void set(uint64_t value) const { std::memcpy(data, &value, bytes); }
    uint64_t get() const {
        uint64_t value = 0;
        std::memcpy(&value, data, bytes);
        return value;
    }
};

// The signals of an AXI4-Lite slave; none is there when `awaddr` is not.
struct AxiLite {
    Signal awaddr, awvalid, awready, wdata, wstrb, wvalid, wready, bresp, bvalid, bready;
    Signal araddr, arvalid, arready, rdata, rresp, rvalid, rready;
};

class Model {
public:
    virtual ~Model() = default;
    virtual void eval() = 0;
    virtual void finish() = 0;
    virtual void open_wave(const char* path) = 0;
    virtual void dump_wave(uint64_t time) = 0;

    uint8_t* clock = nullptr;
    uint8_t* reset = nullptr;
    std::vector<Pins> inputs, outputs, streams;
    AxiLite control;
};

std::unique_ptr<Model> make_model(VerilatedContext* context);

}  // namespace headrace
