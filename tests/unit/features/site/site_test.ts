import assert from "node:assert/strict";
import {
  applyNodes,
  applyService,
  createDisk,
  sameFiles,
  type SiteNode,
  type SiteUnderTest,
  withSite,
} from "./site.ts";

const LEASE = "sluice-site-north";

const leaderOf = (nodes: readonly SiteNode[]) => nodes.find((node) => node.status()?.role === "leader");
const has = (name: string) => (node: SiteNode) =>
  node.tracking.ready() && node.names().includes(`Service default/${name}`);
/** The watches and lists that the API server has received so far. */
const requests = ({ server }: SiteUnderTest) =>
  server.requests.filter(({ verb }) => verb === "list" || verb === "watch").length;

Deno.test("one node of a site watches the API server, and the others receive its state", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b", "c");
    applyService(site.server, "web", "10.244.0.1");
    const nodes = await Promise.all(["a", "b", "c"].map((name) => site.start(name)));
    await site.until(() => nodes.every(has("web")));
    assert.equal(nodes.filter((node) => node.status()?.role === "leader").length, 1);
    assert.deepEqual(nodes.map(({ name, names }) => names().filter((one) => one === `Node ${name}`).length), [1, 1, 1]);

    const before = requests(site);
    applyService(site.server, "shop", "10.244.0.2");
    await site.until(() => nodes.every(has("shop")));
    assert.equal(requests(site), before, "no node asks the API server for a change");
    const lists = site.server.requests.filter(({ verb, path }) => verb === "list" && path === "/api/v1/services");
    assert.equal(lists.length, 1, "one node has listed the services");
  });
});

Deno.test("a follower takes over a leader that was killed, without losing its state, and serves the others", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b", "c");
    applyService(site.server, "web", "10.244.0.1");
    const nodes = await Promise.all(["a", "b", "c"].map((name) => site.start(name)));
    await site.until(() => nodes.every(has("web")));
    const leader = leaderOf(nodes)!;
    const others = nodes.filter((node) => node !== leader);
    const lost: string[] = [];
    for (const { name, tracking } of others) {
      const original = tracking.services.delete;
      tracking.services.delete = (key) => (lost.push(`${name} ${key}`), original(key));
    }
    await leader.kill();
    await site.until(() => leaderOf(others) !== undefined);
    applyService(site.server, "shop", "10.244.0.2");
    await site.until(() => others.every(has("shop")));
    assert.deepEqual(lost, [], "no service was removed on the way");
    await site.until(() =>
      others.some((node) => node.status()?.role === "follower" && node.status()?.from === "leader")
    );
    assert.equal(site.server.leases.get(LEASE)?.spec.leaseTransitions, 1);
  });
});

Deno.test("a leader whose own source fails ends, and another node takes over", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b");
    const failing = Promise.withResolvers<void>();
    const a = await site.start("a", { watchApi: () => ({ run: () => failing.promise }) });
    await site.until(() => a.status()?.role === "leader");
    const b = await site.start("b");
    failing.reject(new Error("the API is not Kubernetes'"));
    await assert.rejects(a.ended, /not Kubernetes'/);
    await site.until(() => b.status()?.role === "leader");
  });
});

Deno.test("a deletion during the change of leaders reaches every node", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b");
    applyService(site.server, "web", "10.244.0.1");
    applyService(site.server, "old", "10.244.0.9");
    const nodes = await Promise.all(["a", "b"].map((name) => site.start(name)));
    await site.until(() => nodes.every(has("old")));
    const leader = leaderOf(nodes)!;
    const [other] = nodes.filter((node) => node !== leader) as [SiteNode];
    await leader.kill();
    const named = (kind: "Service" | "EndpointSlice", name: string) =>
      ({ kind, metadata: { namespace: "default", name } }) as const;
    site.server.remove(named("Service", "old"), named("EndpointSlice", "old-1"));
    await site.until(() => !has("old")(other));
    assert.ok(has("web")(other));
  });
});

Deno.test("without the API server the leader stays, and serves nodes that restart", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b");
    applyService(site.server, "web", "10.244.0.1");
    const disks = { a: createDisk(), b: createDisk() };
    const a = await site.start("a", { disk: disks.a });
    await site.until(() => a.status()?.role === "leader" && has("web")(a));
    let b = await site.start("b", { disk: disks.b });
    await site.until(() => has("web")(b));
    site.server.fault(() => new Response("down", { status: 503 }));
    site.server.dropWatches("broken");
    await b.kill();
    // A node without a kept state has everything from its leader.
    b = await site.start("b", { disk: { ...createDisk(), site: disks.b.site } });
    await site.until(() => has("web")(b));
    assert.deepEqual([b.status()?.leader, b.status()?.from, b.status()?.isConfirmed], ["a", "leader", false]);
    await site.until(() => a.status()?.isConfirmed === false);
    assert.equal(a.status()?.role, "leader");
    await site.until(() => b.status()?.from === "leader" && has("web")(b));
  });
});

