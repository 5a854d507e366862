"""`acked serve`: a web server over a folder of runs, for the browser of whoever may read that folder.

`shelf` says what is stored, by address, `live` follows a run under way, and `app` answers requests. No
request changes anything, and no path is taken from one: an address is looked up among those of what is
stored. Runs in the process of the command. Imports series and the report.
"""
