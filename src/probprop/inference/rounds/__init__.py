"""One training shared by shards of the rows: threads, processes or machines, in rounds.

In a round every shard absorbs its next few rows from the same q, then the q of all shards are
combined into one, the beginning of the next round. Nothing here knows who does the work: a
function that maps is given, and a plain loop, threads and Dask give the same bits.
"""
