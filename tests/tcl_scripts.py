"""Tcl scripts for a vendor's tool, run by an interpreter that records what they call."""

from __future__ import annotations

from pathlib import Path

import pytest

RECORD = """
set calls {}
proc unknown {name args} { lappend ::calls [concat $name $args]; return "$name [lindex $args 0]" }
proc create_project {args} { lappend ::calls [concat create_project $args] }
rename file tcl_file
proc file {what args} {
  if {$what eq "copy"} { lappend ::calls [concat file copy $args] } else { tcl_file $what {*}$args }
}
proc glob {args} { return [lindex $args 0] }
"""


def calls_of(script: Path) -> list[str]:
    tkinter = pytest.importorskip("tkinter", reason="no Tcl interpreter in this Python")
    tcl = tkinter.Tcl()
    tcl.eval(RECORD)
    tcl.eval(f"info script {{{script}}}")
    tcl.eval(script.read_text())
    return list(tcl.splitlist(tcl.eval("set calls")))
