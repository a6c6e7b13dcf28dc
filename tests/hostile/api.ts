/** A hostile API server, and a hostile credential plugin before it. */
import { type FakeApiServer, type Fault, startFakeApiServer, statusResponse } from "../fakes/api_server.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { hostileService } from "./objects.ts";
import type { HostileScenario, Target } from "./scenario.ts";
import { replace, type Spoil, UNREADABLE } from "./spoil.ts";

const MiB = 2 ** 20;

/** An answer that begins with a text and goes on with a piece without an end, compressed or not. */
function endless(beginning: string, piece: string, { status = 200, gzip = false } = {}): Response {
  const encoder = new TextEncoder(), bytes = encoder.encode(piece.repeat(Math.ceil(MiB / piece.length)));
  let isBegun = false;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      await sleep(systemClock, 0);
      controller.enqueue(isBegun ? bytes : encoder.encode(beginning));
      isBegun = true;
    },
  });
  return new Response(gzip ? body.pipeThrough(new CompressionStream("gzip")) : body, {
    status,
    headers: { "content-type": "application/json", ...(gzip ? { "content-encoding": "gzip" } : {}) },
  });
}

/** The answer of a proxy before the API server, such as a captive portal. */
const page = (status: number) =>
  new Response("<!DOCTYPE html><title>Sign in</title>", { status, headers: { "content-type": "text/html" } });

const ITEMS = '{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[';
const METADATA = '{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"';
const onlyOf = (wanted: "list" | "watch", answer: () => Response): Fault => ({ verb, path }) =>
  verb === wanted && path === "/api/v1/services" ? answer() : undefined;

/** A server at the start of which one Service is there. */
function honestServer(): FakeApiServer {
  const server = startFakeApiServer();
  server.apply(hostileService(1));
  return server;
}

/** A server that answers with the fault, and must be listed again if the fault is in lists. */
function serverWith(fault: Fault, isOfLists: boolean): Target {
  const server = honestServer();
  return {
    flags: ["--master", server.url],
    attack() {
      server.fault(fault);
      if (isOfLists) server.expire();
      server.dropWatches("broken");
    },
    relent() {
      server.fault(undefined);
      server.apply(hostileService(2));
      server.dropWatches("broken");
    },
    // Answers without an end would keep it from closing.
    close: () => void server.close(),
  };
}

const LISTS: Readonly<Record<string, readonly [answer: () => Response, says: RegExp]>> = {
  "an object without an end": [() => endless(`${ITEMS}${METADATA}`, "a"), /more than 16 MiB/],
  "blanks without an end, compressed": [() => endless(ITEMS, " ", { gzip: true }), /more than 16 MiB/],
  "brackets without an end": [() => endless(ITEMS, "["), /more than 16 MiB/],
  "a key without an end": [() => endless('{"', "k"), /more than 16 MiB/],
  "zeros": [() => endless("", "\0"), /source-unreachable|api-/],
  "an error without an end": [() => endless("{", " ", { status: 500 }), /source-unreachable|api-/],
  "a redirect to itself": [
    () => new Response(null, { status: 302, headers: { location: "/api/v1/services" } }),
    /302|api-|source-/,
  ],
  "a token without an end": [
    () => endless(`{"metadata":{"resourceVersion":"9","continue":"`, "c"),
    /more than 16 MiB/,
  ],
  "an HTML page": [() => page(200), /source-unreachable|api-/],
  "an HTML page with status 503": [() => page(503), /503|source-unreachable|api-/],
  "no content": [() => new Response(null), /source-unreachable|api-/],
  "half of its objects": [
    () => new Response(`${ITEMS}${JSON.stringify(hostileService(1))},`),
    /source-unreachable|api-/,
  ],
  "another kind": [
    () => Response.json({ kind: "Status", apiVersion: "v1", status: "Success" }),
    /source-unreachable|api-/,
  ],
};

