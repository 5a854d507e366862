"""The page of one run: a `ReportModel` as one self-contained HTML file.

`render.page` fills a template, which like those of all results extends `frame.html.j2`.
The pictures are SVG, each made by one module of this folder. Everything that
comes from the run is escaped. Runs in the command. Imports `report.model.model`, the names of the
verdicts (`checkers.verdict`) and jinja2.
"""
