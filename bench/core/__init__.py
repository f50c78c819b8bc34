"""The parts of the benchmark that measure and report: peers, timed loops, tables and plots.

- `bench`: the settings of a run, which every group of rows receives.
- `callgrind`: counts instructions, which do not depend on the machine's load.
- `clients`: runs the clients that the table `python` compares, each in its own process.
- `fpm`: runs PHP-FPM for the rows of the PHP client and sends FastCGI requests to it.
- `machine`: describes the machine and the versions of all programs.
- `mariadb`: runs a private MariaDB server with tables of a forum's threads.
- `peers`: starts and stops the peers' servers, and creates Python environments for peers.
- `plot`: draws the classic comparison and the slowest calls over time.
- `report`: the rows of a table, and their output as JSON and Markdown.
- `turns`: runs timed loops in separate processes that alternate.
"""
