/** A connection to an endpoint that leaves its service while no proxy runs, with real packets and the API of a fake server. */
import assert from "node:assert/strict";
import { requireIsolation } from "../../demo/isolate.ts";
import { program } from "../../demo/sluice.ts";
import { waitFor } from "../chaos/wait.ts";
import { type ApiObject, startFakeApiServer } from "../fakes/api_server.ts";
import { rawService, rawSlice } from "../fakes/raw_objects.ts";
import { run } from "./blackhole.ts";

const SERVICE = "10.96.0.10", NODE = "10.7.0.1";

/** A running Sluice. */
interface Running {
  log(): string;
  stop(): Promise<void>;
}

function start(url: string, folder: string): Running {
  const [command, ...args] = program();
  const child = new Deno.Command(command!, {
    args: [
      ...[...args, "--master", url, "--hostname-override", "n", "--proxy-mode", "nftables", "--logging-format", "text"],
      ...["-v", "4", "--conntrack-max-per-core", "0", "--control-socket", "", "--metrics-bind-address", ""],
      ...["--healthz-bind-address", "", "--state-directory", folder, "--reset-gone-connections"],
    ],
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let log = "";
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  return {
    log: () => log,
    async stop() {
      child.kill("SIGTERM");
      await Promise.all([child.status, drained]);
    },
  };
}

const isGone = async () =>
  /10\.7\.0\.1 \. \d+/.test(await run("nft", "list", "set", "ip", "sluice-resets", "endpoints").catch(() => ""));

Deno.test("a connection to an endpoint that left while Sluice was not running is reset at its next packet", async () => {
  requireIsolation();
  await run("ip", "link", "set", "lo", "up");
  await run("ip", "address", "add", `${NODE}/32`, "dev", "lo");
  // The route for packets to the service, before they are translated.
  await run("ip", "route", "add", "10.96.0.0/16", "dev", "lo");
  const folder = await Deno.makeTempDir({ dir: "/run" });
  const listener = Deno.listen({ hostname: NODE, port: 0 });
  const api = startFakeApiServer();
  const slice = (...endpoints: readonly string[]) =>
    ({
      kind: "EndpointSlice",
      ...rawSlice("shop/web-1", { ports: { http: listener.addr.port }, endpoints }),
    }) as unknown as ApiObject;
  const spec = { clusterIP: SERVICE, clusterIPs: [SERVICE], ports: [{ name: "http", port: 80, protocol: "TCP" }] };
  const node = { kind: "Node", metadata: { name: "n" }, spec: {}, status: {} } as const;
  api.apply(node, { kind: "Service", ...rawService("shop/web", spec) } as unknown as ApiObject, slice(NODE));
  const byte = new Uint8Array([1]);
  let sluice = start(api.url, folder);
  try {
    const accepting = listener.accept();
    let connecting: Deno.TcpConn | undefined;
    await waitFor("the service answers", 60_000, async () => {
      connecting = await Deno.connect({ hostname: SERVICE, port: 80 }).catch(() => undefined);
      return connecting !== undefined;
    });
    const connection = connecting!, accepted = await accepting;
    await connection.write(byte);
    await sluice.stop();
    api.apply(slice());
    sluice = start(api.url, folder);
    await waitFor("the endpoint is known to be gone", 60_000, isGone);
    await connection.write(byte);
    await assert.rejects(connection.read(byte), Deno.errors.ConnectionReset);
    connection.close();
    accepted.close();
  } catch (error) {
    console.log(sluice.log());
    throw error;
  } finally {
    await sluice.stop();
    listener.close();
    await api.close();
    await Deno.remove(folder, { recursive: true });
    await run("nft", "delete", "table", "ip", "sluice");
    await run("ip", "address", "del", `${NODE}/32`, "dev", "lo");
    await run("ip", "route", "del", "10.96.0.0/16", "dev", "lo");
  }
});
