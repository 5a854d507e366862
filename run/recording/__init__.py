"""`acked record`: clients and observer against a cluster that somebody else runs, and breaks.

`preflight` finds out what the user may do there, and `plan` is what will be done. `record` does it;
`watching` only reads a topic of others; `stages` is what both have in common. `marks` takes what people say
meanwhile, `seen` notes what the observer sees by itself, `rights` what is taken away, `disk` how much room
there is, and `stored` is what a later command needs to go on, or to clean up.

Runs in the harness's process, outside of any lab. Imports clusters, the observer, clients and the parts of a
run; no nemesis: acked breaks nothing there.
"""