const WATCHES: Readonly<Record<string, readonly [answer: () => Response, says?: RegExp]>> = {
  "an event without an end": [() => endless(`{"type":"ADDED","object":${METADATA}`, "a"), /more than 16 MiB/],
  "blank lines without an end, compressed": [() => endless("", "\n", { gzip: true }), /more than 16 MiB/],
  "no JSON": [() => endless("{", "}\n"), /source-unreachable|api-|not a watch event/],
  "an HTML page": [() => page(200), /source-unreachable|api-|not a watch event/],
  "half an event": [() => new Response(`{"type":"ADDED","object":${METADATA}`), /source-unreachable|api-|cut off/],
  "errors of an unknown code": [
    () => new Response('{"type":"ERROR","object":{"kind":"Status","code":"x"}}\n'),
    /source-unreachable|api-|ERROR/,
  ],
  "an end at once": [() => new Response(null)],
};

const ofServer = (
  [name, [answer, says]]: readonly [string, readonly [answer: () => Response, says?: RegExp]],
  verb: "list" | "watch",
): HostileScenario => ({
  name: `API server: a ${verb} with ${name}`,
  says,
  start: () => serverWith(onlyOf(verb, answer), verb === "list"),
});

const EXEC_VERSION = "client.authentication.k8s.io/v1";
/** A plugin that prints a text. */
const printing = (text: string) => `#!/bin/sh\ncat <<'END'\n${text}\nEND\n`;
/** A plugin that prints credentials with this status, or with other fields. */
const credentials = (status: unknown, change: Readonly<Record<string, unknown>> = {}) =>
  printing(JSON.stringify({ kind: "ExecCredential", apiVersion: EXEC_VERSION, status, ...change }));
const PLUGIN = credentials({ token: "t" });
const PLUGIN_NAME = "sluice-credentials";

/** Plugins, and what is said of them. */
const PLUGINS: Readonly<Record<string, readonly [text: string, says: RegExp]>> = {
  "output without an end": ["#!/bin/sh\nexec yes\n", /printed more than 1048576 characters/],
  "errors without an end": ["#!/bin/sh\nexec yes >&2\n", /failed: no answer|failed: .*30|timed out|within/],
  "no output": ["#!/bin/sh\n", /did not print an ExecCredential/],
  "no JSON": [printing("token: t"), /did not print an ExecCredential/],
  "half of it": [printing(JSON.stringify({ kind: "ExecCredential" }).slice(0, -2)), /did not print an ExecCredential/],
  "a list": [printing("[]"), /did not print an ExecCredential/],
  "100,000 brackets": [printing("[".repeat(100_000)), /did not print an ExecCredential/],
  "bytes that are no UTF-8": ["#!/bin/sh\nhead -c 9999 /dev/urandom\n", /did not print an ExecCredential/],
  "an unknown kind": [credentials({ token: "t" }, { kind: "__proto__" }), /not an ExecCredential/],
  "another apiVersion": [credentials({ token: "t" }, { apiVersion: "v1" }), /requested apiVersion/],
  "no status": [credentials(undefined), /has no status/],
  "a status of text": [credentials("t"), /has no status/],
  "a token of the wrong type": [credentials({ token: { toString: 1 } }), /neither a token/],
  "a token with line ends": [credentials({ token: "t\r\nHost: evil" }), /the token is longer/],
  "a token with NUL": [credentials({ token: "t\0" }), /the token is longer/],
  "a token of 900 kB": [credentials({ token: "t".repeat(900_000) }), /the token is longer/],
  "a time that is none": [credentials({ token: "t", expirationTimestamp: "soon" }), /not a time/],
  "a time long ago": [credentials({ token: "t", expirationTimestamp: "1970-01-01T00:00:00Z" }), /api-unauthorized/],
  "a certificate without a key": [credentials({ clientCertificateData: "x" }), /but no key/],
  "a certificate that is none": [
    credentials({ clientCertificateData: "x", clientKeyData: "y" }),
    /cannot use the credentials/,
  ],
  "a failure": ["#!/bin/sh\necho $$ >&2; exit 3\n", /exit status 3/],
  "an end by a signal": ["#!/bin/sh\nkill -KILL $$\n", /exit status 137/],
  "a child that holds its output": ["#!/bin/sh\nsleep 1000 &\n", /api-unauthorized|timed out|within|no answer/],
  "no interpreter": ["#!/nowhere\n", /credential plugin/],
};

