/** Detection of another Sluice on a node by its control socket, and the resulting error. */
import assert from "node:assert/strict";
import { AnotherSluiceError, listenOnControlSocket, refuseAnother } from "../../../../answers/control/socket.ts";
import { connectToProxy, identifyProcess, NoProxyError } from "../../../../answers/control/client.ts";
import { type ControlAnswers, createControlHandler } from "../../../../answers/control/server.ts";
import { close } from "../../../../platform/http/connection_limits.ts";
import { answerConnection, type HttpHandler, textAnswer } from "../../../../platform/http/http.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { invoke } from "../../cli/commands/invoke.ts";

const SELF = { pid: 1, networkNamespace: "4026531840" };
const free = { self: SELF, portsAreFree: () => true };
const taken = { self: SELF, portsAreFree: () => false };

/** Runs a test with the path of a control socket answered by `handler`; without one, nothing ever answers. */
async function withSocket(handler: HttpHandler | undefined, test: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/control.sock`;
  const listener = await listenOnControlSocket(path);
  const open: Deno.Conn[] = [];
  const clock = createFakeClock();
  const accepting = (async () => {
    for await (const connection of listener) {
      open.push(connection);
      if (handler) answerConnection(connection, handler, { clock, logger: silentLogger });
    }
  })();
  try {
    await test(path);
  } finally {
    close(listener);
    open.forEach(close);
    await accepting;
    await Deno.remove(folder, { recursive: true });
  }
}

const sluice = createControlHandler({} as ControlAnswers);
const says = (body: unknown): HttpHandler => () => ({
  status: 200,
  contentType: "application/json",
  body: JSON.stringify(body),
});

Deno.test("a second sluice names the first by pid and control socket", () =>
  withSocket(
    says({ pid: 7, networkNamespace: SELF.networkNamespace }),
    (path) =>
      assert.rejects(refuseAnother(path, createFakeClock(), free), {
        name: "AnotherSluiceError",
        message: `another sluice is running (pid 7): it answers on ${path}; stop it before you start this one`,
      }),
  ));

Deno.test("a sluice identifies itself", () =>
  withSocket(
    sluice,
    async (path) => assert.equal((await identifyProcess(path, { clock: createFakeClock() })).pid, Deno.pid),
  ));

for (
  const [what, other, self] of [
    ["serves another network namespace", { pid: 7, networkNamespace: "4026532000" }, SELF],
    ["cannot read its network namespace", { pid: 7 }, SELF],
    ["meets one that cannot read its own", { pid: 7, networkNamespace: "4026532000" }, {
      ...SELF,
      networkNamespace: undefined,
    }],
    ["meets one, where neither can", { pid: 7 }, { ...SELF, networkNamespace: undefined }],
  ] as const
) {
  Deno.test(`a sluice that ${what} is not refused because of its control socket alone`, () =>
    withSocket(says(other), (path) => refuseAnother(path, createFakeClock(), { ...taken, self })));
}

Deno.test("a command does not take the proxy of another network namespace for its own, and names it", async () => {
  const clock = createFakeClock(), asker = { clock, networkNamespace: SELF.networkNamespace };
  await withSocket(says({ pid: 7, networkNamespace: "4026532000" }), async (path) => {
    await assert.rejects(
      connectToProxy(path, asker),
      (error: Error) =>
        error instanceof NoProxyError && error.message.includes(`${path} (pid 7) serves another network namespace`),
    );
    await connectToProxy(path, { clock });
  });
  await withSocket(says(SELF), async (path) => void await connectToProxy(path, asker));
  await withSocket(() => textAnswer(404, ""), async (path) => void await connectToProxy(path, asker));
});

Deno.test("an older sluice that does not support the question is a conflict if one of our ports is taken", () =>
  withSocket(() => textAnswer(404, ""), async (path) => {
    await assert.rejects(refuseAnother(path, createFakeClock(), taken), /another sluice is running: it answers on/);
    await refuseAnother(path, createFakeClock(), free);
  }));

Deno.test("a sluice that hangs is a conflict after two seconds if one of our ports is taken", () =>
  withSocket(undefined, async (path) => {
    const clock = createFakeClock();
    const refused = assert.rejects(refuseAnother(path, clock, taken), AnotherSluiceError);
    const ignored = refuseAnother(path, clock, free);
    await settled();
    assert.deepEqual(clock.pending(), [2000, 2000]);
    clock.advance(2000);
    await refused;
    await ignored;
  }));

Deno.test("sluice run exits if another sluice holds its control socket and a port", () =>
  withSocket(() => textAnswer(404, ""), async (path) => {
    using port = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const metrics = `127.0.0.1:${(port.addr as Deno.NetAddr).port}`;
    const flags = ["--proxy-mode", "nftables", "--control-socket", path, "--metrics-bind-address", metrics];
    await assert.rejects(
      invoke(["run", "--source", "file:/nowhere", ...flags]),
      /another sluice is running: it answers on/,
    );
  }));
