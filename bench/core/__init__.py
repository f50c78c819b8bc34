"""The parts of the benchmark that measure: peers, loops that take turns, and the report.

- `bench`: what every group of rows is told.
- `callgrind`: what a process costs in instructions, which do not depend on how busy the machine is.
- `clients`: the clients of a server that the table `python` compares, each in a process of its own.
- `fpm`: PHP-FPM for the rows of the PHP client, and requests to it by FastCGI.
- `machine`: what the figures were measured on.
- `mariadb`: MariaDB as a peer, with the table that a forum keeps its threads in.
- `peers`: servers beside us that are started and stopped, and Python environments of their own.
- `plot`: pictures: the classic comparison, and the slowest calls over time.
- `report`: rows of a table, and how they are written down.
- `turns`: loops in processes of their own that take turns.
"""
