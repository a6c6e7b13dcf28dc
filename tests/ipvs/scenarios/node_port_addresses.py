"""A Service that limits its node port to some addresses of the node."""
from objects import port, service, slice_
from registry import scenario

ALL = {"nodePortAddresses": ["0.0.0.0/0", "::/0"]}
MODES = ("iptables", "nftables", "ipvs", "userspace")


@scenario("nodeport: a Service limits its own to some addresses of the node", config=ALL, modes=MODES)
def limited(t, f):
    p, q = port(80, 8080, node_port=30080), port(80, 8080, node_port=30081)

    def limit(*addresses):
        web = service("web", f, f.cluster(10), [p], type="NodePort")
        if addresses:
            web["metadata"]["annotations"] = {"sluice.dev/node-port-addresses": ", ".join(addresses)}
        t.apply(web)

    t.start()
    t.apply(slice_("web", f, ["p1", "r1"], [p]), slice_("open", f, ["p1"], [q]))
    t.apply(service("open", f, f.cluster(11), [q], type="NodePort"))
    limit(f.node)
    for source in ("client", "p2", "node"):
        t.reaches(source, (f.node, 30080), ["p1", "r1"])
        t.unserved(source, (f.node2, 30080))
    t.reaches("client", (f.node2, 30081), ["p1"])
    t.reaches("p2", (f.cluster(10), 80), ["p1", "r1"])
    limit(f.node2, "not-an-address")
    t.reaches("client", (f.node2, 30080), ["p1", "r1"])
    t.unserved("client", (f.node, 30080))
    limit("not-an-address")
    for address in (f.node, f.node2):
        t.unserved("client", (address, 30080))
    limit()
    for address in (f.node, f.node2):
        t.reaches("client", (address, 30080), ["p1", "r1"])
