import assert from "node:assert/strict";
import type { FakeApiServer } from "../../../fakes/api_server.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { service, withSource } from "./source_under_test.ts";

const authority = await createCertificateAuthority("authority");
const other = await createCertificateAuthority("another authority");

/** A connection from a kubeconfig with these fields inline. */
function connectionWith(
  fields: { ca: string; cert?: string; key?: string; serverName?: string },
  folder: string,
) {
  const path = `${folder}/config`;
  const user = fields.cert && fields.key
    ? { "client-certificate-data": btoa(fields.cert), "client-key-data": btoa(fields.key) }
    : { token: "t" };
  return ({ url }: FakeApiServer) => {
    const config = {
      "current-context": "x",
      contexts: [{ name: "x", context: { cluster: "x", user: "x" } }],
      clusters: [{
        name: "x",
        cluster: {
          server: url,
          "certificate-authority-data": btoa(fields.ca),
          "tls-server-name": fields.serverName,
        },
      }],
      users: [{ name: "x", user }],
    };
    Deno.writeTextFileSync(path, JSON.stringify(config));
    return { kubeconfig: path };
  };
}

async function inFolder(test: (folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir({ prefix: "sluice-tls-" });
  await test(folder).finally(() => Deno.remove(folder, { recursive: true }));
}

/** The source receives a Service from a list, and its change from a watch. */
async function receivesChanges(receives: (change: string) => Promise<void>, server: FakeApiServer) {
  await receives("set Service default/web 2");
  await server.watches(3);
  server.apply(service("web"));
  await receives("set Service default/web 3");
}

Deno.test("HTTPS with the cluster's CA and a client certificate", async () => {
  const tls = await authority.issue("server");
  const client = await authority.issue("system:kube-proxy");
  await inFolder((folder) =>
    withSource((server) => server.apply(service("web")), async ({ receives, server }) => {
      await receivesChanges(receives, server);
    }, { server: { tls }, connection: connectionWith({ ca: authority.cert, ...client }, folder) })
  );
});

Deno.test("a certificate of another CA is not trusted, and the warning names the check", async () => {
  const tls = await other.issue("server");
  await inFolder((folder) =>
    withSource(() => {}, async ({ logs, logged, server }) => {
      await logs("is not trusted");
      assert.match(logged[0]!, /the certificate of https:\S+ is not trusted \(.*UnknownIssuer.*certificate-authority/);
      assert.equal(server.requests.length, 0);
    }, { server: { tls }, connection: connectionWith({ ca: authority.cert }, folder) })
  );
});

Deno.test("a client key of another certificate causes a warning, and no request is sent", async () => {
  const tls = await authority.issue("server");
  const { cert } = await authority.issue("system:kube-proxy");
  const { key } = await authority.issue("system:kube-proxy");
  await inFolder((folder) =>
    withSource(() => {}, async ({ logs, server }) => {
      await logs("the client key does not belong to the client certificate");
      assert.equal(server.requests.length, 0);
    }, { server: { tls }, connection: connectionWith({ ca: authority.cert, cert, key }, folder) })
  );
});

Deno.test("certificate and key may be in one file, as kubelet writes it", async () => {
  const tls = await authority.issue("server");
  const { cert, key } = await authority.issue("system:node:n1");
  await inFolder((folder) =>
    withSource(() => {}, async ({ receives, logged }) => {
      await receives("synced Service");
      assert.deepEqual(logged, []);
    }, {
      server: { tls },
      connection: connectionWith({ ca: authority.cert, cert: cert + key, key: cert + key }, folder),
    })
  );
});

Deno.test("a server whose certificate has another name than its URL is verified by tls-server-name", async () => {
  const tls = await authority.issue("server", 3, "kubernetes.default.svc");
  const client = await authority.issue("system:kube-proxy");
  await inFolder((folder) =>
    withSource((server) => server.apply(service("web")), async ({ receives, server }) => {
      await receivesChanges(receives, server);
      server.dropWatches();
      await server.watches(3);
      server.apply(service("web"));
      await receives("set Service default/web 4");
    }, {
      server: { tls },
      connection: connectionWith({ ca: authority.cert, ...client, serverName: "kubernetes.default.svc" }, folder),
    })
  );
});

Deno.test("lists of a server with tls-server-name are compressed", async () => {
  const tls = await authority.issue("server", 3, "kubernetes.default.svc");
  await inFolder((folder) =>
    withSource((server) => server.apply(service("web")), async ({ receives, server }) => {
      await receivesChanges(receives, server);
      const lists = server.requests.filter(({ verb }) => verb === "list");
      assert.ok(lists.length > 0 && lists.every(({ headers }) => headers.get("accept-encoding") === "gzip"));
    }, {
      server: { tls, compressFrom: 0 },
      connection: connectionWith({ ca: authority.cert, serverName: "kubernetes.default.svc" }, folder),
    })
  );
});

Deno.test("a certificate with neither the URL's name nor tls-server-name is not trusted", async () => {
  const tls = await authority.issue("server");
  for (const [ca, problem] of [[authority.cert, "other.example"], [other.cert, "certificate"]] as const) {
    await inFolder((folder) =>
      withSource(() => {}, async ({ logs, logged, server }) => {
        await logs("is not trusted");
        assert.match(logged[0]!, new RegExp(`the certificate of https:\\S+ is not trusted \\(.*${problem}`));
        assert.equal(server.requests.length, 0);
      }, { server: { tls }, connection: connectionWith({ ca, serverName: "other.example" }, folder) })
    );
  }
});
