"""The live view: a map of a run that one can watch, go back through, and disturb.

    run ──reports──► `observer` ──frames──► `chronicle` ──frames──► browsers (`page`, TypeScript, built into the package)
                     bounded, <= 10/s       the whole run,          `routes`: page, WebSocket, moments of the past
                                            coarser with age

Frames (`frames`) are bytes, so the run may be in another process. `controls` is what somebody who watches may do to it, and
`beside` serves all of it beside a run of this process.
"""
