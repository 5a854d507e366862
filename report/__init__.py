"""Results for people: verdicts and tables in the terminal. Gets plain data and computes no verdict."""
