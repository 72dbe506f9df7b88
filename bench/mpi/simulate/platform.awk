# awk -v ranks=N -v node=N -v latency=S -v bandwidth=B -v node_latency=S -v node_bandwidth=B -f platform.awk /dev/null
# A cluster for SimGrid: nodes of some ranks, each with a link of its own in both directions within the node, and one link in both
# directions that all ranks of a node share to other nodes. A message takes two links within a node, four between nodes.
BEGIN {
    nodes = int((ranks + node - 1) / node)
    print "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    print "<platform version=\"4.1\">\n<zone id=\"all\" routing=\"Full\">"
    for (n = 0; n < nodes; n++) {
        last = (n + 1) * node < ranks ? (n + 1) * node - 1 : ranks - 1
        printf "<cluster id=\"node%d\" prefix=\"rank\" suffix=\"\" radical=\"%d-%d\" speed=\"1Gf\" bw=\"%.0fBps\" lat=\"%.9fs\" router_id=\"router%d\"/>\n", n, n * node, last, node_bandwidth, node_latency / 2, n
    }
    if (nodes > 1)
        for (n = 0; n < nodes; n++)
            printf "<link id=\"nic%d\" bandwidth=\"%.0fBps\" latency=\"%.9fs\" sharing_policy=\"SPLITDUPLEX\"/>\n", n, bandwidth, (latency - node_latency) / 2
    for (n = 0; n < nodes; n++)
        for (m = 0; m < nodes; m++)
            if (n != m)
                printf "<zoneRoute src=\"node%d\" dst=\"node%d\" gw_src=\"router%d\" gw_dst=\"router%d\" symmetrical=\"NO\"><link_ctn id=\"nic%d\" direction=\"UP\"/><link_ctn id=\"nic%d\" direction=\"DOWN\"/></zoneRoute>\n", n, m, n, m, n, m
    print "</zone>\n</platform>"
}
