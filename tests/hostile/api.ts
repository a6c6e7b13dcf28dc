/** A hostile API server, and a hostile credential plugin before it. */
import { type FakeApiServer, type Fault, startFakeApiServer, statusResponse } from "../fakes/api_server.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { hostileService } from "./objects.ts";
import type { HostileScenario, Target } from "./scenario.ts";

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
};

const WATCHES: Readonly<Record<string, readonly [answer: () => Response, says: RegExp]>> = {
  "an event without an end": [() => endless(`{"type":"ADDED","object":${METADATA}`, "a"), /more than 16 MiB/],
  "blank lines without an end, compressed": [() => endless("", "\n", { gzip: true }), /more than 16 MiB/],
  "no JSON": [() => endless("{", "}\n"), /source-unreachable|api-|not a watch event/],
};

const ofServer = (
  [name, [answer, says]]: readonly [string, readonly [() => Response, RegExp]],
  verb: "list" | "watch",
): HostileScenario => ({
  name: `API server: a ${verb} with ${name}`,
  says,
  start: () => serverWith(onlyOf(verb, answer), verb === "list"),
});

const PLUGIN = `#!/bin/sh
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}'
`;

/** A server behind a kubeconfig with a plugin; `attack` changes a file in the folder while the server refuses the token. */
function withPlugin(folder: string, spoil: (path: (name: string) => string) => void): Target {
  const server = honestServer();
  const path = (name: string) => `${folder}/${name}`;
  const kubeconfig = JSON.stringify({
    clusters: [{ name: "c", cluster: { server: server.url } }],
    users: [{
      name: "u",
      user: { exec: { command: "sluice-credentials", apiVersion: "client.authentication.k8s.io/v1" } },
    }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });
  const restore = () => {
    Deno.writeTextFileSync(path("sluice-credentials"), PLUGIN);
    Deno.chmodSync(path("sluice-credentials"), 0o755);
    Deno.writeTextFileSync(path("kubeconfig"), kubeconfig);
  };
  restore();
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
  {
    name: "plugin: output without an end",
    says: /printed more than 1048576 characters/,
    start: (folder) =>
      withPlugin(folder, (path) => Deno.writeTextFileSync(path("sluice-credentials"), "#!/bin/sh\nexec yes\n")),
  },
  {
    name: "kubeconfig: a file of 1 GiB",
    says: /more than the limit of 16 MiB|api-unauthorized/,
    start: (folder) => withPlugin(folder, (path) => Deno.truncateSync(path("kubeconfig"), 2 ** 30)),
  },
];