Deno.test("a leader that restarts without the API server serves its kept state again, to the members", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b");
    applyService(site.server, "web", "10.244.0.1");
    const disks = { a: createDisk(), b: createDisk() };
    let a = await site.start("a", { disk: disks.a });
    await site.until(() => a.status()?.role === "leader" && has("web")(a));
    let b = await site.start("b", { disk: disks.b });
    await site.until(() => b.status()?.from === "leader");
    await Promise.all([a.kill(), b.kill()]);
    site.server.fault(() => new Response("down", { status: 503 }));
    a = await site.start("a", { disk: disks.a, port: a.port });
    await site.until(() => has("web")(a));
    assert.deepEqual([a.status()?.role, a.status()?.isConfirmed], ["leader", false]);
    // It remembers whom to let in.
    b = await site.start("b", { disk: { ...createDisk(), site: disks.b.site } });
    await site.until(() => b.status()?.from === "leader" && has("web")(b));
  });
});

Deno.test("a former leader that finds another holder follows it", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b");
    applyService(site.server, "web", "10.244.0.1");
    const disk = createDisk();
    let a = await site.start("a", { disk });
    await site.until(() => a.status()?.role === "leader");
    await a.kill();
    const b = await site.start("b");
    await site.until(() => b.status()?.role === "leader");
    a = await site.start("a", { disk });
    await site.until(() => a.status()?.role === "follower" && a.status()?.from === "leader");
    assert.equal(a.status()?.leader, "b");
    assert.ok(has("web")(a));
  });
});

Deno.test("a node that cannot reach the leader watches the API server, and returns to the leader", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a", "b");
    applyService(site.server, "web", "10.244.0.1");
    const a = await site.start("a");
    await site.until(() => a.status()?.role === "leader");
    const files = await site.files("b");
    let isRefused = true;
    const certificates = {
      ...sameFiles(files),
      client: () => isRefused ? Promise.reject(new Error("no certificate")) : Promise.resolve(files),
    };
    const b = await site.start("b", { certificates });
    await site.until(() => b.status()?.from === "api" && has("web")(b));
    assert.equal(b.status()?.role, "follower");
    isRefused = false;
    await site.until(() => b.status()?.from === "leader");
    applyService(site.server, "shop", "10.244.0.2");
    await site.until(() => has("shop")(b));
  });
});

Deno.test("a node that may not use the Lease watches the API server, and says why", async () => {
  await withSite(async (site) => {
    applyNodes(site.server, "a");
    applyService(site.server, "web", "10.244.0.1");
    const refuse = () => Response.json({ kind: "Status", code: 403, reason: "Forbidden" }, { status: 403 });
    site.server.fault(({ path }) => path.includes("/sluice-sites/") ? refuse() : undefined);
    const a = await site.start("a");
    await site.until(() => has("web")(a));
    assert.equal(a.status()?.role, "alone");
    assert.ok(a.problems().includes("site-lease-refused"));
    site.server.fault(undefined);
    await site.until(() => a.status()?.role === "leader");
    assert.ok(!a.problems().includes("site-lease-refused"));
  });
});

Deno.test("who holds a node's token, and the key of a node that is no member, makes no node follow a rogue leader", async () => {
  await withSite(async (site) => {
    site.server.leases.install("north", ["a", "b"]);
    applyNodes(site.server, "a", "b");
    applyService(site.server, "web", "10.244.0.1");
    const a = await site.start("a");
    await site.until(() => a.status()?.role === "leader" && has("web")(a));
    await a.kill();
    const rogue = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    let connections = 0;
    const accepted = (async () => {
      for await (const connection of rogue) {
        connections++;
        connection.close();
      }
    })();
    const address = `127.0.0.1:${rogue.addr.port}`;
    const files = await site.files("c");
    const { prove } = sameFiles(files);
    // A holder of the token cannot change the members. It claims to be a, which has signed another address; or to lead itself.
    const forgeries = [
      { node: "a", proof: site.server.leases.get(LEASE)!.metadata.annotations!["sluice.dev/site-proof"]! },
      { node: "c", proof: await prove({ site: "north", node: "c", address, certificate: "" }) },
    ];
    for (const { node, proof } of forgeries) {
      const names = { "sluice.dev/site-address": address, "sluice.dev/site-proof": proof };
      const spec = { holderIdentity: node, leaseDurationSeconds: 1e12, acquireTime: "t", renewTime: "t" };
      site.server.leases.overwrite(LEASE, { metadata: { annotations: names }, spec });
      const b = await site.start("b");
      await site.until(() => b.status()?.role === "alone" && has("web")(b));
      assert.deepEqual(b.problems(), ["site-leader-refused"]);
      // The claimed duration would be 30,000 years.
      await site.until(() => b.status()?.role === "leader");
      assert.deepEqual(b.problems(), []);
      await b.kill();
    }
    assert.equal(connections, 0);
    rogue.close();
    await accepted;
  });
});

Deno.test("a node that is no member is not served, and watches the API server", async () => {
  await withSite(async (site) => {
    site.server.leases.install("north", ["a"]);
    applyNodes(site.server, "a", "b");
    applyService(site.server, "web", "10.244.0.1");
    const a = await site.start("a");
    await site.until(() => a.status()?.role === "leader");
    const b = await site.start("b");
    await site.until(() => has("web")(b));
    assert.deepEqual([b.status()?.role, b.status()?.from], ["alone", "api"]);
    assert.deepEqual(b.problems(), ["site-not-member"]);
  });
});
