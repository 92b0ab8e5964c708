"""One wordcount on the local cluster, its result checked.

`python -m quicksilver_lab.workloads.wordcount` does it through proxy and sidecars, with `--plain` on plain YARN.
"""

from __future__ import annotations

import time
from typing import Final

import click

from quicksilver_lab.workloads import mapreduce
from quicksilver_lab.workloads.environment import Where, finish, one_line_errors, running, where_options
from quicksilver_lab.workloads.mapreduce import JobOptions
from quicksilver_lab.workloads.records import RecordsWatch

_SOURCE: Final = "/wordcount-source/text"


@click.command()
@where_options("wordcount")
@click.option("--maps", type=click.IntRange(1), default=4, show_default=True)
@click.option("--reduces", type=click.IntRange(1), default=1, show_default=True)
@click.option("--lines", type=click.IntRange(1), default=20_000, show_default=True, help="Lines of the input.")
@click.option("--queue", default="default", show_default=True)
@one_line_errors
def main(where: Where, maps: int, reduces: int, lines: int, queue: str) -> None:
    """Run one wordcount; exit code 1 unless its result is right and YARN's records agree."""
    started_s = time.monotonic()
    text = mapreduce.make_text(lines)
    target = f"/wordcount-{time.strftime('%H%M%S')}"
    with running(where) as env, RecordsWatch(env.cluster) as watch:
        mapreduce.put_text(env.cluster, _SOURCE, text)
        options = JobOptions(queue=queue)
        started = mapreduce.start_wordcount(env.cluster, _SOURCE, target, maps=maps, reduces=reduces, options=options)
        env.progress(f"wordcount runs; its output: {started.client.log}")
        job = started.wait()
        wrong = mapreduce.differences(mapreduce.read_counts(env.cluster, target), mapreduce.count_words(text))
        env.progress(f"wordcount: {job.job_id} ended after {job.job_s:.0f} s, {len(wrong)} words wrong")
        records = watch.tally(job.application_id)
        result = {
            "workload": "wordcount",
            "yarn": env.how,
            "route": None if env.stack is None else where.route,
            "job": job.job_id,
            "succeeded": not wrong,
            "maps": job.maps,
            "reduces": job.reduces,
            "failed_attempts": job.failed_attempts,
            "records": records.as_dict(),
            "proxy": env.summary(),
            "job_s": job.job_s,
        }
    finish(result | {"wall_s": round(time.monotonic() - started_s, 1)}, not wrong and not records.disagreeing)


if __name__ == "__main__":
    main()
