import assert from "node:assert/strict";
import { join } from "node:path";
import { type ConnectionOptions, loadCredentials } from "../../../../sources/kubernetes/credentials.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { statusResponse } from "../../../fakes/api_server.ts";
import { reservePort } from "../../../fakes/sockets.ts";
import { withSource } from "./source_under_test.ts";

const never = new AbortController().signal;
const load = (options: ConnectionOptions) => loadCredentials(options, silentLogger);

async function inFolder(test: (folder: string, write: (name: string, text: string) => string) => unknown) {
  const folder = await Deno.makeTempDir({ prefix: "sluice-credentials-" });
  try {
    await test(folder, (name, text) => {
      Deno.writeTextFileSync(join(folder, name), text);
      return join(folder, name);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A kubeconfig with one context; `user` and `cluster` are lines of YAML flow content. */
function kubeconfig(cluster: string, user: string): string {
  return `apiVersion: v1
kind: Config
current-context: here
contexts:
- name: elsewhere
  context: {cluster: other, user: other}
- name: here
  context: {cluster: c, user: u}
clusters:
- {name: other, cluster: {server: "https://other"}}
- {name: c, cluster: {server: "https://api.example:6443/", ${cluster}}}
users:
- {name: u, user: {${user}}}
`;
}

Deno.test("a kubeconfig's current context counts, data before files, and files are relative to its folder", async () => {
  await inFolder(async (_folder, write) => {
    write("ca.pem", "AUTHORITY");
    write("client.pem", "CERTIFICATE");
    const path = write(
      "config",
      kubeconfig(
        "certificate-authority: ca.pem, proxy-url: 'http://proxy:3128'",
        `client-certificate: client.pem, client-key: nowhere.pem, client-key-data: ${btoa("KEY")}, token: t0k`,
      ),
    );
    const credentials = await load({ kubeconfig: path });
    assert.equal(credentials.server, "https://api.example:6443");
    assert.deepEqual(await credentials.current(never), {
      caCerts: "AUTHORITY",
      certificate: "CERTIFICATE",
      key: "KEY",
      serverName: undefined,
      proxyUrl: "http://proxy:3128",
      headers: [["authorization", "Bearer t0k"]],
    });
    assert.equal((await load({ kubeconfig: path, master: "10.0.0.1:8080" })).server, "http://10.0.0.1:8080");
  });
});

Deno.test("a kubeconfig may be JSON", async () => {
  await inFolder(async (_folder, write) => {
    const path = write(
      "config.json",
      JSON.stringify({
        "current-context": "x",
        contexts: [{ name: "x", context: { cluster: "x", user: "x" } }],
        clusters: [{ name: "x", cluster: { server: "https://[fd00::1]:6443" } }],
        users: [{ name: "x", user: { username: "ann", password: "pä:ss", as: "bob", "as-groups": ["a", "b"] } }],
      }),
    );
    const credentials = await load({ kubeconfig: path });
    assert.equal(credentials.server, "https://[fd00::1]:6443");
    assert.deepEqual((await credentials.current(never)).headers, [
      ["authorization", "Basic YW5uOnDDpDpzcw=="],
      ["impersonate-user", "bob"],
      ["impersonate-group", "a"],
      ["impersonate-group", "b"],
    ]);
  });
});

Deno.test("a replaced token file is used immediately; while it is missing, the last token is used", async () => {
  await inFolder(async (folder, write) => {
    const token = write("token", "one\n");
    Deno.utimeSync(token, 1000, 1000);
    const credentials = await load({ kubeconfig: write("config", kubeconfig("", "token: old, tokenFile: token")) });
    const authorization = async () => (await credentials.current(never)).headers[0]![1];
    assert.equal(await authorization(), "Bearer one");
    write("token", "two\n");
    assert.equal(await authorization(), "Bearer two");
    Deno.removeSync(join(folder, "token"));
    assert.equal(await authorization(), "Bearer two");
    write("token", "");
    assert.equal(await authorization(), "Bearer two");
  });
});

Deno.test("a token that no header may have is an error that does not quote it", async () => {
  await inFolder(async (_folder, write) => {
    const source = await load({ kubeconfig: write("config", kubeconfig("", 'token: "first\\r\\nsecond"')) });
    await assert.rejects(source.current(never), (error: Error) => {
      assert.match(
        error.message,
        /^cannot read the credentials for .*the token .* has characters that HTTP headers may not/,
      );
      assert.doesNotMatch(error.message, /first|second/);
      return true;
    });
  });
});

Deno.test("a missing certificate file is named without words of the runtime", async () => {
  await inFolder(async (folder, write) => {
    const source = await load({ kubeconfig: write("config", kubeconfig("certificate-authority: gone.crt", "")) });
    await assert.rejects(source.current(never), (error: Error) => {
      const reason = `No such file or directory: '${join(folder, "gone.crt")}'`;
      assert.equal(error.message, `cannot read the credentials for ${source.server}: ${reason}`);
      return true;
    });
  });
});

Deno.test("errors in a kubeconfig name the problem and the file", async () => {
  await inFolder(async (_folder, write) => {
    const refuses = async (text: string, expected: RegExp) => {
      const path = write("config", text);
      await assert.rejects(() => load({ kubeconfig: path }), (error: Error) => {
        assert.match(error.message, expected);
        assert.ok(error.message.includes(path), error.message);
        return true;
      });
    };
    await refuses("a: [\nb: {", /config:\d+: /);
    await refuses("just words", /not a kubeconfig/);
    await refuses("current-context: gone\ncontexts: [{name: a}, {name: b}]", /no "gone" in contexts, only "a", "b"/);
    await refuses("contexts: [{name: a}]", /no current-context is set; the contexts in it: "a"$/);
    await refuses("apiVersion: v1", /no current-context is set; the contexts in it: none$/);
    await refuses(
      kubeconfig("insecure-skip-tls-verify: true", ""),
      /cluster "c": insecure-skip-tls-verify is not supported/,
    );
    await refuses(kubeconfig("certificate-authority-data: '%'", ""), /certificate-authority-data is not base64/);
    await refuses(kubeconfig("", "client-key: k"), /user "u" has a client key but no certificate/);
    await refuses(kubeconfig("", "as-groups: [a]"), /as-groups or as-uid but no "as"/);
    await refuses(
      kubeconfig("server: 'ftp://x'", "").replace('server: "https://api.example:6443/", ', ""),
      /is not the URL of an API server/,
    );
    await assert.rejects(
      () => load({ kubeconfig: "/nowhere/config" }),
      /cannot read the kubeconfig \/nowhere\/config: No such file or directory( \(os error 2\))?$/,
    );
    await assert.rejects(() => load({ master: "ftp://x" }), /--master/);
  });
});

Deno.test("tls-server-name is the name of the kubeconfig's server only, and not supported through a proxy", async () => {
  await inFolder(async (_folder, write) => {
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (message: string) => warnings.push(message) };
    const nameIn = async (fields: string, master?: string) => {
      const path = write("config", kubeconfig(fields, ""));
      return (await (await loadCredentials({ kubeconfig: path, master }, logger)).current(never)).serverName;
    };
    assert.equal(await nameIn("tls-server-name: x.example"), "x.example");
    assert.equal(await nameIn(""), undefined);
    assert.equal(await nameIn("tls-server-name: x.example", "https://other.example"), undefined);
    assert.deepEqual(warnings, []);
    assert.equal(await nameIn("tls-server-name: x.example, proxy-url: 'http://p.example'"), undefined);
    assert.match(warnings.join(), /tls-server-name "x.example" is not supported together with proxy-url/);
  });
});

Deno.test("a pod's service account is used without kubeconfig and master", async () => {
  await inFolder(async (folder, write) => {
    write("token", "pod");
    const env = (name: string) => ({ KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" })[name];
    const options = { env, serviceAccountFolder: folder };
    await assert.rejects(() => load(options), /service account of a pod cannot be used without \S+\/ca.crt$/);
    write("ca.crt", "AUTHORITY");
    const credentials = await load(options);
    assert.equal(credentials.server, "https://[fd00::1]:443");
    const { caCerts, headers } = await credentials.current(never);
    assert.deepEqual({ caCerts, headers }, { caCerts: "AUTHORITY", headers: [["authorization", "Bearer pod"]] });
    await assert.rejects(
      () => load({ env: () => undefined, serviceAccountFolder: "/nowhere" }),
      /KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, \/nowhere\/token, \/nowhere\/ca.crt$/,
    );
  });
});

Deno.test("a plugin runs only for users with exec, once, and again after a refusal", async () => {
  await inFolder(async (_folder, write) => {
    let runs = 0;
    const runProgram = () => {
      const status = { token: `plugin-${++runs}` };
      return Promise.resolve({
        exitCode: 0,
        stdout: JSON.stringify({ kind: "ExecCredential", apiVersion: "client.authentication.k8s.io/v1", status }),
        stderr: "",
      });
    };
    const plain = await load({ kubeconfig: write("plain", kubeconfig("", "token: t")), runProgram });
    assert.deepEqual((await plain.current(never)).headers, [["authorization", "Bearer t"]]);
    assert.equal(runs, 0);
    const exec = "exec: {command: x, apiVersion: client.authentication.k8s.io/v1}";
    const credentials = await load({ kubeconfig: write("exec", kubeconfig("", exec)), runProgram });
    for (let times = 0; times < 2; times++) {
      assert.deepEqual((await credentials.current(never)).headers, [["authorization", "Bearer plugin-1"]]);
    }
    credentials.failed(true);
    for (let times = 0; times < 2; times++) {
      assert.deepEqual((await credentials.current(never)).headers, [["authorization", "Bearer plugin-2"]]);
    }
    const unarmed = await load({ kubeconfig: write("exec", kubeconfig("", exec)) });
    await assert.rejects(
      unarmed.current(never),
      /plugin "x" of user "u" in .* failed: this process may not start programs/,
    );
  });
});

Deno.test("every header of the credentials is sent, with one line per impersonated group", async () => {
  await inFolder(async (_folder, write) => {
    await withSource(() => {}, async ({ receives, server }) => {
      await receives("synced Service");
      const { headers } = server.requests[0]!;
      assert.equal(headers.get("authorization"), "Bearer t");
      assert.equal(headers.get("impersonate-user"), "bob");
      assert.equal(headers.get("impersonate-group"), "a, b");
    }, {
      connection: ({ url }) => ({
        kubeconfig: write("config", kubeconfig("", "token: t, as: bob, as-groups: [a, b]")),
        master: url,
      }),
    });
  });
});

Deno.test("401: a token replaced within the same mtime is read again, and the request retried", async () => {
  await inFolder(async (_folder, write) => {
    const put = (text: string) => Deno.utimeSync(write("token", text), 1000, 1000);
    put("first");
    await withSource((server) => {
      server.fault(({ headers }) => {
        if (headers.get("authorization") === "Bearer second") return undefined;
        put("second");
        return statusResponse(401, "Unauthorized", "Unauthorized");
      });
    }, async ({ receives, logged, server }) => {
      await receives("synced Service");
      await receives("synced EndpointSlice");
      await receives("synced Node");
      assert.ok(logged.every((line) => line.includes("INFO")), logged.join(""));
      await server.watches(3);
    }, {
      connection: ({ url }) => ({ kubeconfig: write("config", kubeconfig("", "tokenFile: token")), master: url }),
    });
  });
});

Deno.test("a kubeconfig that is corrected while the API server cannot be used is read again", async () => {
  await inFolder(async (_folder, write) => {
    const put = (server: string, user: string) =>
      write("config", kubeconfig("", user).replace("https://api.example:6443/", server));
    const port = reservePort();
    await withSource((server) => {
      server.fault(({ headers }) =>
        headers.get("authorization") === "Bearer right"
          ? undefined
          : statusResponse(401, "Unauthorized", "Unauthorized")
      );
    }, async ({ receives, logs, logged, server }) => {
      await logs(`at http://127.0.0.1:${port} got no answer`);
      put("not a URL", "token: wrong");
      await logs("cannot use the changed kubeconfig");
      put(server.url, "token: wrong");
      await logs(`services at ${server.url} failed with 401`);
      put(server.url, "token: right");
      for (const kind of ["Service", "EndpointSlice", "Node"]) await receives(`synced ${kind}`);
      assert.equal(logged.filter((line) => line.includes("the kubeconfig has changed")).length, 2);
    }, { connection: () => ({ kubeconfig: put(`http://127.0.0.1:${port}`, "token: wrong") }) });
  });
});

Deno.test("a plugin whose credentials cannot be used runs again", async () => {
  const bad = [{ token: "end\n" }, { token: "t".repeat(70_000) }, {
    clientCertificateData: "none",
    clientKeyData: "none",
  }];
  const version = "client.authentication.k8s.io/v1";
  await inFolder(async (_folder, write) => {
    await withSource(() => {}, async ({ receives }) => {
      for (const kind of ["Service", "EndpointSlice", "Node"]) await receives(`synced ${kind}`);
      assert.deepEqual(bad, []);
    }, {
      connection: ({ url }) => ({
        kubeconfig: write("config", kubeconfig("", `exec: {command: plugin, apiVersion: ${version}}`)),
        master: url,
        runProgram: () => {
          const printed = { kind: "ExecCredential", apiVersion: version, status: bad.shift() ?? { token: "good" } };
          return Promise.resolve({ exitCode: 0, stdout: JSON.stringify(printed), stderr: "" });
        },
      }),
    });
  });
});

Deno.test("a kubeconfig with another credential plugin needs a restart", async () => {
  await inFolder(async (_folder, write) => {
    const put = (command: string) =>
      write(
        "config",
        kubeconfig(
          "",
          `exec: {apiVersion: client.authentication.k8s.io/v1, command: ${command}, interactiveMode: Never}`,
        ),
      );
    const credentials = await load({
      kubeconfig: put("one"),
      runProgram: () => Promise.reject(new Error("not started")),
    });
    Deno.utimeSync(put("two"), 1000, 1000);
    credentials.failed(false);
    await assert.rejects(
      credentials.current(never),
      /the credential plugin in .*config has changed; restart the proxy/,
    );
  });
});