const kubeconfigOf = (server: string) => ({
  clusters: [{ name: "c", cluster: { server } }],
  users: [{ name: "u", user: { exec: { command: PLUGIN_NAME, apiVersion: EXEC_VERSION } } }],
  contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
  "current-context": "x",
});
const honest = kubeconfigOf("http://127.0.0.1:1");
const withUser = (user: unknown) => ({ ...honest, users: [{ name: "u", user }] });
const withCluster = (cluster: unknown) => ({ ...honest, clusters: [{ name: "c", cluster }] });
const withExec = (exec: unknown) => withUser({ exec });

/** Kubeconfigs that are refused. */
const KUBECONFIGS: Readonly<Record<string, unknown>> = {
  "a list": [],
  "clusters that are a text": { ...honest, clusters: "c" },
  "an unknown context": { ...honest, "current-context": "__proto__" },
  "a context that is a number": { ...honest, contexts: [1], "current-context": 1 },
  "a server that is a file": withCluster({ server: "file:///etc/passwd" }),
  "a server with a port of 99999": withCluster({ server: "https://127.0.0.1:99999" }),
  "a server that is a list": withCluster({ server: ["https://127.0.0.1"] }),
  "a certificate authority that is no base64": withCluster({
    server: "https://127.0.0.1:1",
    "certificate-authority-data": "*",
  }),
  "a plugin that is a list": withExec({ command: ["sh"], apiVersion: EXEC_VERSION }),
  "a plugin with another apiVersion": withExec({ command: PLUGIN_NAME, apiVersion: "constructor" }),
  "a plugin that needs a terminal": withExec({
    command: PLUGIN_NAME,
    apiVersion: EXEC_VERSION,
    interactiveMode: "Always",
  }),
  "a certificate without a key": withUser({ "client-certificate-data": "eA==" }),
};

function writePlugin(path: string, text: string): void {
  Deno.writeTextFileSync(`${path}.new`, text);
  Deno.chmodSync(`${path}.new`, 0o755);
  Deno.renameSync(`${path}.new`, path);
}

/** A server behind a kubeconfig with a plugin; `attack` changes a file in the folder while the server refuses the token. */
function withPlugin(folder: string, spoil: (path: (name: string) => string) => void): Target {
  const server = honestServer();
  const path = (name: string) => `${folder}/${name}`;
  const kubeconfig = JSON.stringify(kubeconfigOf(server.url));
  const restore = () => {
    writePlugin(path(PLUGIN_NAME), PLUGIN);
    replace(path("kubeconfig"), kubeconfig);
  };
  Deno.writeTextFileSync(path("kubeconfig"), kubeconfig);
  writePlugin(path(PLUGIN_NAME), PLUGIN);
  return {
    flags: ["--kubeconfig", path("kubeconfig")],
    attack() {
      spoil(path);
      server.fault(() => statusResponse(401, "Unauthorized", "no"));
      server.dropWatches("broken");
    },
    relent() {
      restore();
      server.fault(undefined);
      server.apply(hostileService(2));
    },
    close: () => server.close(),
  };
}

/** The ways of an API server and a plugin. */
export const apiScenarios: readonly HostileScenario[] = [
  ...Object.entries(LISTS).map((entry) => ofServer(entry, "list")),
  ...Object.entries(WATCHES).map((entry) => ofServer(entry, "watch")),
  ...Object.entries(PLUGINS).map(([name, [text, says]]) => ({
    name: `plugin: ${name}`,
    says,
    attackMs: 2_000,
    start: (folder: string) => withPlugin(folder, (path) => writePlugin(path(PLUGIN_NAME), text)),
  })),
  ...Object.entries({ ...UNREADABLE, ...kubeconfigSpoils() }).map(([name, spoil]) => ({
    name: `kubeconfig: ${name}`,
    says: /cannot use the changed kubeconfig|cannot use the credentials|api-unauthorized/,
    attackMs: 2_000,
    start: (folder: string) => withPlugin(folder, (path) => spoil(path("kubeconfig"))),
  })),
];

function kubeconfigSpoils(): Readonly<Record<string, Spoil>> {
  return Object.fromEntries(
    Object.entries(KUBECONFIGS).map(([name, value]) => [name, (path: string) => replace(path, JSON.stringify(value))]),
  );
}
