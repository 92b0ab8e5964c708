"""One run on the emulated cluster: a fresh ResourceManager, nodes, masters, and the proxy where quicksilver takes part.

The ResourceManager is started anew for each run, so that no competitor finds the caches, the compiled code or the ended
applications of another one; what a cold JVM costs falls into the warm-up, which no figure counts.
"""
