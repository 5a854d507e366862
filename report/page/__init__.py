"""The page of one run: a `ReportModel` as one self-contained HTML file.

`render.page` fills a template; the pictures are SVG made here, one module each. Everything that comes from
the run is escaped. Runs in the command. Imports `report.model.model`, the names of the
verdicts (`checkers.verdict`) and jinja2.
"""
