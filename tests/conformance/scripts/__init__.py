"""Small trainings that levers are asked to change; `tests.conformance.recorded` knows where their calls are."""
