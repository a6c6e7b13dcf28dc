/** Who gets into a site, and whom its nodes accept as a leader. */
import assert from "node:assert/strict";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createStore } from "../../../../kpng/store/store.ts";
import { startServing } from "../../../../kpng/server/server.ts";
import type { TlsFiles } from "../../../../kpng/transport/mod.ts";
import { createGrpcSource } from "../../../../sources/grpc/grpc_source.ts";
import { datagramsOn } from "../../../../sources/site/datagrams.ts";
import { kubeletCertificates, type SiteCertificates } from "../../../../sources/site/certificates.ts";
import { openSiteMemory } from "../../../../sources/site/memory.ts";
import { KINDS } from "../../../../core/objects/mod.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { freePort } from "../../../fakes/sockets.ts";
import { applyNodes, applyService, withSite } from "./site.ts";

const memoryOf = (name: string) =>
  openSiteMemory({ file: undefined, site: "north", node: name, now: () => 0, logger: silentLogger });

/** Writes the files of a kubelet, and passes their certificates to `test`. */
async function withKubelets(
  test: (issue: (name: string, organization?: string, foreign?: boolean) => Promise<SiteCertificates>) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const authorities = { own: await createCertificateAuthority("ca"), foreign: await createCertificateAuthority("ca") };
  try {
    Deno.writeTextFileSync(`${folder}/ca.crt`, authorities.own.cert);
    await test(async (name, organization = "system:nodes", foreign = false) => {
      const authority = foreign ? authorities.foreign : authorities.own;
      const { cert, key } = await authority.issueToClient(`system:node:${name}`, organization);
      const crt = `${folder}/${name}-${organization}-${foreign}.pem`;
      Deno.writeTextFileSync(crt, cert + key);
      return kubeletCertificates({ ca: `${folder}/ca.crt`, crt });
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Connects to a leader with these certificates; returns "state" if it sends the cluster's state, or else the error. */
async function connect(port: number, tls: TlsFiles): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const ended = new AbortController();
  const source = createGrpcSource({
    addresses: [{ kind: "tcp", host: "127.0.0.1", port }],
    tls,
    scope: "global",
    nodeName: "x",
    inFull: true,
    onLink: (_stream, _server, event) => resolve(event.type === "failed" ? event.error : "state"),
    clock: systemClock,
    logger: silentLogger,
  });
  const ignore = () => {};
  const sink = { set: ignore, delete: ignore, reset: ignore, synced: ignore, problems: ignore };
  const running = source.run(sink, ended.signal);
  const result = await promise;
  ended.abort();
  await running;
  return result;
}

async function withLeader(certificates: SiteCertificates, test: (port: number, published: string) => Promise<void>) {
  const memory = await memoryOf("leader");
  const store = createStore({ clock: systemClock, onProblems: () => {} });
  for (const kind of KINDS) store.synced(kind);
  const serving = await startServing({
    address: { kind: "tcp", host: "127.0.0.1", port: 0 },
    ...await certificates.server(memory),
    store,
    clock: systemClock,
    logger: silentLogger,
  });
  try {
    assert.equal(serving.address.kind, "tcp");
    await test(serving.address.kind === "tcp" ? serving.address.port : 0, await certificates.published(memory));
  } finally {
    await serving.close();
  }
}

Deno.test("kubelets' certificates let nodes in, and nobody else", async () => {
  await withKubelets(async (issue) => {
    await withLeader(await issue("a"), async (port, certificate) => {
      const leader = { node: "a", address: "", certificate };
      const filesOf = async (...who: Parameters<typeof issue>) => await (await issue(...who)).client(leader);
      assert.equal(await connect(port, await filesOf("b")), "state");
      assert.notEqual(await connect(port, await filesOf("bob", "system:masters")), "state", "another organization");
      assert.notEqual(await connect(port, await filesOf("b", "system:nodes", true)), "state", "another authority");
      const { ca, serverName } = await filesOf("b");
      assert.notEqual(await connect(port, { ca, serverName, crt: undefined, key: undefined }), "state", "none at all");
    });
  });
});

Deno.test("a follower accepts exactly the certificate in the Lease as its leader's", async () => {
  await withKubelets(async (issue) => {
    // An impostor has a kubelet's certificate, too, but the Lease names another one.
    await withLeader(await issue("impostor"), async (port) => {
      const published = await (await issue("a")).published(await memoryOf("a"));
      const files = await (await issue("b")).client({ node: "a", address: "", certificate: published });
      assert.match(await connect(port, files), /certificate|UNABLE_TO_VERIFY|UnknownIssuer|BadSignature/i);
    });
  });
});

Deno.test("nodes with kubelets' certificates form a site, and find their leader after a change", async () => {
  await withKubelets(async (issue) => {
    await withSite(async (site) => {
      applyNodes(site.server, "a", "b");
      applyService(site.server, "web", "10.244.0.1");
      const start = async (name: string) => await site.start(name, { certificates: await issue(name) });
      const nodes = [await start("a"), await start("b")];
      await site.until(() => nodes.every(({ names }) => names().includes("Service default/web")));
      await site.until(() =>
        nodes.some((node) => node.status()?.role === "follower" && node.status()?.from === "leader")
      );
      assert.match(
        site.server.leases.get("sluice-site-north")!.metadata.annotations!["sluice.dev/site-certificate"]!,
        /^-----BEGIN CERTIFICATE-----/,
      );
    });
  });
});

Deno.test("a node without a disk or the API server finds the leader by a broadcast that the kubelet's key signs", async () => {
  await withKubelets(async (issue) => {
    await withSite(async (site) => {
      applyNodes(site.server, "a", "b");
      applyService(site.server, "web", "10.244.0.1");
      // Every socket of this port gets the broadcasts of the loopback interface.
      const datagrams = datagramsOn("127.255.255.255", freePort());
      const start = async (name: string, ...who: Parameters<typeof issue>) =>
        await site.start(name, { certificates: await issue(...who), datagrams });
      const a = await start("a", "a");
      await site.until(() => a.status()?.role === "leader" && a.names().includes("Service default/web"));
      site.server.fault(() => new Response("down", { status: 503 }));
      const b = await start("b", "b");
      const stranger = await start("c", "c", "system:masters");
      await site.until(() => b.status()?.from === "leader" && b.names().includes("Service default/web"));
      assert.equal(b.status()?.leader, "a");
      await site.until(() => a.status()?.isConfirmed === false);
      assert.deepEqual(stranger.names(), []);
    });
  });
});

Deno.test("a node of a site does not mix given certificates and the kubelet's", async () => {
  await withKubelets(async (issue) => {
    const kubelet = await issue("b");
    await assert.rejects(kubelet.client({ node: "a", address: "", certificate: "" }), /the leader a uses given/);
  });
});
