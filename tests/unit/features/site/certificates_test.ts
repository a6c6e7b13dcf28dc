/** Who gets into a site, and whom its nodes accept as a leader. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createPrivateKey, sign, X509Certificate } from "node:crypto";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { startServing } from "../../../../kpng/server/mod.ts";
import type { TlsFiles } from "../../../../kpng/address/mod.ts";
import { createGrpcSource } from "../../../../sources/grpc/mod.ts";
import { certificatesOf, type SiteCertificates } from "../../../../features/site/certificates.ts";
import { createSiteServer } from "../../../../features/site/serve.ts";
import { openSiteMemory } from "../../../../features/site/memory.ts";
import { KINDS } from "../../../../core/objects/mod.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { reservePort } from "../../../fakes/sockets.ts";
import { applyNodes, applyService, withSite } from "./site.ts";

const newMemory = () => openSiteMemory(undefined, silentLogger);

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
      return certificatesOf({ tlsCAFile: `${folder}/ca.crt`, tlsCertFile: crt, tlsPrivateKeyFile: "" });
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
  const memory = await newMemory();
  const store = createStore({ clock: systemClock, onProblems: () => {} });
  for (const kind of KINDS) store.synced(kind);
  const serving = await startServing({
    address: { kind: "tcp", host: "127.0.0.1", port: 0 },
    ...await certificates.server(memory, ["b"]),
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

Deno.test("kubelets' certificates let the members of the site in, and nobody else", async () => {
  await withKubelets(async (issue) => {
    await withLeader(await issue("a"), async (port, certificate) => {
      const leader = { node: "a", address: "", certificate, proof: "" };
      const filesOf = async (...who: Parameters<typeof issue>) => await (await issue(...who)).client(leader);
      assert.equal(await connect(port, await filesOf("b")), "state");
      assert.notEqual(await connect(port, await filesOf("b", "system:masters")), "state", "another organization");
      assert.notEqual(await connect(port, await filesOf("b", "system:nodes", true)), "state", "another authority");
      assert.notEqual(await connect(port, await filesOf("c")), "state", "no member of the site");
      const { ca, serverName } = await filesOf("b");
      assert.notEqual(await connect(port, { ca, serverName, crt: undefined, key: undefined }), "state", "none at all");
    });
  });
});

Deno.test("a follower accepts exactly the certificate in the Lease as its leader's", async () => {
  await withKubelets(async (issue) => {
    // An impostor has a kubelet's certificate, too, but the Lease names another one.
    await withLeader(await issue("impostor"), async (port) => {
      const published = await (await issue("a")).published(await newMemory());
      const files = await (await issue("b")).client({ node: "a", address: "", certificate: published, proof: "" });
      assert.match(await connect(port, files), /certificate|UNABLE_TO_VERIFY|UnknownIssuer|BadSignature/i);
    });
  });
});

Deno.test("a Lease counts only as the member has signed it that it names", async () => {
  await withKubelets(async (issue) => {
    const claim = { site: "north", node: "a", address: "10.0.0.1:12091", certificate: "pem" };
    const [own, reader] = [await issue("a"), await issue("b")];
    const proof = await own.prove(claim);
    assert.equal(await reader.isProven(claim, proof), true);
    for (const other of [{ site: "south" }, { node: "b" }, { address: "10.0.0.9:12091" }, { certificate: "other" }]) {
      assert.equal(await reader.isProven({ ...claim, ...other }, proof), false, JSON.stringify(other));
    }
    const ofB = await reader.prove({ ...claim, node: "b" });
    const foreign = await (await issue("a", "system:nodes", true)).prove(claim);
    const [certificate] = proof.split(".");
    const [, signature] = ofB.split(".");
    for (const forged of ["", "a.b", ofB, foreign, `${certificate}.`, `${certificate}.${signature}`]) {
      assert.equal(await reader.isProven(claim, forged), false, forged.slice(-20));
    }
    await assert.rejects(reader.prove(claim), /common name system:node:b, not that of node a/);
    await assert.rejects((await issue("a", "system:masters")).prove(claim), /not that of node a/);
  });
});

Deno.test("given certificates prove and let in the nodes that they name, plainly or as the kubelet's", async () => {
  const authority = await createCertificateAuthority("site");
  const folder = await Deno.makeTempDir();
  try {
    const given = async (commonName: string) => {
      const { cert, key } = await authority.issue(commonName);
      const [ca, crt, keyFile] = ["ca", `${commonName}.crt`, `${commonName}.key`].map((name) => `${folder}/${name}`);
      Deno.writeTextFileSync(ca!, authority.cert);
      Deno.writeTextFileSync(crt!, cert);
      Deno.writeTextFileSync(keyFile!, key);
      return certificatesOf({ tlsCAFile: ca!, tlsCertFile: crt!, tlsPrivateKeyFile: keyFile! });
    };
    const claim = { site: "north", node: "a", address: "127.0.0.1:12091", certificate: "" };
    for (const name of ["a", "system:node:a"]) {
      const certificates = await given(name);
      assert.equal(await certificates.isProven(claim, await certificates.prove(claim)), true);
    }
    await assert.rejects((await given("z")).prove(claim), /common name z, not that of node a/);
    // The key of another node of the site, which signs that it is a.
    const other = await authority.issue("z");
    const text = `sluice site leader v1\n${JSON.stringify(["north", "a", claim.address, ""])}`;
    const forged = [
      new X509Certificate(other.cert).raw.toString("base64"),
      sign("sha256", Buffer.from(text), createPrivateKey(other.key)).toString("base64"),
    ].join(".");
    assert.equal(await (await given("a")).isProven(claim, forged), false);
    const ofZ = forged.replace(/^[^.]+/, new X509Certificate((await authority.issue("a")).cert).raw.toString("base64"));
    assert.equal(await (await given("a")).isProven(claim, ofZ), false, "the certificate of a, and the signature of z");
    await withLeader(await given("a"), async (port) => {
      const leader = { node: "a", address: "", certificate: "", proof: "" };
      for (const [name, isLetIn] of [["b", true], ["system:node:b", true], ["c", false]] as const) {
        const result = await connect(port, await (await given(name)).client(leader));
        assert.equal(result === "state", isLetIn, `${name}: ${result}`);
      }
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a leader whose site has other members closes its connections, and lets in the new ones", async () => {
  await withKubelets(async (issue) => {
    const [leader, b, c] = [await issue("a"), await issue("b"), await issue("c")];
    const memory = await newMemory();
    const port = reservePort();
    const store = createStore({ clock: systemClock, onProblems: () => {} });
    for (const kind of KINDS) store.synced(kind);
    const ready: (() => void)[] = [];
    const server = createSiteServer({
      listen: { kind: "tcp", host: "127.0.0.1", port },
      readTls: (members) => leader.server(memory, members),
      members: ["b"],
      store,
      onProblems: () => ready.shift()?.(),
      clock: systemClock,
      logger: silentLogger,
    });
    const listens = () => new Promise<void>((resolve) => ready.push(resolve));
    const ended = new AbortController();
    const first = listens();
    const running = server.run(ended.signal);
    server.enter({ kind: "leader", isConfirmed: true });
    await first;
    const claim = { node: "a", address: "", certificate: await leader.published(memory), proof: "" };
    assert.equal(await connect(port, await b.client(claim)), "state");
    const second = listens();
    server.admit(["c"]);
    await second;
    assert.equal(await connect(port, await c.client(claim)), "state");
    assert.notEqual(await connect(port, await b.client(claim)), "state");
    ended.abort();
    await running;
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

Deno.test("a node of a site does not mix given certificates and the kubelet's", async () => {
  await withKubelets(async (issue) => {
    const kubelet = await issue("b");
    await assert.rejects(
      kubelet.client({ node: "a", address: "", certificate: "", proof: "" }),
      /the leader a uses given/,
    );
  });
});
