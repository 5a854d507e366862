"""Clients that run in separate programs beside the agent and speak the client protocol with it.

Runs in a client host, in the agent's process. The agent numbers and records every message before it hands it
to the program, paces streams, and records what the program reports. The program only has to be a client.
Imports what the rest of the agent may import.
"""
