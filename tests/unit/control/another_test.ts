/** A second Sluice on a node: how it finds the first by its control socket, and what it says. */
import assert from "node:assert/strict";
import { AnotherSluiceError, refuseAnother } from "../../../core/control/another.ts";
import { type ControlAnswers, createControlHandler } from "../../../core/control/server.ts";
import { listenOnControlSocket } from "../../../core/control/socket.ts";
import { answerConnection, close, type HttpHandler, textAnswer } from "../../../core/observe/http.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { invoke } from "../commands/invoke.ts";

const SELF = { pid: 1, networkNamespace: "4026531840" };

/** Runs a test with the path of a control socket at which `handler` answers; without one, nobody ever does. */
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

Deno.test("a second sluice names the first by its pid and control socket", () =>
  withSocket(sluice, (path) =>
    assert.rejects(refuseAnother(path, createFakeClock()), {
      name: "AnotherSluiceError",
      message: `another sluice is running (pid ${Deno.pid}): it answers on ${path}; stop it before you start this one`,
    })));

Deno.test("a sluice that serves another network namespace is no other one", () =>
  withSocket(says({ pid: 7, networkNamespace: "4026532000" }), (path) => refuseAnother(path, createFakeClock(), SELF)));

for (
  const [what, body] of [
    ["of the same network namespace", SELF],
    ["that cannot tell its network namespace", { pid: 1 }],
  ] as const
) {
  Deno.test(`a sluice ${what} is another one`, () =>
    withSocket(
      says(body),
      (path) => assert.rejects(refuseAnother(path, createFakeClock(), SELF), /another sluice is running \(pid 1\)/),
    ));
}

Deno.test("an older sluice, which does not know the question, is another one without a pid", () =>
  withSocket(
    () => textAnswer(404, ""),
    (path) => assert.rejects(refuseAnother(path, createFakeClock(), SELF), /another sluice is running: it answers on/),
  ));

Deno.test("a sluice that hangs is another one after two seconds", () =>
  withSocket(undefined, async (path) => {
    const clock = createFakeClock();
    const refused = assert.rejects(refuseAnother(path, clock, SELF), AnotherSluiceError);
    await settled();
    assert.deepEqual(clock.pending(), [2000]);
    clock.advance(2000);
    await refused;
  }));

Deno.test("sluice run ends where another sluice answers on its control socket, asked for by name or not", () =>
  withSocket(sluice, (path) =>
    assert.rejects(
      invoke(["run", "--source", "file:/nowhere", "--proxy-mode", "nftables", "--control-socket", path]),
      /another sluice is running \(pid \d+\)/,
    )));
