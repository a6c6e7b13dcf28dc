/** The control socket of a running proxy: ownership, access and answers. */
import assert from "node:assert/strict";
import { createAnswers, readQuestion } from "../../../../answers/mod.ts";
import { connectToProxy, NoProxyError } from "../../../../answers/control/client.ts";
import { NotReadyError } from "../../../../answers/mod.ts";
import type { NodeView } from "../../../../answers/status/mod.ts";
import type { ControlAnswers } from "../../../../answers/control/server.ts";
import { serveControlSocket } from "../../../../answers/control/mod.ts";
import { listenOnControlSocket, SocketInUseError } from "../../../../answers/control/socket.ts";
import { createLedgers } from "../../../../core/channel/mod.ts";
import { createChangeFeed } from "../../../../observe/change_feed.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { fakeAnswerBasis, HERE } from "../../../fakes/answer_basis.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";

const basis = fakeAnswerBasis([
  node(HERE, { addresses: ["192.168.1.1"] }),
  service("default/web"),
  endpointSlice("default/web-1", [endpoint("10.1.0.1", { nodeName: HERE }), endpoint("10.1.0.2", { ready: false })]),
]);
const STATUS = { node: HERE, problems: [{ where: "Service default/wéb", message: "“odd”" }] } as unknown as NodeView;

const clock = createFakeClock(), feed = createChangeFeed(clock, createLedgers(clock));
feed.problemChanged({ type: "raised", problem: { code: "sync-failed", subject: "IPv4", detail: "nft: “odd”" } });
feed.problemChanged({ type: "solved", problem: { code: "sync-failed", subject: "IPv4", detail: "" } });
const readFeed = (since: number) => Promise.resolve(feed.read(since));

/** Runs a test with a path for a socket, in a folder that does not exist yet. */
async function withPath(test: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(`${folder}/run/control.sock`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Serves answers on a socket during a test. */
async function serving(
  path: string,
  test: () => Promise<void>,
  changes: Partial<ControlAnswers> = {},
): Promise<{ readonly loads: number }> {
  const listener = await listenOnControlSocket(path);
  const end = new AbortController();
  let loads = 0;
  const served = serveControlSocket({
    listener,
    answers() {
      loads++;
      return Promise.resolve({
        ...createAnswers(basis),
        status: () => Promise.resolve(STATUS),
        events: readFeed,
        ...changes,
      });
    },
    clock,
    logger: silentLogger,
    signal: end.signal,
  });
  try {
    await test();
  } finally {
    end.abort();
    await served;
  }
  return { loads };
}

Deno.test("answers through the socket equal direct ones, and nothing is loaded before the first question", () =>
  withPath(async (path) => {
    const local = createAnswers(basis);
    const unused = await serving(path, async () => {});
    assert.equal(unused.loads, 0);
    const used = await serving(path, async () => {
      const remote = await connectToProxy(path, { clock });
      const plain = (data: unknown) => JSON.parse(JSON.stringify(data));
      const question = readQuestion("10.0.0.1:80", "203.0.113.7");
      assert.deepEqual(await remote.explain(question), plain(await local.explain(question)));
      assert.deepEqual(await remote.services("web"), plain(await local.services("web")));
      assert.deepEqual(await remote.services("nothing of that name"), []);
      assert.equal((await remote.endpoints("default/web")).length, 2);
      assert.deepEqual(await remote.state("IPv4"), plain(await local.state("IPv4")));
      assert.deepEqual(await remote.status(), STATUS);
      assert.deepEqual(await remote.events(0), plain(feed.read()));
      assert.deepEqual((await remote.events(1)).events.map(({ kind }) => kind), ["solved"]);
    });
    assert(used.loads > 0);
  }));

Deno.test("only the proxy's user may open the socket or enter its folder", () =>
  withPath((path) =>
    serving(path, async () => {
      assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
      assert.equal((await Deno.stat(path.replace(/\/[^/]*$/, ""))).mode! & 0o777, 0o700);
    }).then(() => {})
  ));

Deno.test("a stale socket is replaced; a live socket or any other file is not", () =>
  withPath(async (path) => {
    await serving(path, async () => {
      await assert.rejects(listenOnControlSocket(path), SocketInUseError);
      assert.deepEqual(await (await connectToProxy(path, { clock })).status(), STATUS, "the first proxy still answers");
    });
    await createStaleSocket(path);
    await assert.rejects(connectToProxy(path, { clock }), NoProxyError);
    await serving(path, async () => assert.deepEqual(await (await connectToProxy(path, { clock })).status(), STATUS));
    await Deno.remove(path).catch(() => {});
    await assert.rejects(connectToProxy(path, { clock }), NoProxyError);
    await Deno.writeTextFile(path, "precious");
    await assert.rejects(listenOnControlSocket(path), /the path exists and is not a socket/);
    assert.equal(await Deno.readTextFile(path), "precious");
  }));

Deno.test("a path that no socket can have is refused with the system's reason", () =>
  withPath((path) =>
    assert.rejects(listenOnControlSocket(`${path}${"x".repeat(300)}`), (error: Error) => {
      assert.match(error.message, /^cannot open the control socket .*x: .*File name too long/);
      return true;
    })
  ));

Deno.test("a truncated answer is an error", () =>
  withPath(async (path) => {
    const listener = await listenOnControlSocket(path);
    const answering = (async () => {
      for await (const connection of listener) {
        if (await connection.read(new Uint8Array(4096)) !== null) {
          await connection.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"));
        }
        connection.close();
      }
    })();
    await assert.rejects((await connectToProxy(path, { clock })).status(), /the proxy did not answer/);
    listener.close();
    await answering;
  }));

/** A socket without a listener: some runtimes remove theirs on exit, so a link keeps its name. */
async function createStaleSocket(path: string): Promise<void> {
  await Deno.remove(path).catch(() => {});
  const listener = Deno.listen({ transport: "unix", path });
  await Deno.link(path, `${path}.kept`);
  listener.close();
  await Deno.remove(path).catch(() => {});
  await Deno.rename(`${path}.kept`, path);
}

Deno.test("a proxy whose caches are not synced says so; an invalid question is refused with a message", () =>
  withPath(async (path) => {
    const explain = () => Promise.reject(new NotReadyError("too early"));
    await serving(path, async () => {
      const remote = await connectToProxy(path, { clock });
      await assert.rejects(remote.explain(readQuestion("10.0.0.1:80")), /^Error: too early$/);
      await assert.rejects(remote.state("IPv5" as "IPv4"), /family must be one of IPv4, IPv6/);
      assert.deepEqual(await remote.status(), STATUS, "its status is still reported");
    }, { explain });
  }));
