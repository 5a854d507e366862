"""The catalogue: one module per case, each with a `SCENARIO` (or a tuple `SCENARIOS`)."""
