/** export and watch: their output as a source changes. */
import assert from "node:assert/strict";
import { parse } from "yaml";
import { invoke } from "./invoke.ts";
import { until } from "../../../fakes/wait.ts";

const manifest = (name: string, address: string, nodeName = "here") =>
  `apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: default }
spec: { clusterIP: ${address}, clusterIPs: [${address}], ipFamilies: [IPv4], ports: [{ name: http, port: 80 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-1, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ name: http, port: 8080, protocol: TCP }]
endpoints: [{ addresses: [10.1.0.1], conditions: { ready: true }, nodeName: ${JSON.stringify(nodeName)} }]
---
`;

/** Runs a test with a source of one service, `web`, in a folder; `change` replaces the content of the source. */
async function withSource(
  test: (
    source: {
      readonly folder: string;
      readonly flags: readonly string[];
      change(...services: readonly (readonly [name: string, address: string, nodeName?: string])[]): void;
    },
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const change = (...services: readonly (readonly [string, string, string?])[]) => {
    Deno.writeTextFileSync(`${folder}/.next`, services.map((one) => manifest(...one)).join(""));
    Deno.renameSync(`${folder}/.next`, `${folder}/source.yaml`);
  };
  change(["web", "10.0.0.1"]);
  try {
    await test({ folder, change, flags: ["--source", `file:${folder}/source.yaml`] });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Starts a command that runs until `end`. */
function running(args: readonly string[]) {
  const stop = new AbortController();
  let printed = "";
  const ended = invoke(args, { signal: stop.signal, onPrint: (text) => printed += text });
  return {
    /** Waits until the output since the last call contains `awaited`, and returns that output. */
    async printed(awaited: string): Promise<string> {
      await until(() => printed.includes(awaited));
      const taken = printed;
      printed = "";
      return taken;
    },
    async end(): Promise<number> {
      stop.abort();
      return (await ended).status;
    },
  };
}

function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

Deno.test("export to - prints one document once caches are synced, and exits", async () => {
  const unread = running(["export", "--to", "-", "--source", "state:/nonexistent"]);
  assert.equal(await unread.end(), 1, "it was interrupted before there was a state");
  await withSource(async ({ flags }) => {
    const { status, stdout } = await invoke(["export", "--to", "-", ...flags]);
    assert.equal(status, 0);
    assert.match(stdout, /"name":"web"/);
    assert.match(stdout, /10\.0\.0\.1/);
    assert.match(stdout, /10\.1\.0\.1/);
    assert.ok(!/^---$/m.test(stdout.trim().replace(/^---\n/, "")), "one document");
  });
});

Deno.test("export to a folder that does not exist names the file", () =>
  withSource(async ({ folder, flags }) => {
    const to = `${folder}/missing/state`;
    await assert.rejects(invoke(["export", "--to", to, ...flags]), {
      message: `cannot write ${to}: No such file or directory`,
    });
  }));

Deno.test("export replaces no pipe or socket", () =>
  withSource(async ({ folder, flags }) => {
    const to = `${folder}/socket`;
    using _listener = Deno.listen({ transport: "unix", path: to });
    await assert.rejects(invoke(["export", "--to", to, ...flags]), {
      message: `cannot write ${to}: it is not a regular file (--to - prints to standard output)`,
    });
    assert.ok(Deno.statSync(to).isSocket);
  }));

Deno.test("export to a file replaces it atomically after each change and leaves no other files", async () => {
  await withSource(async ({ folder, flags, change }) => {
    const out = `${folder}/out`;
    Deno.mkdirSync(out);
    const path = `${out}/state.yaml`;
    const exporting = running(["export", "--to", path, ...flags]);
    await until(() => read(path).includes('"name":"web"'));
    // An open handle keeps reading the old content.
    const before = Deno.openSync(path);
    const inode = before.statSync().ino;
    change(["web", "10.0.0.2"], ["api", "10.0.0.3"]);
    await until(() => {
      const text = read(path);
      assert.ok(text.includes('"name":"web"'), "always a complete state");
      return text.includes("10.0.0.3");
    });
    assert.match(read(path), /10\.0\.0\.2/);
    assert.notEqual(Deno.statSync(path).ino, inode);
    assert.match(await new Response(before.readable).text(), /10\.0\.0\.1/);
    assert.equal(await exporting.end(), 0);
    assert.deepEqual([...Deno.readDirSync(out)].map(({ name }) => name), ["state.yaml"]);
  });
});

Deno.test("an export that cannot replace its file fails, and leaves no other files", async () => {
  await withSource(async ({ folder, flags }) => {
    Deno.mkdirSync(`${folder}/out/state.yaml`, { recursive: true });
    await assert.rejects(invoke(["export", "--to", `${folder}/out/state.yaml`, ...flags]));
    assert.deepEqual([...Deno.readDirSync(`${folder}/out`)].map(({ name }) => name), ["state.yaml"]);
  });
});

Deno.test("watch prints a line per addition, change and removal, and an empty line after each batch", async () => {
  await withSource(async ({ flags, change }) => {
    const watching = running(["watch", ...flags]);
    assert.match(
      await watching.printed("\n\n"),
      /^\+ service {2}default\|web .*10\.0\.0\.1.*\n\+ endpoint default\|web\|\S+ .*10\.1\.0\.1.*\n\n$/,
    );
    change(["web", "10.0.0.2"], ["api", "10.0.0.3"]);
    const changed = await watching.printed("\n\n");
    assert.match(changed, /^~ service {2}default\|web .*10\.0\.0\.2/m);
    assert.match(changed, /^\+ service {2}default\|api .*10\.0\.0\.3/m);
    change(["web", "10.0.0.2"]);
    const gone = await watching.printed("\n\n");
    assert.match(gone, /^- service {2}default\|api$/m);
    assert.match(gone, /^- endpoint default\|api\|\S+$/m);
    assert.ok(!gone.includes("default|web"), gone);
    change(["web", "10.0.0.2"], ["api", "10.0.0.3"]);
    assert.match(await watching.printed("\n\n"), /^\+ service {2}default\|api /m);
    assert.equal(await watching.end(), 0);
  });
});

Deno.test("watch prints no character of an object that would control the terminal", async () => {
  await withSource(async ({ flags, change }) => {
    const watching = running(["watch", ...flags]);
    await watching.printed("\n\n");
    change(["web", "10.0.0.1", "\u009b2J\u202eup"]);
    assert.match(await watching.printed("\n\n"), /^\+ endpoint default\|web.* 2J up$/m);
    assert.equal(await watching.end(), 0);
  });
});

Deno.test("watch --json prints one object per line, of the selected kind only", async () => {
  await withSource(async ({ flags }) => {
    const watching = running(["watch", "services", "--json", ...flags]);
    const lines = (await watching.printed('{"op":"sync"}\n')).trimEnd().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(lines.map(({ op, set }) => [op, set]), [["reset", undefined], ["set", "services"], [
      "sync",
      undefined,
    ]]);
    assert.equal(lines[1].path, "default|web||");
    assert.equal(lines[1].value.name, "web");
    assert.equal(await watching.end(), 0);
  });
});

Deno.test("watch local prints only what this node needs", async () => {
  await withSource(async ({ flags }) => {
    const watching = running(["watch", "local", "--hostname-override", "node-1", ...flags]);
    assert.match(await watching.printed("\n\n"), /^\+ endpoint default\/web\/\S+ .*10\.1\.0\.1/m);
    assert.equal(await watching.end(), 0);
  });
});

const LABELLED = `apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
  labels: { app: web, example.com/team: a }
  annotations: { example.com/note: "n", kubectl.kubernetes.io/last-applied-configuration: long }
spec: { clusterIP: 10.0.0.1, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: edge, namespace: default, labels: { service.kubernetes.io/service-proxy-name: edge } }
spec: { clusterIP: 10.0.0.2, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Node
metadata: { name: node-a, labels: { topology.kubernetes.io/zone: z, rack: r1 }, annotations: { note: "n" } }
`;

/** The exported labels and annotations by object, with these flags. */
async function exportedDetails(flags: readonly string[]): Promise<Record<string, unknown>> {
  const folder = await Deno.makeTempDir();
  Deno.writeTextFileSync(`${folder}/source.yaml`, LABELLED);
  const source = ["--source", `file:${folder}/source.yaml`];
  const { stdout } = await invoke(["export", "--to", "-", ...source, ...flags]).finally(() =>
    Deno.remove(folder, { recursive: true })
  );
  const { nodes, services } = parse(stdout);
  const detailsOf = ({ name, labels, annotations }: Record<string, unknown>) => [name, { labels, annotations }];
  return Object.fromEntries([...nodes, ...services.map(({ service }: { service: unknown }) => service)].map(detailsOf));
}

Deno.test("KPNG's defaults: no labels of services, three of nodes, no annotations", async () => {
  const none = { labels: undefined, annotations: undefined };
  const found = await exportedDetails([]);
  assert.deepEqual(found, { "node-a": { ...none, labels: { "topology.kubernetes.io/zone": "z" } }, web: none });
});

Deno.test("labels and annotations are included by key and pattern", async () => {
  const found = await exportedDetails([
    ...["--with-service-labels", "app,exam?le.com/*", "--with-service-annotations", "example.com/note"],
    ...["--with-node-labels", "r*", "--with-node-annotations", "*"],
  ]);
  assert.deepEqual(found.web, {
    labels: { app: "web", "example.com/team": "a" },
    annotations: { "example.com/note": "n" },
  });
  assert.deepEqual(found["node-a"], { labels: { rack: "r1" }, annotations: { note: "n" } });
});

Deno.test("--service-proxy-name passes on exactly the services of that proxy", async () => {
  const names = async (...flags: string[]) =>
    Object.keys(await exportedDetails(flags)).filter((name) => name !== "node-a");
  assert.deepEqual(await names(), ["web"]);
  assert.deepEqual(await names("--service-proxy-name", "edge"), ["edge"]);
});

Deno.test("a pattern that no key can match is refused", async () => {
  await assert.rejects(
    exportedDetails(["--with-node-labels", "[a-z]"]),
    /--with-node-labels: "\[a-z\]" must be a key, in which \* and \? are wildcards/,
  );
});
